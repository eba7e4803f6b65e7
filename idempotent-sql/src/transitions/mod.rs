//! State changes of an entity that are safe to repeat.
//!
//! The transitions that a state machine allows are declared once, on the enum of its states, and
//! checked when the program is compiled. A [`StateMachine`] applies them to rows of a table: one
//! conditional change that tells what it found otherwise, and one row in a log.
//!
//! ```
//! # #[cfg(feature = "sqlx-sqlite")] {
//! # use sqlx::{Connection, SqliteConnection};
//! use idempotent_sql::transitions::{StateMachine, TransitionOutcome, Transitions};
//!
//! #[derive(Debug, PartialEq, Transitions)]
//! #[transitions(
//!     pay: Pending => Paid,
//!     ship: Paid => Shipped,
//!     cancel: Pending | Paid => Cancelled,
//! )]
//! enum OrderStatus {
//!     Pending,
//!     Paid,
//!     Shipped,
//!     Cancelled,
//! }
//!
//! // The user's own table, its key and the column with the state.
//! const ORDERS: StateMachine<OrderStatus> = StateMachine::new("orders", "id", "status");
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
//! # sqlx::raw_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL); \
//! #                INSERT INTO orders VALUES (42, 'pending')").execute(&mut connection).await?;
//! ORDERS.migrate(&mut connection).await?; // The log, once.
//!
//! let (order, payment) = (42, "payment-7");
//! let mut tx = connection.begin().await?;
//! match ORDERS.apply(&mut tx, order, OrderStatus::pay(), payment).await? {
//!     TransitionOutcome::Applied { .. } => { /* effects of the payment, in the same transaction */ }
//!     TransitionOutcome::Again => { /* this payment was taken before */ }
//!     TransitionOutcome::Conflict { by } => return Err(format!("paid already, by {by}").into()),
//!     TransitionOutcome::NotAllowed { from } => return Err(format!("order is {from:?}").into()),
//!     TransitionOutcome::NotFound => return Err("no such order".into()),
//! }
//! tx.commit().await?;
//! # let mut tx = connection.begin().await?;
//! # let again = ORDERS.apply(&mut tx, order, OrderStatus::pay(), payment).await?;
//! # assert_eq!(again, TransitionOutcome::Again);
//! # Ok(())
//! # }
//! # main().unwrap()
//! # }
//! ```
//!
//! # Repeats
//!
//! Every transition has an id of the caller's: the id of the payment, of the message, of the
//! request. The log has one row for each transition of an entity: event, id, the state before and
//! the state after. So a repeat is recognised by its id, even after later transitions, and the same
//! event by another id is a [`Conflict`](TransitionOutcome::Conflict). An event may happen several
//! times to an entity (`pause`, `resume`, `pause`), each time under another id.
//!
//! The log is the audit trail as well: [`StateMachine::history`] reads it.
//!
//! # Concurrent callers
//!
//! Callers with the same entity wait for each other: the second one looks when the first has
//! committed. Of sixteen callers with two ids, one applies the transition, and the others get
//! [`Again`](TransitionOutcome::Again) or [`Conflict`](TransitionOutcome::Conflict).
//!
//! Under READ COMMITTED nothing else has to be done. Under REPEATABLE READ and SERIALIZABLE the
//! database may give up a transaction in favour of another one; the error then
//! [`wants_new_transaction`](crate::entity::EntityError::wants_new_transaction), and the caller
//! repeats the whole transaction.

mod decide;
mod id;
mod log;
mod machine;
mod outcome;
mod state;
mod statements;

pub use id::TransitionId;
/// Declares the transitions between the states of an enum, and implements [`State`].
///
/// `#[transitions(..)]` on the enum lists them: an event, the states that allow it, and the state
/// that it leads to. One event may lead from different states to different ones, but from one state
/// to one only. A state that no transition leads to is one in which entities begin.
///
/// ```
/// use idempotent_sql::Transitions;
///
/// #[derive(Debug, PartialEq, Transitions)]
/// #[transitions(
///     ship: Packed => InTransit,
///     deliver: InTransit => Delivered,
///     lose: Packed | InTransit => Lost,
/// )]
/// enum Parcel {
///     Packed,
///     InTransit,
///     Delivered,
///     #[transitions(rename = "not found")]
///     Lost,
/// }
///
/// // A function for each event, for `StateMachine::apply`.
/// assert_eq!(Parcel::ship().event(), "ship");
/// // The name under which a state is stored, and back.
/// assert_eq!(Parcel::InTransit.as_str(), "in_transit");
/// assert_eq!("not found".parse(), Ok(Parcel::Lost));
/// // The table of transitions, and a drawing of it for Mermaid.
/// assert_eq!(Parcel::TRANSITIONS.len(), 4);
/// assert!(Parcel::MERMAID.contains("Packed --> InTransit: ship"));
/// ```
///
/// Stored names and the names of events are data: after a change of one, old rows have the old one.
///
/// | option | place | effect |
/// | --- | --- | --- |
/// | `rename = "name"` | a variant | stores the state under this name instead of its own in snake case |
/// | `crate = path` | the enum | the path of `idempotent_sql`, where it has another name |
pub use idempotent_macros::Transitions;
pub use log::LogEntry;
pub use machine::StateMachine;
pub use outcome::TransitionOutcome;
pub use state::{Edge, State, Transition, UnknownState};
