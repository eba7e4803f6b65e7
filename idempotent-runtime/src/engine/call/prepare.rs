//! A call before it is made: which instance, which record, which rules.

use crate::ambient;
use crate::config::{Config, Mode};
use crate::engine::arc_ref::ArcRef;
use crate::engine::attempt::current;
use crate::engine::flight::{Engine, Prepared};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::key::{Encoded, InvalidKey, MAX_KEY_BYTES, Origin, RecordKey, Scope, spare};
use crate::operation_name::OperationName;
use crate::options::{Options, Policy};

/// A call as its caller makes it.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) operation: OperationName,
    pub(crate) options: &'a Options,
    pub(crate) key: Encoded,
    pub(crate) scope: Option<Encoded>,
    pub(crate) hash_tag: Option<&'a str>,
    pub(crate) fingerprint: Option<Fingerprint>,
}

/// Prepares a call on an instance.
///
/// A prepared call is large. It is only looked at on its way, so that it is made where it stays.
pub(crate) fn prepare<'a>(
    engine: ArcRef<'a, Engine>,
    call: Call<'a>,
) -> Result<Prepared<'a>, Error> {
    let result = prepare_within(engine, call);
    if let Ok(prepared) = &result
        && current::is_locked_out(prepared.engine().identity())
    {
        let text = "it would wait for a transaction of this call chain, which has locked the store\n\
                    help: call it before the transaction or after it, or in it, with \
                    `transaction = \"tx\"`";
        return Err(prepared.error(ErrorKind::Reentrant).with_message(text));
    }
    result
}

/// Prepares a call that is part of a transaction: one around it does not keep it waiting.
#[inline]
pub(crate) fn prepare_within<'a>(
    engine: ArcRef<'a, Engine>,
    call: Call<'a>,
) -> Result<Prepared<'a>, Error> {
    let config = engine.config.load();
    let policy = Policy::of(call.options, &config);
    ambient::call_prepared(policy.as_ref().ok().map(|policy| (policy.mode, policy.retention)));
    let mut policy = match policy {
        Ok(policy) => policy,
        Err(text) => {
            return Err(Error::new(ErrorKind::Misconfigured, &call.operation).with_message(text));
        }
    };
    // A limit of what the adapter calls, and not of what that calls in its body.
    policy.max_attempts = ambient::with(|ambient| ambient?.max_attempts)
        .filter(|_| policy.mode != Mode::Window && current::enclosing().is_none());
    engine.idle_arguments.check(&call.operation, call.options, policy.mode);
    let key = record_key(&call, &config)?;
    drop(config);
    if policy.mode != Mode::Window {
        engine.short_leases.check(&call.operation, policy.lease);
    }
    let called_at = engine.clock.now();
    let Call { operation, options, fingerprint, key: encoded, .. } = call;
    spare::give_back(encoded.text);
    // Counted before it is refused: a shutdown either sees this call or is seen by it.
    engine.keeper.call_begins();
    let result = Ok(Prepared { engine, operation, options, key, fingerprint, policy, called_at });
    if let Ok(prepared) = &result {
        admit(prepared)?;
    }
    result
}

/// Refuses a call for reasons that are known before the store is asked.
fn admit(call: &Prepared<'_>) -> Result<(), Error> {
    if call.engine().keeper.is_stopping() {
        return Err(call.error(ErrorKind::ShuttingDown));
    }
    if current::holds(call.engine().identity(), &call.key) {
        return Err(call.error(ErrorKind::Reentrant));
    }
    Ok(())
}

/// Text for a call without `key`, outside of an adapter.
const NO_TOKEN: &str = "no token is in place; help: `key = \"req.order_id\"`, or for the token of a \
                        request a layer or a consumer around the call";

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
                None => return fault(ErrorKind::MissingKey, NO_TOKEN),
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
