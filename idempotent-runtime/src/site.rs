//! What the attribute writes down about a function: its name and its choices.

use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};
use crate::error::{Error, ErrorKind};
use crate::operation_name::OperationName;
use crate::options::Options;
use crate::sync::{Mutex, lock};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

/// One attributed function. Lives in a `static`.
#[derive(Debug)]
pub struct Site {
    name: &'static str,
    /// Where the function is, if its name was not given but derived.
    derived_at: Option<Position>,
    pub(crate) options: Options,
    checked: OnceLock<Result<(), Position>>,
}

/// A place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    file: &'static str,
    line: u32,
    column: u32,
}

macro_rules! choices {
    ($($name:ident: $type:ty $(, not zero $zero:literal)?;)*) => {$(
        #[doc = concat!("Sets `", stringify!($name), "`.")]
        pub const fn $name(mut self, $name: $type) -> Self {
            $(assert!(!$name.is_zero(), $zero);)?
            self.options.$name = Some($name);
            self
        }
    )*};
}

impl Site {
    /// A function whose name was derived from where it stands.
    pub const fn defaulted(name: &'static str, file: &'static str, line: u32, column: u32) -> Self {
        let derived_at = Some(Position { file, line, column });
        Self { name, derived_at, options: Options::NONE, checked: OnceLock::new() }
    }

    /// A function whose name was given.
    pub const fn named(name: &'static str) -> Self {
        Self { name, derived_at: None, options: Options::NONE, checked: OnceLock::new() }
    }

    choices! {
        mode: Mode;
        abandon: Abandon;
        on_store_error: OnStoreError;
        on_unrecorded: OnUnrecorded;
        wait: Duration;
        expire: Duration, not zero "`expire` must be longer than zero";
        lease: Duration, not zero "`lease` must be longer than zero";
        max_run: Duration, not zero "`max_run` must be longer than zero";
    }

    /// Sets `message`.
    pub const fn message(mut self, message: &'static str) -> Self {
        let before = self.options.message.replace(Cow::Borrowed(message));
        // Nothing to free: whatever was there is `'static`. Constants cannot run destructors.
        std::mem::forget(before);
        self
    }

    /// The operation's name. An error if another function derived the same one: they would take
    /// each other's answers.
    pub(crate) fn operation(&'static self) -> Result<OperationName, Error> {
        let Some(here) = self.derived_at else { return Ok(self.name.into()) };
        match self.checked.get_or_init(|| register(self, here)) {
            Ok(()) => Ok(self.name.into()),
            Err(Position { file, line, .. }) => {
                let text = format!(
                    "the function at {file}:{line} has the same name; give each one its own with \
                     `name = \"..\"`"
                );
                Err(Error::new(ErrorKind::Misconfigured, &self.name.into()).with_message(text))
            }
        }
    }
}

/// Remembers who derived the name of `site`, and finds out who did so before.
///
/// Sites are told apart by where they live: two functions that one macro wrote have one position.
fn register(site: &'static Site, here: Position) -> Result<(), Position> {
    static DERIVED: OnceLock<Mutex<HashMap<&'static str, (usize, Position)>>> = OnceLock::new();
    let mut derived = lock(DERIVED.get_or_init(Mutex::default));
    let identity = std::ptr::from_ref(site).addr();
    match derived.get(site.name) {
        Some((other, position)) if *other != identity => Err(*position),
        _ => {
            derived.insert(site.name, (identity, here));
            Ok(())
        }
    }
}
