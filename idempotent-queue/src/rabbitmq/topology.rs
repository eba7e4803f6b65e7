//! The queues around a queue.

use super::channel::OwnedChannel;
use super::connection::Link;
use super::failure::{Failure, Refusal};
use super::limits::UNLIMITED;
use super::properties::short;
use crate::{PrepareError, QueueError};
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The type of the queues that are declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueType {
    /// Replicated, with a count of deliveries. Wait queues keep a message until the queue has it back,
    /// which needs RabbitMQ 3.10.
    #[default]
    Quorum,
    /// Not replicated. A message that comes back from a wait queue while the broker fails can be lost.
    Classic,
}

/// The names of the queues, and those of them that are declared.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) queue: String,
    pub(super) dead: String,
    pub(super) parked: String,
    pub(super) wait: String,
    pub(super) kind: QueueType,
    pub(super) declares_queue: bool,
}

impl Names {
    pub(super) fn of(queue: String) -> Self {
        Self {
            dead: format!("{queue}.dead"),
            parked: format!("{queue}.parked"),
            wait: format!("{queue}.wait"),
            queue,
            kind: QueueType::default(),
            declares_queue: false,
        }
    }

    /// Names as AMQP takes them.
    pub(super) fn checked(&self) -> Result<Topology, PrepareError> {
        let refused = |text: String| PrepareError::Refused(QueueError::new(text));
        let name = |text: &str| match text {
            // The broker would take it for the queue that was declared last.
            "" => Err(refused("a queue has no name; help: deliveries(\"orders\")".to_owned())),
            text => short("name of a queue", text).map_err(refused),
        };
        if [&self.dead, &self.parked].contains(&&self.queue) {
            return Err(refused(format!(
                "messages of `{0}` would be put aside into `{0}` itself, and be delivered again at once; \
                 help: dead_letter_queue(\"{0}.dead\"), parking_queue(\"{0}.parked\")",
                self.queue
            )));
        }
        // With the longest number behind it.
        name(&format!("{}.{}", self.wait, LONGEST.as_millis()))?;
        Ok(Topology {
            queue: name(&self.queue)?,
            dead: name(&self.dead)?,
            parked: name(&self.parked)?,
            wait: self.wait.clone(),
            kind: self.kind,
            declares_queue: self.declares_queue,
            declared: Mutex::default(),
        })
    }
}

/// The queues of a source.
#[derive(Debug)]
pub(super) struct Topology {
    pub(super) queue: ShortString,
    pub(super) dead: ShortString,
    pub(super) parked: ShortString,
    wait: String,
    kind: QueueType,
    declares_queue: bool,
    /// Wait queues, by the time of their last declaration.
    declared: Mutex<HashMap<Wait, Instant>>,
}

/// The shortest and the longest time of a wait queue.
const SHORTEST: Duration = Duration::from_millis(1 << 7);
const LONGEST: Duration = Duration::from_millis(1 << 27);

/// The time for which a wait queue that is not used is kept, beyond its own. Long, since the broker does not
/// ask whether there are messages in it: while the queue that they go back to is down, they stay.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The age at which a declaration, by which the broker sees that a wait queue is used, is repeated.
const STALE: Duration = Duration::from_secs(3_600);

/// A wait queue, by the longest pause of its messages in milliseconds: a power of two.
///
/// The broker looks for messages whose time is over at the head of a queue only. So one behind a longer pause
/// waits too long, but no longer than twice its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wait(u64);

impl Wait {
    /// The queue for a pause.
    pub(super) fn of(pause: Duration) -> Self {
        let millis = pause.clamp(SHORTEST, LONGEST).as_nanos().div_ceil(1_000_000);
        Self(u64::try_from(millis).unwrap_or(u64::MAX).next_power_of_two())
    }

    /// The expiration of a message with this pause.
    pub(super) fn expiration(self, pause: Duration) -> ShortString {
        let millis = pause.as_nanos().div_ceil(1_000_000).clamp(1, u128::from(self.0));
        millis.to_string().into()
    }
}

impl Topology {
    /// Looks for the queues, and declares those that are missing and are to be declared.
    pub(super) async fn ensure(&self, link: &Link) -> Result<(), PrepareError> {
        let mut declarations = Declarations { link, channel: None };
        self.ensure_queue(&mut declarations).await?;
        for place in [&self.dead, &self.parked] {
            if !declarations.exists(place).await? {
                declarations.declare(place, self.arguments(None)).await?;
            }
        }
        Ok(())
    }

    /// The same for the queue alone.
    pub(super) async fn ensure_queue(
        &self,
        declarations: &mut Declarations<'_>,
    ) -> Result<(), PrepareError> {
        let queue = &self.queue;
        if declarations.exists(queue).await? {
            return Ok(());
        }
        if !self.declares_queue {
            let help = format!(
                "help: let the consumer declare it, `deliveries(\"{queue}\").declare()`, or type \
                 rabbitmqadmin declare queue name={queue} durable=true queue_type=quorum"
            );
            let error = QueueError::new(format!("the queue `{queue}` does not exist; {help}"));
            return Err(PrepareError::Refused(error));
        }
        let limit = ("x-delivery-limit", AMQPValue::LongLongInt(UNLIMITED));
        let limit = (self.kind == QueueType::Quorum).then_some(limit);
        Ok(declarations.declare(queue, self.arguments(limit)).await?)
    }

