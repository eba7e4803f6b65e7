//! Targets: the place that a producer sends to, and the way in which message and record get there.

use super::error::{Fate, SendError};
use super::sent::{Sent, SentBy, SentRecord};
use crate::settlement::Pauses;
use crate::{Outgoing, PublishError, PublishErrorKind, Publisher, Receipt};
use idempotent_runtime::{ErrorKind, Operation, Recorded, current};
use std::fmt;
use std::future::Future;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A place that a [`Producer`](super::Producer) sends to.
///
/// [`Destination`] is one for any [`Publisher`]; adapters of brokers return it from functions such as
/// `nats::subject`. A broker that is the store as well implements the trait itself, and writes record and
/// message in one step.
///
/// # Implementing
///
/// An implementation MUST send nothing but by the methods of [`Sending`], which start the record.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a place to send messages to",
    label = "not an `idempotent_queue::producer::Target`",
    note = "adapters of brokers return one, such as `nats::subject`; `Destination::new` makes one of a `Publisher` and a name"
)]
pub trait Target: Send + Sync + 'static {
    /// The name of the place. Ids of messages depend on it, and so does the name of the operation.
    fn destination(&self) -> &str;

    /// Sends a message and records that, once.
    fn send(&self, sending: Sending<'_>) -> impl Future<Output = Result<Sent, SendError>> + Send;
}

/// A publisher, and the name of one of its destinations.
///
/// ```
/// use idempotent_queue::memory::MemoryQueue;
/// use idempotent_queue::producer::Destination;
///
/// let queue = MemoryQueue::new();
/// let orders = Destination::new(queue.publisher(), "orders");
/// ```
#[derive(Clone)]
pub struct Destination<P> {
    publisher: P,
    name: String,
}

impl<P: Publisher> Destination<P> {
    /// Messages to `name`, as the publisher understands it.
    pub fn new(publisher: P, name: impl Into<String>) -> Self {
        Self { publisher, name: name.into() }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The publisher.
    pub fn publisher(&self) -> &P {
        &self.publisher
    }
}

impl<P> fmt::Debug for Destination<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Destination").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<P: Publisher> Target for Destination<P> {
    fn destination(&self) -> &str {
        &self.name
    }

    async fn send(&self, sending: Sending<'_>) -> Result<Sent, SendError> {
        sending.publish(&self.publisher).await
    }
}

/// A message that is being sent, with the operation that records it. A [`Target`] finishes it.
#[derive(Debug)]
#[must_use = "nothing is sent before `publish` is called"]
pub struct Sending<'a> {
    pub(super) operation: Operation<'a>,
    pub(super) message: &'a Outgoing,
    pub(super) tries: Tries,
}

/// The number of tries, and the times between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    pub(super) most: u32,
    pub(super) pauses: Pauses,
    /// The longest wait for a confirmation.
    pub(super) confirmation: Duration,
}

impl Sending<'_> {
    /// The message.
    pub fn message(&self) -> &Outgoing {
        self.message
    }

    /// Publishes the message and then records it. Between the two a process can die: a repeat publishes
    /// another copy, with the same id.
    ///
    /// # Errors
    /// The call was refused, or the broker did not confirm the message.
    pub async fn publish(self, publisher: &impl Publisher) -> Result<Sent, SendError> {
        let Self { operation, message, tries } = self;
        let mut confirmed = None;
        let body = publish(publisher, message, tries, &mut confirmed);
        let answer = operation.run_detailed::<SentRecord, SendError, _>(body).await;
        let error = match answer {
            Ok(outcome) => {
                let is_recorded = outcome.recorded == Recorded::Yes;
                let sent_by = sent_by(outcome.replayed);
                return Ok(Sent::new(outcome.value, sent_by, is_recorded));
            }
            Err(error) => error,
        };
        if let Some(receipt) = confirmed {
            // The record is that of another attempt, or there is none: the message is sent all the same.
            let record = SentRecord { id: message.id().to_owned(), receipt };
            return Ok(Sent::new(record, SentBy::ThisCall, false));
        }
        answered(error, message)
    }
}

