//! The value of a call, its origin, and the state of its record.

/// The value of a call, and its origin.
///
/// A function with the attribute that returns `Result<Outcome<T>, E>` tells its callers whether they
/// got a replay. Its body wraps the value with [`new`](Self::new) or `into`, and the caller gets the
/// other fields filled in. The value alone is stored, so that a function can change from `T` to
/// `Outcome<T>` and back and keeps its records.
///
/// ```
/// use idempotent_runtime::{Error, Outcome, idempotent};
///
/// #[idempotent(key = "id", mode = "strong")]
/// async fn create(id: u64) -> Result<Outcome<String>, Error> {
///     Ok(format!("order {id}").into())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let first = create(7).await?;
/// assert!(!first.replayed);
/// let again = create(7).await?;
/// assert!(again.replayed);
/// assert_eq!(again.value, "order 7");
/// # Ok(()) }
/// ```
///
/// That is for functions that keep their values: those with `mode = "strong"`, and those that leave
/// the mode to the configuration. With `mode = "reject"` and `mode = "window"` nothing is replayed, and
/// the caller gets the `Outcome` as the body made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome<T> {
    /// The body's value.
    pub value: T,
    /// `true` if the value was replayed rather than produced by this call.
    pub replayed: bool,
    /// The number of the attempt that produced it.
    pub attempt: u32,
    /// The state of its record: says whether repeat calls get this value.
    pub recorded: Recorded,
}

impl<T> Outcome<T> {
    /// The outcome of a body that has just run, as a first attempt that is not recorded: the values
    /// until they are known.
    pub fn new(value: T) -> Self {
        Self { value, replayed: false, attempt: 1, recorded: Recorded::No }
    }

    /// The same outcome with another value.
    pub(crate) fn with<U>(self, value: impl FnOnce(T) -> U) -> Outcome<U> {
        let Self { value: inner, replayed, attempt, recorded } = self;
        Outcome { value: value(inner), replayed, attempt, recorded }
    }
}

impl<T> From<T> for Outcome<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

/// The state of a value's record, as far as it is known when the caller gets the value.
///
/// ```
/// use idempotent_runtime::{Error, Idempotency, Mode, Recorded};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let idem = Idempotency::in_memory().unwrap();
/// let order = idem.operation("orders.create").key(42).mode(Mode::Strong);
/// let outcome = order.run_detailed(async { Ok::<u64, Error>(7) }).await?;
/// if outcome.recorded != Recorded::Yes {
///     println!("a repeat of this call may end differently");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recorded {
    /// The store has acknowledged the value, or it was replayed. In reject mode, the store has
    /// acknowledged the success; the value is not kept.
    Yes,
    /// The store has acknowledged the success, but not the value: it is too large, the codec cannot
    /// encode it, or the store had no room. A repeat call gets
    /// [`ResultUnavailable`](crate::ErrorKind::ResultUnavailable).
    WithoutValue,
    /// The store did not acknowledge the value in time. Recording goes on in the background; until
    /// it succeeds, another attempt may run, and its value may become the recorded one.
    NotYet,
    /// The value is not recorded, and nothing in the background will record it: the body ran
    /// without protection or in window mode, `expire_with` chose zero, or the record had vanished
    /// after the lease was lost.
    No,
}
