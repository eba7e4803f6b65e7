//! What generated code calls. Not part of the public interface.

pub use crate::config::{Abandon, Mode, OnStoreError};
pub use crate::key::{Encoded, Parts};
pub use crate::site::Site;

use crate::answers::Answers;
use crate::engine::{self, InstanceRef, Prepared};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::instance::Idempotency;
use crate::install;
use crate::key::KeyPart;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Borrow;
use std::future::Future;
use std::pin::Pin;

/// A key that is one part.
pub fn key<K: KeyPart + ?Sized>(part: &K) -> Encoded {
    Encoded::of(part)
}

/// A key that is one optional part.
pub fn optional_key<K: KeyPart>(part: &Option<K>) -> Encoded {
    Encoded::of_optional(part)
}

/// The ambient token.
pub fn ambient_key() -> Encoded {
    Encoded::ambient()
}

/// Starts a tuple.
pub fn tuple() -> Parts {
    Parts::tuple()
}

/// Starts a template.
pub fn template() -> Parts {
    Parts::template()
}

/// The instance named by `with`.
pub fn instance<I: Borrow<Idempotency> + ?Sized>(with: &I) -> Idempotency {
    with.borrow().clone()
}

/// One call of an attributed function.
#[derive(Debug)]
pub struct Call<'a> {
    site: &'static Site,
    key: Encoded,
    scope: Option<Encoded>,
    fingerprint: Option<Encoded>,
    instance: Option<&'a Idempotency>,
}

impl<'a> Call<'a> {
    /// A call with this key.
    pub fn new(site: &'static Site, key: Encoded) -> Self {
        Self { site, key, scope: None, fingerprint: None, instance: None }
    }

    /// With a scope of its own.
    pub fn scope(mut self, scope: Encoded) -> Self {
        self.scope = Some(scope);
        self
    }

    /// With a payload that must not change.
    pub fn fingerprint(mut self, fingerprint: Encoded) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// On this instance.
    pub fn instance(mut self, instance: &'a Idempotency) -> Self {
        self.instance = Some(instance);
        self
    }

    fn prepare(self) -> Result<Prepared<'a>, Error> {
        let operation = self.site.operation()?;
        let instance = match self.instance {
            Some(instance) => InstanceRef::Borrowed(instance),
            None => install::instance().map_err(|error| {
                Error::new(ErrorKind::Misconfigured, &operation).with_message(error.to_string())
            })?,
        };
        let call = engine::Call {
            operation,
            options: &self.site.options,
            key: self.key,
            scope: self.scope,
            fingerprint: self.fingerprint.as_ref().map(Fingerprint::of_encoded),
        };
        Prepared::new(instance, call)
    }
}

/// A function that can be idempotent returns one of these.
#[diagnostic::on_unimplemented(
    message = "an idempotent function returns a `Result`, this one returns `{Self}`",
    label = "not a `Result`",
    note = "the error type tells the caller that a call was refused; it needs `From<idempotent_runtime::Error>`"
)]
pub trait ReturnsResult: sealed::Sealed {
    /// What it returns on success.
    type Value;
    /// What it returns otherwise.
    type Error;
}

impl<T, E> ReturnsResult for Result<T, E> {
    type Value = T;
    type Error = E;
}

mod sealed {
    pub trait Sealed {}
    impl<T, E> Sealed for Result<T, E> {}
}

/// The answers of a function whose values are kept.
pub fn replay<R: ReturnsResult>() -> Answers<R::Value, R::Error>
where
    R::Value: Serialize + DeserializeOwned,
    R::Error: From<Error>,
{
    Answers::kept()
}

/// The answers of a function whose values are not kept.
pub fn plain<R: ReturnsResult>() -> Answers<R::Value, R::Error>
where
    R::Error: From<Error>,
{
    Answers::not_kept()
}

/// Runs the body once per key.
pub fn run<'a, T, E, F>(
    call: Call<'a>,
    answers: Answers<T, E>,
    body: Pin<&'a mut F>,
) -> impl Future<Output = Result<T, E>> + use<'a, T, E, F>
where
    F: Future<Output = Result<T, E>>,
{
    // Prepared here, so that the future holds what is left of the call and not the call itself.
    let prepared = call.prepare();
    async move {
        match prepared {
            Ok(call) => engine::run(call, answers, body).await.map(|outcome| outcome.value),
            Err(error) => Err(refuse(error, &answers)),
        }
    }
}

/// Runs the body once per key, to its end even if the caller goes away.
pub async fn run_detached<T, E, F>(
    call: Call<'_>,
    answers: Answers<T, E>,
    body: F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    match call.prepare() {
        Ok(call) => engine::run_detached(call, answers, body).await.map(|outcome| outcome.value),
        Err(error) => Err(refuse(error, &answers)),
    }
}

fn refuse<T, E>(error: Error, answers: &Answers<T, E>) -> E {
    (answers.refuse)(error)
}
