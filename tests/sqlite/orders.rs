//! Orders of a worker: its only argument, as JSON.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SqliteOrders {
    /// Makes calls; the path is the URL that the store is reached at.
    Calls(Box<support::worker::Orders>),
    /// Begins new keys without a break, until it is killed.
    Begin { path: PathBuf, name: String, callers: usize },
    /// Begins keys from 0 on until it fails, and prints the first that failed, and why.
    Fill { path: PathBuf },
    /// Opens the file and prints the error, if there is one.
    Open { path: PathBuf },
}
