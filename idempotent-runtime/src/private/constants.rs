//! Constants that the user names in the attribute.
//!
//! Their types are checked apart from their values, so that another type is one error with a text of
//! its own: in a `static`, no trait can convert them.

use crate::config::LEASES;
use std::marker::PhantomData;
use std::time::Duration;

/// The type of a constant.
pub const fn type_of<T: ?Sized>(_: &T) -> PhantomData<T> {
    PhantomData
}

/// Types of times.
#[diagnostic::on_unimplemented(
    message = "a time is a constant of type `std::time::Duration`, this is `{Self}`",
    label = "not a `std::time::Duration`",
    note = "a constant with a number of seconds goes into `std::time::Duration::from_secs(..)`, one with \
            milliseconds into `std::time::Duration::from_millis(..)`",
    note = "for a duration of chrono or of time, one of the standard library: `const RETENTION: std::time::Duration = \
            std::time::Duration::from_secs(12 * 60 * 60);`",
    note = "or write the time itself, with its unit and in quotes: `\"300s\"`, `\"5m\"`, `\"12h\"`, `\"200ms\"`; as good as \
            without a limit: `wait = \"24h\"`, `expire = \"3650d\"`",
    note = "for a time that is known only at run time, as in a `LazyLock`, leave the argument out, and set it at the start: \
            `idempotent_runtime::Idempotency::builder().config(idempotent_runtime::Config::new().with_expire(*RETENTION))\
            .build()?.install()?`; one that depends on the value belongs in `expire_with`"
)]
pub trait IsDuration {
    /// The type itself.
    type Value;
}

#[diagnostic::do_not_recommend]
impl IsDuration for Duration {
    type Value = Duration;
}

/// Returns the time.
pub const fn duration<D: IsDuration<Value = Duration>>(
    _: PhantomData<D>,
    time: D::Value,
) -> Duration {
    time
}

// The macro checks the values of literals itself. Those of constants only the compiler knows, and it points at the call.

/// Returns the time of `expire`.
#[track_caller]
pub const fn expire(time: Duration) -> Duration {
    assert!(!time.is_zero(), "`expire` must be longer than zero; help: `expire = \"5m\"`");
    time
}

/// Returns the time of `lease`.
#[track_caller]
pub const fn lease(time: Duration) -> Duration {
    let (shortest, longest) = (LEASES.start(), LEASES.end());
    let is_within = time.as_nanos() >= shortest.as_nanos() && time.as_nanos() <= longest.as_nanos();
    assert!(is_within, "`lease` must be between 10 ms and 24 h; help: `lease = \"30s\"`");
    time
}

/// Returns the time of `max_run`, beside a `lease`. `refusal` is the text for one that is shorter.
#[track_caller]
pub const fn max_run(time: Duration, lease: Duration, refusal: &'static str) -> Duration {
    if time.is_zero() || time.as_nanos() < lease.as_nanos() {
        panic!("{}", refusal);
    }
    time
}

/// Types of texts.
#[diagnostic::on_unimplemented(
    message = "`message` takes a `&'static str`, this is `{Self}`",
    label = "not a `&'static str`",
    note = "write the text itself, in quotes; or name a constant of type `&str`",
    note = "with values of the call, it is a template in quotes, with the path of each value in braces"
)]
pub trait IsText {
    /// The type itself.
    type Value;
}

#[diagnostic::do_not_recommend]
impl IsText for &'static str {
    type Value = &'static str;
}

/// Returns the text.
pub const fn text<T: IsText<Value = &'static str>>(
    _: PhantomData<T>,
    text: T::Value,
) -> &'static str {
    text
}
