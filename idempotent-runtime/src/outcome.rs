//! The value of a call, its origin, and the state of its record.

/// The value of a call, and its origin.
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