/// Publishes a message until it is confirmed, a few times. The receipt is left in `confirmed` as well.
///
/// The key of a message that was not sent is free for any payload afterwards, not only for the one that the
/// broker did not take.
async fn publish(
    publisher: &impl Publisher,
    message: &Outgoing,
    tries: Tries,
    confirmed: &mut Option<Receipt>,
) -> Result<SentRecord, SendError> {
    let (mut tried, mut may_be_sent) = (0, false);
    loop {
        tried += 1;
        let error = match timeout(tries.confirmation, publisher.publish(message)).await {
            Ok(Ok(receipt)) => {
                *confirmed = Some(receipt.clone());
                return Ok(SentRecord { id: message.id().to_owned(), receipt });
            }
            Ok(Err(error)) => error,
            Err(_) => PublishError::unavailable(format!(
                "no confirmation within {:?}",
                tries.confirmation
            )),
        };
        may_be_sent |= error.kind() == PublishErrorKind::Unavailable;
        if error.kind() == PublishErrorKind::Permanent || tried >= tries.most {
            let fate = if may_be_sent { Fate::Unknown } else { Fate::NotSent };
            // An earlier attempt may have sent something.
            if let Some(first) = current().filter(|attempt| attempt.attempt() == 1)
                && fate == Fate::NotSent
            {
                first.unbind_payload();
            }
            return Err(SendError::broker(error, tried, fate));
        }
        let (destination, id) = (message.destination(), message.id());
        tracing::warn!(target: "idempotent", destination, id, %error, "message not confirmed");
        sleep(tries.pauses.after(tried).mul_f64(rand::random_range(0.5..=1.0))).await;
    }
}

/// The answer to a call that was refused: a message whose record has lost its value was sent.
fn answered(error: SendError, message: &Outgoing) -> Result<Sent, SendError> {
    let refusal = error.refusal().map(idempotent_runtime::Error::kind);
    if refusal == Some(ErrorKind::ResultUnavailable) {
        let record = SentRecord { id: message.id().to_owned(), receipt: Receipt::new() };
        return Ok(Sent::new(record, SentBy::EarlierCall, true));
    }
    Err(error)
}

fn sent_by(replayed: bool) -> SentBy {
    if replayed { SentBy::EarlierCall } else { SentBy::ThisCall }
}

#[cfg(feature = "redis-streams")]
mod in_one_step {
    use super::{Sending, answered, sent_by};
    use crate::PublishError;
    use crate::producer::error::{Fate, SendError};
    use crate::producer::sent::{Sent, SentRecord};
    use idempotent_runtime::EffectOutcome;
    use idempotent_runtime::store::{Effect, RedisStore};

    impl Sending<'_> {
        /// Sends the message by a script inside Redis, and records it in the same step: both happen or
        /// neither.
        ///
        /// The script gets the id of the message as its first argument, and returns
        /// `{"id": id, "receipt": {"position": position}}`. `hash_tag` is that of its keys.
        ///
        /// # Errors
        /// The call was refused, or the script refused. The store is not that of the producer's instance.
        pub(in crate::producer) async fn send_in_one_step(
            self,
            store: &RedisStore,
            hash_tag: &str,
            effect: &Effect,
        ) -> Result<Sent, SendError> {
            // A script that has refused has sent nothing: another payload may follow.
            let operation = self.operation.hash_tag(hash_tag).bind_payload_after_failure(false);
            match operation.run_effect::<SentRecord>(store, effect).await {
                Ok(EffectOutcome::Applied(outcome)) => {
                    Ok(Sent::new(outcome.value, sent_by(outcome.replayed), true))
                }
                Ok(EffectOutcome::Refused { reason }) => {
                    Err(SendError::broker(PublishError::permanent(reason), 1, Fate::NotSent))
                }
                Ok(outcome) => {
                    let text = format!("this version does not know the outcome {outcome:?}");
                    Err(SendError::broker(PublishError::unavailable(text), 1, Fate::Unknown))
                }
                Err(error) => answered(error.into(), self.message),
            }
        }
    }
}
