//! Static description of an attributed function: its name and its arguments.

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

/// An attributed function, in a `static` of the generated code.
#[derive(Debug)]
pub struct Site {
    name: &'static str,
    origin: Origin,
    at: &'static Location<'static>,
    pub(crate) options: Options,
    /// Result of the checks at the first call: the reason why the function must not be called, if
    /// there is one.
    checked: OnceLock<Result<(), String>>,
}

/// The origin of a function's name.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Given,
    /// Given, and shared with other functions.
    Shared,
    /// The module path and the name of the function. The path of an item inside the function shows
    /// the types and functions around it.
    Derived(fn() -> &'static str),
}

macro_rules! choices {
    ($($name:ident: $type:ty;)*) => {$(
        #[doc = concat!("Sets `", stringify!($name), "`.")]
        pub const fn $name(mut self, $name: $type) -> Self {
            self.options.$name = Some($name);
            self
        }
    )*};
}

impl Site {
    /// Creates a site with a name that was derived from the module path. `_inside` is any closure
    /// in the function.
    #[track_caller]
    pub const fn derived<C: Copy>(name: &'static str, _inside: C) -> Self {
        Self::new(name, Origin::Derived(type_name::<C>))
    }

    /// Creates a site with a given name.
    #[track_caller]
    pub const fn named(name: &'static str) -> Self {
        Self::new(name, Origin::Given)
    }

    /// Creates a site with a given name that other functions share.
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
        expire: Duration;
        lease: Duration;
        max_run: Duration;
    }

    /// Sets `bind_payload_after_failure`.
    pub const fn bind_payload_after_failure(mut self) -> Self {
        self.options.binding = Binding::Kept;
        self
    }

    /// Names an argument that has an effect in strong mode only, of a function without `mode`.
    pub const fn for_strong(mut self, argument: &'static str) -> Self {
        self.options.for_strong = Some(argument);
        self
    }

    /// Sets `message`.
    pub const fn message(mut self, message: &'static str) -> Self {
        let before = self.options.message.replace(Cow::Borrowed(message));
        // Constants cannot run destructors. Nothing leaks, because the old value is `'static`.
        std::mem::forget(before);
        self
    }

    /// The operation's name. Fails if another function has it, or may have it, because the two
    /// would replay each other's answers.
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
            // Refused at the first call, so that all processes behave alike: which of two functions
            // is called first differs between them.
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

/// Registers a site under its name, or returns the one that has the name already. Functions that
/// share a name on purpose do not collide.
///
/// Sites are compared by address, because two functions from one macro have the same source
/// position.
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
