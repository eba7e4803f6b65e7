//! The traits of serde that kept answers need, and a text of its own for each that is missing.
//!
//! `levels` has the types through which the compiler finds what is missing, `values` what is asked of values,
//! and `errors` what is asked of errors.
//!
//! The methods of generated code have names that no trait of the user's has: one for all types would come before
//! a method that is found by dereferencing.

mod errors;
mod levels;
mod values;

pub use self::errors::{KeptError, ReadBackError, WrittenError};
pub use self::levels::{Other, Readable, Returned, Writable};
pub use self::values::*;
