//! A call before it is made: which instance, which record, which rules.

use super::admission::{Permit, around};
use super::backoff::Backoff;
use super::core::Core;
use super::lease::Terms;
use crate::ambient;
use crate::clock::Moment;
use crate::config::{Abandon, Config, Mode};
use crate::current;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::instance::Idempotency;
use crate::key::{Encoded, InvalidKey, MAX_KEY_BYTES, Origin, RecordKey, Scope, spare};
use crate::operation_name::OperationName;
use crate::options::{Options, Policy};
use crate::protocol::BeginRequest;
use crate::store::{Claim, Token};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// The instance that a call goes to.
#[derive(Clone, Debug)]
pub(crate) enum InstanceRef<'a> {
    Borrowed(&'a Idempotency),
    Owned(Idempotency),
}

impl InstanceRef<'_> {
    pub(crate) fn into_owned(self) -> InstanceRef<'static> {
        match self {
            Self::Borrowed(instance) => InstanceRef::Owned(instance.clone()),
            Self::Owned(instance) => InstanceRef::Owned(instance),
        }
    }
}

impl Deref for InstanceRef<'_> {
    type Target = Idempotency;

    fn deref(&self) -> &Idempotency {
        match self {
            Self::Borrowed(instance) => instance,
            Self::Owned(instance) => instance,
        }
    }
}

/// What the caller asks for.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) operation: OperationName,
    pub(crate) options: &'a Options,
    pub(crate) key: Encoded,
    pub(crate) scope: Option<Encoded>,
    pub(crate) hash_tag: Option<&'a str>,
    pub(crate) fingerprint: Option<Fingerprint>,
}

/// A call that can be made: its record has a name and its rules are settled.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) instance: InstanceRef<'a>,
    pub(crate) operation: OperationName,
    pub(crate) options: &'a Options,
    pub(crate) key: RecordKey,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) policy: Policy,
    /// When the call was made, if it may wait: its `wait` counts from here.
    pub(crate) called_at: Moment,
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        self.core().keeper.call_ended();
    }
}

/// Something that a shutdown waits for.
#[derive(Debug)]
pub(crate) struct Underway(Idempotency);

impl Underway {
    pub(crate) fn new(instance: &Idempotency) -> Self {
        instance.core().keeper.call_begins();
        Self(instance.clone())
    }

    /// Whether a shutdown had begun before it.
    pub(crate) fn is_too_late(&self) -> bool {
        self.0.core().keeper.is_stopping()
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.core().keeper.call_ended();
    }
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(instance: InstanceRef<'a>, call: Call<'a>) -> Result<Self, Error> {
        let config = instance.core().config.load();
        let policy = Policy::of(call.options, &config).map_err(|text| {
            Error::new(ErrorKind::Misconfigured, &call.operation).with_message(text)
        })?;
        let key = record_key(&call, &config)?;
        drop(config);
        if policy.mode != Mode::Window {
            instance.core().short_leases.check(&call.operation, policy.lease);
        }
        let called_at = instance.core().clock.now();
        let Call { operation, options, fingerprint, key: encoded, .. } = call;
        spare::give_back(encoded.text);
        // Counted before it is refused: a shutdown either sees this call or is seen by it.
        instance.core().keeper.call_begins();
        let prepared = Self { instance, operation, options, key, fingerprint, policy, called_at };
        prepared.admit()?;
        Ok(prepared)
    }

    /// What can be refused before the store is asked.
    fn admit(&self) -> Result<(), Error> {
        if self.core().keeper.is_stopping() {
            return Err(self.error(ErrorKind::ShuttingDown));
        }
        let identity = self.instance.identity();
        if current::holds(identity, &self.key) {
            return Err(self.error(ErrorKind::Reentrant));
        }
        Ok(())
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.instance.core()
    }

    /// The permit of the body that makes this call, which its own body shares.
    pub(crate) fn permit_around(&self) -> Option<Arc<Permit>> {
        let is_limited = self.policy.max_concurrent.is_some() && self.policy.may_run();
        is_limited.then(|| around(self.instance.identity())).flatten()
    }

    /// A request to begin, to be sent at `now`.
    pub(crate) fn request(&self, token: Token, now: Moment) -> BeginRequest {
        BeginRequest {
            token,
            fingerprint: self.fingerprint,
            fence_seed: self.core().clock.unix_micros(now),
            claim: self.claim(),
        }
    }

