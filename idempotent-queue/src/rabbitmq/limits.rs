//! The number of deliveries after which the broker takes a message away by itself.
//!
//! AMQP has no way to read the arguments of a queue. But a declaration of a queue that exists is compared
//! with it, and the refusal names the first argument that differs, with the value that the queue has. So
//! declarations, each corrected by the last refusal, lead to the arguments, and change nothing.

use super::connection::Link;
use super::failure::{Failure, Refusal};
use super::topology::Declarations;
use crate::delivery::DELIVERIES_PER_ATTEMPT;
use crate::{PrepareError, QueueError, Terms};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use std::collections::BTreeMap;

/// The limit of queues that are declared here: beyond any count of deliveries. Servers before 4 take a queue
/// without a limit for one without an end, later ones limit it to 20; and -1 has no end on later ones, but
/// drops each message that comes back on those before.
pub(super) const UNLIMITED: i64 = i32::MAX as i64;

/// The limit of queues without one, since version 4.
const DEFAULT_OF_4: i64 = 20;

const TYPE: &str = "x-queue-type";
const LIMIT: &str = "x-delivery-limit";
const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";

/// More refusals than a queue has arguments.
const MOST_REFUSALS: usize = 32;

/// Refuses a queue whose messages the broker takes away before a consumer with these terms is done.
pub(super) async fn check(
    link: &Link,
    queue: &ShortString,
    terms: &Terms,
) -> Result<(), PrepareError> {
    let found = read(link, queue).await?;
    let version = match &found {
        // No other answer depends on it.
        Arguments::Quorum(arguments) if depends_on_version(arguments) => {
            link.target().major_version().await
        }
        _ => None,
    };
    match judge(&found, version, terms) {
        Verdict::Suits => Ok(()),
        Verdict::Unknown => {
            let consumer: &str = &terms.consumer;
            tracing::warn!(
                target: "idempotent", consumer, queue = queue.as_str(),
                "the delivery limit of the queue cannot be read: see that it has none, or a dead letter exchange"
            );
            Ok(())
        }
        Verdict::Refused(text) => {
            let error = format!("the queue `{queue}` does not suit the consumer: {text}");
            Err(PrepareError::Refused(QueueError::new(error)))
        }
    }
}

/// The arguments of a queue, as far as its deliveries are concerned.
#[derive(Debug, PartialEq)]
enum Arguments {
    Quorum(BTreeMap<String, Value>),
    /// A queue that has no limit.
    Classic,
    Stream,
    /// The user may not declare the queue, or the refusal is not understood.
    Unknown,
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(i64),
    Text(String),
    Truth(bool),
}

async fn read(link: &Link, queue: &ShortString) -> Result<Arguments, Failure> {
    // If the queue is deleted at this moment, it is declared with these, which suit it.
    let first = [(TYPE, Value::Text("quorum".to_owned())), (LIMIT, Value::Number(UNLIMITED))];
    let mut arguments: BTreeMap<_, _> =
        first.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut declarations = Declarations { link, channel: None };
    for _ in 0..MOST_REFUSALS {
        let Err(failure) = declarations.declare(queue, table(&arguments)).await else {
            return Ok(Arguments::Quorum(arguments));
        };
        let difference = match failure.refusal() {
            Some(Refusal::Precondition(text)) => difference(text),
            Some(Refusal::Forbidden(_)) => None,
            _ => return Err(failure),
        };
        match difference {
            // Neither the default type nor a queue that is not durable counts deliveries.
            Some((TYPE, None) | ("durable" | "auto_delete" | "exclusive", _)) => {
                return Ok(Arguments::Classic);
            }
            Some((TYPE, Some(Value::Text(kind)))) => {
                return Ok(match &*kind {
                    "classic" => Arguments::Classic,
                    "stream" => Arguments::Stream,
                    _ => Arguments::Unknown,
                });
            }
            Some((name, Some(value))) => drop(arguments.insert(name.to_owned(), value)),
            Some((name, None)) => drop(arguments.remove(name)),
            None => return Ok(Arguments::Unknown),
        }
    }
    Ok(Arguments::Unknown)
}

fn table(arguments: &BTreeMap<String, Value>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        let value = match value {
            Value::Number(number) => AMQPValue::LongLongInt(*number),
            Value::Text(text) => AMQPValue::LongString(text.as_str().into()),
            Value::Truth(truth) => AMQPValue::Boolean(*truth),
        };
        table.insert(name.as_str().into(), value);
    }
    table
}

/// The argument in which a declaration differs from the queue, and the value that the queue has.
///
/// The broker's text has at most 255 bytes. One that was cut off is not understood.
fn difference(text: &str) -> Option<(&str, Option<Value>)> {
    let (_, rest) = text.split_once("inequivalent arg '")?;
    let (name, rest) = rest.split_once("' for ")?;
    let (_, current) = rest.rsplit_once(" but current is ")?;
    let value = match current.strip_prefix("the value '") {
        None if current == "none" => None,
        // Of the type that was declared.
        None => {
            let text = current.strip_prefix('\'')?.strip_suffix('\'')?;
            let number = text.parse().map(Value::Number);
            Some(number.unwrap_or_else(|_| Value::Text(text.to_owned())))
        }
        Some(typed) => {
            let (text, kind) = typed.rsplit_once("' of type '")?;
            Some(match kind.strip_suffix('\'')? {
                "longstr" => Value::Text(text.to_owned()),
                "bool" => Value::Truth(text.parse().ok()?),
                _ => Value::Number(text.parse().ok()?),
            })
        }
    };
    Some((name, value))
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Suits,
    Unknown,
    Refused(String),
}

