//! Rows that several callers change at the same time: locks and versions.
//!
//! A value that is read, changed in the program and written back loses updates: two callers read
//! 5, both write 4. Two remedies:
//!
//! * [`lock`]: the first caller holds the row until its transaction ends, the others wait. Right
//!   where conflicts are common, and the work between reading and writing is short.
//! * [`Versioned`]: no caller waits; one whose row was changed in between is told so, and starts
//!   again. Right where conflicts are rare, or a person looks at the value in between.
//!
//! A change that fits into one statement (`UPDATE stock SET count = count - 1 WHERE count >= 1`)
//! needs neither.

mod error;
mod identifier;
mod key;
mod lock;
pub(crate) mod transaction;
mod versioned;

pub(crate) use error::not_unique;
pub use error::{EntityError, EntityErrorKind};
pub(crate) use identifier::Identifier;
pub use key::EntityKey;
pub(crate) use key::check_text;
pub use lock::{Lock, lock};
pub use versioned::{Save, Versioned, VersionedTable};
