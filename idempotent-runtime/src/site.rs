//! What the attribute writes down about a function: its name and its choices.

use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};
use crate::derived_name::{LeftOut, left_out};
use crate::error::{Error, ErrorKind};
use crate::operation_name::OperationName;
use crate::options::Options;
use crate::protocol::Binding;
use crate::sync::{Mutex, lock};
use std::any::type_name;
use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::OnceLock;
use std::time::Duration;

/// One attributed function. Lives in a `static`.
#[derive(Debug)]
pub struct Site {
    name: &'static str,
    origin: Origin,
    at: &'static Location<'static>,
    pub(crate) options: Options,
    /// The reason for which the function must not be called, if there is one.
    checked: OnceLock<Result<(), String>>,
}

/// The origin of a function's name.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Given,
    /// Given, and meant to be that of other functions, too.
    Shared,
    /// The module path and the name of the function. The path of an item inside the function shows
    /// what else it stands in.
    Derived(fn() -> &'static str),
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
    /// A function whose name was derived from the module it is in. `_inside` is any closure in it.
    #[track_caller]
    pub const fn derived<C: Copy>(name: &'static str, _inside: C) -> Self {
        Self::new(name, Origin::Derived(type_name::<C>))
    }

    /// A function whose name was given.
    #[track_caller]
    pub const fn named(name: &'static str) -> Self {
        Self::new(name, Origin::Given)
    }

    /// A function whose name was given, and is that of other functions, too.
    #[track_caller]
    pub const fn shared(name: &'static str) -> Self {
        Self::new(name, Origin::Shared)
    }

    #[track_caller]
    const fn new(name: &'static str, origin: Origin) -> Self {
        let at = Location::caller();
        Self { name, origin, at, options: Options::NONE, checked: OnceLock::new() }
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

    /// Sets `bind_payload_after_failure`.
    pub const fn bind_payload_after_failure(mut self) -> Self {
        self.options.binding = Binding::Kept;
        self
    }

    /// Sets `message`.
    pub const fn message(mut self, message: &'static str) -> Self {
        let before = self.options.message.replace(Cow::Borrowed(message));
        // Nothing to free: whatever was there is `'static`. Constants cannot run destructors.
        std::mem::forget(before);
        self
    }

    /// The operation's name. An error if another function has it, or may have it: they would take
    /// each other's answers.
    pub(crate) fn operation(&'static self) -> Result<OperationName, Error> {
        match self.checked.get_or_init(|| self.check()) {
            Ok(()) => Ok(self.name.into()),
            Err(text) => {
                Err(Error::new(ErrorKind::Misconfigured, &self.name.into()).with_message(text))
            }
        }
    }

    fn check(&'static self) -> Result<(), String> {
        if let Origin::Derived(inside) = self.origin
            && let Some(LeftOut { surroundings, proposal }) = left_out(self.name, inside())
        {
            let at = self.at;
            let surroundings = match &*surroundings {
                "" => "a block".to_owned(),
                named => format!("`{named}`"),
            };
            // At the first call, so that every process does the same: which of two functions is
            // called first differs between them.
            return Err(format!(
                "the function at {at} is inside {surroundings}, which its derived name leaves out, \
                 so that another function can have the same name; help: add \
                 `name = \"{proposal}\"`"
            ));
        }
        match register(self) {
            Ok(()) => Ok(()),
            Err(Site { at, .. }) => Err(format!(
                "the function at {at} has the same name, and each would take the other's answers; \
                 help: give this one another `name = \"..\"`, or if that is meant, both a \
                 `shared_name`"
            )),
        }
    }
}

/// Remembers the first function of each name, and finds out which it was. Functions that share a
/// name on purpose are told apart from all others.
///
/// Sites are told apart by their addresses: two functions that one macro wrote have one position.
fn register(site: &'static Site) -> Result<(), &'static Site> {
    static FIRST: OnceLock<Mutex<HashMap<&'static str, &'static Site>>> = OnceLock::new();
    let mut first = lock(FIRST.get_or_init(Mutex::default));
    let first = *first.entry(site.name).or_insert(site);
    match (first.origin, site.origin) {
        (Origin::Shared, Origin::Shared) => Ok(()),
        _ if std::ptr::eq(first, site) => Ok(()),
        _ => Err(first),
    }
}
