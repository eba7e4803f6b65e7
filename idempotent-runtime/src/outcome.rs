//! The value of a call, its origin, and whether it is recorded.

/// The value of a call, and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome<T> {
    /// The body's value.
    pub value: T,
    /// `true` if it was stored before, rather than made by this call.
    pub replayed: bool,
    /// The number of the attempt that made it.
    pub attempt: u32,
    /// Says whether repeat calls get this value.
    pub recorded: Recorded,
}

/// The relation of a value to its record, as far as the store has said when the caller gets it.
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
    /// The store has acknowledged it, or it was replayed from there. In reject mode that is the
    /// success, without its value.
    Yes,
    /// The store has acknowledged the success, but not the value: it is too large, has no form in
    /// the codec, or found no room. A repeat call gets
    /// [`ResultUnavailable`](crate::ErrorKind::ResultUnavailable).
    WithoutValue,
    /// The store did not acknowledge it in time. Recording goes on in the background; until it
    /// succeeds, another attempt may run, and its value may become the recorded one.
    NotYet,
    /// It is not recorded, and nothing in the background will record it: the body ran without
    /// protection or in window mode, `expire_with` chose zero, or the record had vanished after the
    /// lease was lost.
    No,
}
