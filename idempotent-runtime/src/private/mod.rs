//! Functions and types for generated code. Not part of the public interface.
//!
//! In the order of an expansion: constants, the key, the call, the function's return type with its
//! hooks, and the run, which may be part of a transaction.

mod answers;
mod call;
mod constants;
mod hooks;
mod key;
mod run;
mod transaction;

pub use self::answers::{
    FinalErrors, FromRefusal, Kept, KeptError, ReturnsResult, Unsearched, plain, replay,
};
pub use self::call::{Call, Lends, Shown, Worded, instance, worded};
pub use self::constants::{IsDuration, IsText, duration, text, type_of};
pub use self::hooks::{
    Applies, IsFinal, Never, NeverApplies, Replayed, Retention, expire_with, final_errors,
    on_replay,
};
pub use self::key::{Displayed, IsOption, ambient_key, key, option, optional_key, template, tuple};
pub use self::run::{Detach, Run, RunDetached, Witness, run, run_detached};
pub use self::transaction::{Boxed, ClaimIn, InTransaction, RunBody, claim};
pub use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};
pub use crate::key::{Encoded, Parts};
pub use crate::site::Site;
