//! Futures that run to their end even if their caller drops them.
//!
//! An adapter runs a handler on the task of its connection. The handler then sees the task-locals of
//! the middleware around it, and no task is spawned for it. If the client disconnects, the
//! connection drops the handler's future; [`detachable`] moves it to a task of its own at that
//! moment, where it runs to its end.

pub use crate::engine::{Detachable, detachable};