    /// How the key is to be held.
    pub(crate) fn claim(&self) -> Claim {
        let Policy { lease, retention, mode, .. } = self.policy;
        match mode {
            Mode::Window => Claim::Window { window: retention },
            // A key that blocks is armed when its body is about to start, and not before: a `begin`
            // that arrives after its caller was refused costs one lease, whatever the policy.
            Mode::Reject | Mode::Strong => {
                Claim::Lease { lease, linger: retention, abandon: Abandon::Retry }
            }
        }
    }

    pub(crate) fn terms(&self, sent_at: Moment) -> Terms {
        let Policy { retention, lease, max_run, block_linger, binding, .. } = self.policy;
        let clock = self.core().clock.clone();
        Terms { retention, length: lease, max_run, block_linger, binding, sent_at, clock }
    }

    /// An error of this call. Duplicates and calls in progress carry the function's message.
    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        let config = self.core().config.load();
        let error = Error::new(kind, &self.operation).with_key(self.logged_key(&config));
        match kind {
            ErrorKind::Duplicate | ErrorKind::InProgress => {
                let message = self.options.message.as_deref().unwrap_or(&config.message);
                error.with_message(message)
            }
            _ => error,
        }
    }

    /// The error of a call whose key is held for so long, if its holder has died.
    pub(crate) fn in_progress(&self, lease_left: Duration) -> Error {
        self.error(ErrorKind::InProgress).with_retry_after(self.options.ask_again(lease_left))
    }

    /// The error of a call that makes no further attempt because so many failed while it waited.
    pub(crate) fn after_failures(&self, failed: u32) -> Error {
        let text = "the attempts that this call waited for failed, and it makes no further one";
        let error = self.error(ErrorKind::InProgress).with_message(text);
        error.with_retry_after(self.backs_off(failed))
    }

    /// The pause before another call with the key, after so many failed attempts.
    ///
    /// It differs from caller to caller, so that those that waited together do not return together.
    pub(crate) fn backs_off(&self, failed: u32) -> Duration {
        let mut backoff = Backoff::new(self.core().config.load().retry_interval);
        let pauses = std::iter::repeat_with(|| backoff.pause());
        let pause = pauses.take(failed as usize + 1).last().unwrap_or_default();
        self.options.ask_again(pause)
    }

    pub(crate) fn logged_key(&self, config: &Config) -> String {
        crate::observe::LoggedKey { key: &self.key, in_full: config.log_keys }.to_string()
    }
}

/// The name of the call's record.
pub(crate) fn record_key(call: &Call<'_>, config: &Config) -> Result<RecordKey, Error> {
    let fault = |kind, text: &str| Err(Error::new(kind, &call.operation).with_message(text));
    let own = match &call.scope {
        None => "",
        Some(scope) if scope.origin != Origin::Given => {
            return fault(ErrorKind::MissingKey, "the scope is missing or empty");
        }
        Some(scope) => scope.as_str(),
    };
    ambient::with(|ambient| {
        let token;
        let key = match call.key.origin {
            Origin::Given => call.key.as_str(),
            Origin::Empty => return fault(ErrorKind::InvalidKey, "the key is empty"),
            Origin::Absent => return fault(ErrorKind::MissingKey, "the key's field is `None`"),
            Origin::Ambient => match ambient.and_then(|ambient| ambient.token.as_deref()) {
                None => return fault(ErrorKind::MissingKey, "no token is in place"),
                Some("") => return fault(ErrorKind::InvalidKey, "the token is empty"),
                Some(text) => {
                    token = Encoded::of(text);
                    token.as_str()
                }
            },
        };
        let ambient_scope = ambient.and_then(|ambient| ambient.scope.as_ref());
        if ambient_scope.is_some_and(|scope| scope.origin != Origin::Given) {
            return fault(ErrorKind::MissingKey, "the ambient scope is missing");
        }
        let scope = Scope { ambient: ambient_scope.map_or("", Encoded::as_str), own };
        let key = RecordKey::compose(&config.key_prefix, &call.operation, scope, key).map_err(
            |InvalidKey::TooLong { bytes }| {
                Error::new(ErrorKind::InvalidKey, &call.operation)
                    .with_message(format!("the key has {bytes} bytes, {MAX_KEY_BYTES} are allowed"))
            },
        )?;
        match call.hash_tag {
            None => Ok(key),
            Some(tag) => match key.with_hash_tag(tag) {
                Some(key) => Ok(key),
                None => fault(ErrorKind::InvalidKey, "the hash tag is empty or holds a brace"),
            },
        }
    })
}
