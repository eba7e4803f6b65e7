//! A call of an attributed function: its site, key, message and instance.

use crate::engine::{self, ArcRef, Prepared};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::install;
use crate::instance::Idempotency;
use crate::key::Encoded;
use crate::options::Options;
use crate::site::Site;
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Deref;

/// The instance named by `with`.
pub fn instance<I: Lends + ?Sized>(with: &I) -> Idempotency {
    with.lend().clone()
}

/// Values that lead to an instance: the instance itself, and whatever dereferences to one, however
/// many steps away. So do references, `Arc`, and the state extractors of web frameworks.
#[diagnostic::on_unimplemented(
    message = "`with` takes an `Idempotency`, this is `{Self}`",
    label = "neither an `Idempotency` nor anything that dereferences to one",
    note = "in a method, a field: `with = self.idempotency`, with `idempotency: idempotent_runtime::Idempotency`; \
            in a function, a parameter: `with = idempotency`, with `idempotency: &idempotent_runtime::Idempotency`",
    note = "a `OnceLock`: `with = INSTANCE.get().expect(\"built at the start\")`; or call `install()` on the instance, and leave \
            `with` out",
    note = "a store or a builder becomes an instance once, at the start, and not for each call: \
            `idempotent_runtime::Idempotency::builder().store(store).build()?`",
    note = "an `Option`: keep an `Idempotency` in its place; for runs without protection, build one with \
            `idempotent_runtime::Idempotency::builder().disabled().build()?`"
)]
pub trait Lends {
    /// The instance.
    fn lend(&self) -> &Idempotency;
}

#[diagnostic::do_not_recommend]
impl Lends for Idempotency {
    fn lend(&self) -> &Idempotency {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<D: Deref<Target: Lends> + ?Sized> Lends for D {
    fn lend(&self) -> &Idempotency {
        (**self).lend()
    }
}

/// Values in the text of `message`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be shown in `message`: it does not implement `Display`",
    label = "does not implement `Display`",
    note = "to show it as `Debug` does, end its placeholder with `:?`, as in `{{req.items:?}}`",
    note = "or name a field that implements `Display`, or a method that returns text"
)]
pub trait Shown: fmt::Display {}

#[diagnostic::do_not_recommend]
impl<T: fmt::Display + ?Sized> Shown for T {}

/// The text of `message` with the values of one call in it, and the other options of the site.
///
/// It is written before the body takes the arguments, whether the call is refused or not.
#[derive(Debug)]
pub struct Worded {
    options: Options,
    text: String,
}

/// Starts the message of one call.
pub fn worded(site: &'static Site) -> Worded {
    Worded { options: site.options.clone(), text: String::new() }
}

impl Worded {
    /// Adds literal text.
    pub fn text(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Adds a value as it displays itself.
    pub fn value<T: Shown + ?Sized>(mut self, value: &T) -> Self {
        // The sink never fails. A `Display` that fails keeps the text that it wrote until then.
        let _ = write!(self.text, "{value}");
        self
    }

    /// Adds a value as it shows itself to programmers.
    pub fn debug<T: fmt::Debug + ?Sized>(mut self, value: &T) -> Self {
        let _ = write!(self.text, "{value:?}");
        self
    }

    /// Completes the message.
    pub fn finish(mut self) -> Self {
        self.options.message = Some(Cow::Owned(std::mem::take(&mut self.text)));
        self
    }
}

/// One call of an attributed function.
#[derive(Debug)]
pub struct Call<'a> {
    site: &'static Site,
    options: &'a Options,
    key: Encoded,
    scope: Option<Encoded>,
    fingerprint: Option<Encoded>,
    instance: Option<&'a Idempotency>,
}

impl<'a> Call<'a> {
    /// Creates a call with this key.
    pub fn new(site: &'static Site, key: Encoded) -> Self {
        let options = &site.options;
        Self { site, options, key, scope: None, fingerprint: None, instance: None }
    }

    /// Sets the function's own scope.
    pub fn scope(mut self, scope: Encoded) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Sets the payload that must not change.
    pub fn fingerprint(mut self, fingerprint: Encoded) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// Sets the message of this call.
    pub fn message(mut self, message: &'a Worded) -> Self {
        self.options = &message.options;
        self
    }

    /// Sets the instance.
    pub fn instance(mut self, instance: &'a Idempotency) -> Self {
        self.instance = Some(instance);
        self
    }
}

impl<'a> engine::Prepare<'a> for Call<'a> {
    fn prepare(self) -> Result<Prepared<'a>, Error> {
        let (engine, call) = self.on_engine()?;
        engine::prepare(engine, call)
    }
}

impl<'a> Call<'a> {
    /// The call, and the engine of its instance.
    #[inline]
    pub(super) fn on_engine(self) -> Result<(ArcRef<'a, engine::Engine>, engine::Call<'a>), Error> {
        let operation = self.site.operation()?;
        let engine = match self.instance {
            Some(instance) => ArcRef::Borrowed(instance.engine()),
            None => install::engine().map_err(|error| {
                Error::new(ErrorKind::Misconfigured, &operation).with_message(error.to_string())
            })?,
        };
        let call = engine::Call {
            operation,
            options: self.options,
            key: self.key,
            scope: self.scope,
            hash_tag: None,
            fingerprint: self.fingerprint.as_ref().map(Fingerprint::of_encoded),
        };
        Ok((engine, call))
    }
}