    /// The name of a wait queue, which exists, unless it has been deleted since.
    pub(super) async fn wait_queue(&self, link: &Link, wait: Wait) -> Result<ShortString, Failure> {
        let name = self.wait_name(wait);
        let declared =
            self.declared.lock().unwrap_or_else(PoisonError::into_inner).get(&wait).copied();
        if declared.is_none_or(|at| at.elapsed() > STALE) {
            let mut declarations = Declarations { link, channel: None };
            // Before the declaration: the time runs from the broker's answer, which comes later.
            let at = Instant::now();
            declarations.declare(&name, self.wait_arguments(wait)).await?;
            self.declared.lock().unwrap_or_else(PoisonError::into_inner).insert(wait, at);
        }
        Ok(name)
    }

    /// Forgets that a wait queue was declared.
    pub(super) fn forget(&self, wait: Wait) {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner).remove(&wait);
    }

    fn wait_name(&self, wait: Wait) -> ShortString {
        format!("{}.{}", self.wait, wait.0).into()
    }

    fn arguments(&self, more: impl IntoIterator<Item = (&'static str, AMQPValue)>) -> FieldTable {
        let kind = match self.kind {
            QueueType::Quorum => "quorum",
            QueueType::Classic => "classic",
        };
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), text(kind));
        for (name, value) in more {
            arguments.insert(name.into(), value);
        }
        arguments
    }

    fn wait_arguments(&self, wait: Wait) -> FieldTable {
        let millis = |time: u64| AMQPValue::LongLongInt(i64::try_from(time).unwrap_or(i64::MAX));
        let unused = u64::try_from(UNUSED.as_millis()).unwrap_or(u64::MAX);
        let mut arguments = self.arguments([
            ("x-message-ttl", millis(wait.0)),
            ("x-expires", millis(wait.0 + unused)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(self.queue.as_str())),
        ]);
        if self.kind == QueueType::Quorum {
            // A message leaves the wait queue when the queue has confirmed it. This needs the overflow.
            arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
            arguments.insert("x-overflow".into(), text("reject-publish"));
        }
        arguments
    }
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Declarations on a channel, or on another one, since the broker closes a channel with each refusal.
pub(super) struct Declarations<'a> {
    pub(super) link: &'a Link,
    pub(super) channel: Option<OwnedChannel>,
}

impl Declarations<'_> {
    pub(super) async fn exists(&mut self, queue: &ShortString) -> Result<bool, Failure> {
        let options = QueueDeclareOptions::durable().passive();
        match self.attempt(queue, options, FieldTable::default()).await {
            Ok(()) => Ok(true),
            Err(failure) => match failure.refusal() {
                Some(Refusal::Missing(_)) => Ok(false),
                _ => Err(failure),
            },
        }
    }

    pub(super) async fn declare(
        &mut self,
        queue: &ShortString,
        arguments: FieldTable,
    ) -> Result<(), Failure> {
        self.attempt(queue, QueueDeclareOptions::durable(), arguments).await
    }

    async fn attempt(
        &mut self,
        queue: &ShortString,
        options: QueueDeclareOptions,
        arguments: FieldTable,
    ) -> Result<(), Failure> {
        let channel = match self.channel.take() {
            Some(channel) => channel,
            None => self.link.channel().await?,
        };
        let declared = channel.queue_declare(queue.clone(), options, arguments);
        self.link.target().in_time(declared).await?;
        self.channel = Some(channel);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_kept_and_at_most_doubled() {
        for millis in [0, 1, 127, 128, 129, 500, 1_000, 60_000, 86_400_000] {
            let pause = Duration::from_millis(millis);
            let Wait(longest) = Wait::of(pause);
            assert!(longest >= millis && longest <= (2 * millis).max(128), "{millis}: {longest}");
            assert_eq!(Wait::of(pause).expiration(pause).as_str(), millis.max(1).to_string());
        }
    }

    #[test]
    fn queues_without_a_name_and_a_queue_of_its_own_dead_letters_are_refused() {
        let orders = || Names::of("orders".to_owned());
        let own = "orders".to_owned();
        for (names, text) in [
            (Names::of(String::new()), "no name"),
            (Names { dead: String::new(), ..orders() }, "no name"),
            (Names { parked: String::new(), ..orders() }, "no name"),
            (Names { dead: own.clone(), ..orders() }, "`orders` itself"),
            (Names { parked: own, ..orders() }, "`orders` itself"),
        ] {
            let error = names.checked().unwrap_err();
            assert!(matches!(error, PrepareError::Refused(_)), "{error}");
            let error = error.to_string();
            assert!(error.contains(text) && error.contains("help: "), "{error}");
        }
        orders().checked().unwrap();
    }

    #[test]
    fn a_part_of_a_millisecond_is_waited_for() {
        let pause = Duration::from_micros(128_001);
        assert_eq!(Wait::of(pause), Wait(256));
        assert_eq!(Wait::of(pause).expiration(pause).as_str(), "129");
    }

    #[test]
    fn the_number_of_wait_queues_is_bounded() {
        let pauses = (0..64).map(|shift| Duration::from_millis(1 << shift));
        let queues: std::collections::HashSet<_> =
            pauses.chain([Duration::MAX]).map(Wait::of).collect();
        assert_eq!(queues.len(), 21);
    }
}