/// Tells queues without a limit, or with -1, which mean different things to different versions.
fn depends_on_version(arguments: &BTreeMap<String, Value>) -> bool {
    !matches!(arguments.get(LIMIT), Some(Value::Number(0..)))
}

fn judge(found: &Arguments, version: Option<u32>, terms: &Terms) -> Verdict {
    let arguments = match found {
        Arguments::Quorum(arguments) => arguments,
        Arguments::Classic => return Verdict::Suits,
        Arguments::Stream => {
            return Verdict::Refused(
                "it is a stream, which has no acknowledgements; help: consume a quorum queue"
                    .to_owned(),
            );
        }
        Arguments::Unknown => return Verdict::Unknown,
    };
    let limit = match (arguments.get(LIMIT), version) {
        (Some(Value::Number(limit @ 0..)), _) => *limit,
        (_, None) => return Verdict::Unknown,
        (Some(_), Some(4..)) | (None, Some(..4)) => return Verdict::Suits,
        (None, Some(4..)) => DEFAULT_OF_4,
        (Some(_), Some(..4)) => {
            return Verdict::Refused(
                "before version 4, a negative x-delivery-limit drops each message that comes back; help: \
                 delete the queue, and declare it without one"
                    .to_owned(),
            );
        }
    };
    if limit >= UNLIMITED {
        return Verdict::Suits;
    }
    let least = terms.least_delivery_limit().unwrap_or(DELIVERIES_PER_ATTEMPT);
    let is_kept = arguments.contains_key(DEAD_LETTER_EXCHANGE);
    let is_high = u64::try_from(limit).is_ok_and(|limit| limit >= least);
    if is_kept && is_high {
        return Verdict::Suits;
    }
    let fate = if is_kept { "makes it a dead letter" } else { "drops it" };
    Verdict::Refused(format!(
        "the broker counts deliveries that were not settled, and {fate} after {limit} of them; help: delete \
         the queue and let `declare()` declare it, or declare it with x-delivery-limit={least} or more and \
         x-dead-letter-exchange"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &str, received: &str, current: &str) -> String {
        format!(
            "PRECONDITION_FAILED - inequivalent arg '{of}' for queue 'it's but current is \
             none' in vhost '/': received {received} but current is {current}"
        )
    }

    #[test]
    fn refusals_tell_the_argument_and_its_value() {
        let word = |text: &str| Some(Value::Text(text.to_owned()));
        let refusal = text("x-delivery-limit", "'1'", "'20'");
        assert_eq!(difference(&refusal), Some((LIMIT, Some(Value::Number(20)))));
        let refusal = text("x-delivery-limit", "none", "the value '-1' of type 'signedint'");
        assert_eq!(difference(&refusal), Some((LIMIT, Some(Value::Number(-1)))));
        let refusal = text("x-delivery-limit", "'1'", "none");
        assert_eq!(difference(&refusal), Some((LIMIT, None)));
        let refusal = text("x-dead-letter-exchange", "none", "the value '' of type 'longstr'");
        assert_eq!(difference(&refusal), Some((DEAD_LETTER_EXCHANGE, word(""))));
        let refusal = text("x-queue-type", "'quorum'", "'classic'");
        assert_eq!(difference(&refusal), Some((TYPE, word("classic"))));
        let refusal = text("x-single-active-consumer", "none", "the value 'true' of type 'bool'");
        assert_eq!(difference(&refusal).unwrap().1, Some(Value::Truth(true)));
    }

    #[test]
    fn a_refusal_that_is_cut_off_is_not_understood() {
        let whole = text("x-dead-letter-exchange", "none", "the value 'dead' of type 'longstr'");
        let end = whole.rfind("the value").unwrap();
        for length in end..whole.len() {
            assert_eq!(difference(&whole[..length]), None, "{}", &whole[..length]);
        }
        assert_eq!(difference("PRECONDITION_FAILED - message size 3 is larger"), None);
    }

    fn verdict(limit: Option<i64>, is_kept: bool, version: Option<u32>) -> Verdict {
        let mut arguments = BTreeMap::new();
        arguments.extend(limit.map(|limit| (LIMIT.to_owned(), Value::Number(limit))));
        let exchange = (DEAD_LETTER_EXCHANGE.to_owned(), Value::Text(String::new()));
        arguments.extend(is_kept.then_some(exchange));
        let mut terms = Terms::new("orders");
        terms.max_attempts = Some(5);
        judge(&Arguments::Quorum(arguments), version, &terms)
    }

    fn is_refused(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Refused(_))
    }

    #[test]
    fn a_finite_limit_needs_a_dead_letter_exchange_and_ten_times_the_attempts() {
        for version in [None, Some(3), Some(4)] {
            assert!(is_refused(&verdict(Some(50), false, version)));
            assert!(is_refused(&verdict(Some(49), true, version)));
            assert_eq!(verdict(Some(50), true, version), Verdict::Suits);
            assert_eq!(verdict(Some(UNLIMITED), false, version), Verdict::Suits);
        }
    }

    #[test]
    fn no_limit_is_twenty_since_version_4() {
        assert_eq!(verdict(None, false, Some(3)), Verdict::Suits);
        assert!(is_refused(&verdict(None, false, Some(4))));
        assert!(is_refused(&verdict(None, true, Some(4))), "less than ten times five");
        assert_eq!(verdict(None, false, None), Verdict::Unknown);
    }

    #[test]
    fn a_negative_limit_drops_messages_before_version_4() {
        assert!(is_refused(&verdict(Some(-1), true, Some(3))));
        assert_eq!(verdict(Some(-1), false, Some(4)), Verdict::Suits);
        assert_eq!(verdict(Some(-1), false, None), Verdict::Unknown);
    }
}
