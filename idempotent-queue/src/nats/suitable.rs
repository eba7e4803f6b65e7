//! Settings of streams and consumers under which no message is lost.
//!
//! Decides by values alone. A refusal says what the setting does, which value would do, and the command that
//! sets it.

use super::prepare::Names;
use crate::Terms;
use async_nats::jetstream::consumer::{AckPolicy, Config};
use async_nats::jetstream::stream::{Config as StreamConfig, RetentionPolicy};
use std::time::Duration;

/// Heartbeats within `ack_wait`: one may be lost, and one late.
const HEARTBEATS_PER_WAIT: u32 = 3;
/// The shortest `ack_wait` of a consumer that is made here, which is the server's default too.
const LEAST_WAIT: Duration = Duration::from_secs(30);

/// The `ack_wait` that goes with these terms.
pub(super) fn wait_for(terms: &Terms) -> Duration {
    least_wait(terms).max(LEAST_WAIT)
}

fn least_wait(terms: &Terms) -> Duration {
    terms.heartbeat.saturating_mul(HEARTBEATS_PER_WAIT)
}

/// Refuses settings of a consumer under which it loses messages, or delivers those in hand again.
pub(super) fn check_consumer(names: &Names, config: &Config, terms: &Terms) -> Result<(), String> {
    let Names { stream, consumer } = names;
    let replace = format!(
        "help: nats consumer rm {stream} {consumer}, then nats consumer add {stream} {consumer} --pull \
         --ack explicit --defaults"
    );
    if config.deliver_subject.is_some() {
        return Err(format!("{names} pushes its messages, and has to be pulled from; {replace}"));
    }
    if config.durable_name.is_none() {
        return Err(format!("{names} is not durable, and forgets what was done; {replace}"));
    }
    if config.ack_policy != AckPolicy::Explicit {
        let policy = config.ack_policy;
        return Err(format!(
            "{names} has the ack policy `{policy:?}`, and each message has to be acknowledged by \
             itself; {replace}"
        ));
    }
    if config.headers_only {
        return Err(format!("{names} delivers headers without payloads (headers_only); {replace}"));
    }
    check_deliveries(names, config.max_deliver, terms)?;
    check_wait(names, config, terms)?;
    let pending = config.max_ack_pending;
    if pending > 0 && usize::try_from(pending).is_ok_and(|pending| pending < terms.prefetch) {
        let wanted = terms.prefetch;
        tracing::warn!(
            target: "idempotent", consumer = &*terms.consumer, max_ack_pending = pending, wanted,
            "max_ack_pending is below the number of messages that this consumer handles at a time"
        );
    }
    Ok(())
}

fn check_deliveries(names: &Names, max_deliver: i64, terms: &Terms) -> Result<(), String> {
    let Names { stream, consumer } = names;
    // 0 and -1 are no limit.
    let Some(limit) = u64::try_from(max_deliver).ok().filter(|limit| *limit > 0) else {
        return Ok(());
    };
    let wanted = match (terms.least_delivery_limit(), terms.max_attempts) {
        (Some(least), _) if limit >= least => return Ok(()),
        (Some(least), Some(attempts)) => {
            format!("`max_attempts({attempts})` needs at least {least}")
        }
        _ => "a consumer without `max_attempts` needs one without a limit".to_owned(),
    };
    Err(format!(
        "{names} drops a message silently after {limit} deliveries (max_deliver), and {wanted}; help: nats \
         consumer edit {stream} {consumer} --max-deliver=-1"
    ))
}

fn check_wait(names: &Names, config: &Config, terms: &Terms) -> Result<(), String> {
    let Names { stream, consumer } = names;
    let least = least_wait(terms);
    // Where there is a backoff, it stands in place of `ack_wait`.
    let (setting, wait) = match config.backoff.iter().min() {
        Some(shortest) => ("backoff", *shortest),
        None => ("ack_wait", config.ack_wait),
    };
    if wait >= least {
        return Ok(());
    }
    let command = match setting {
        "backoff" => format!("--backoff=none --wait={}", seconds(least)),
        _ => format!("--wait={}", seconds(least)),
    };
    Err(format!(
        "{names} delivers a message again after {wait:?} ({setting}), and a heartbeat every {:?} needs at \
         least {least:?}; help: nats consumer edit {stream} {consumer} {command}, or \
         `.heartbeat(Duration::from_millis({}))`",
        terms.heartbeat,
        wait.as_millis() / u128::from(HEARTBEATS_PER_WAIT),
    ))
}

/// A duration for the command line, rounded up.
fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64().ceil())
}

/// Refuses a stream that does not keep what is put aside, or delivers it to the consumer again.
pub(super) fn check_place(
    names: &Names,
    filter: &str,
    subject: &str,
    place: &StreamConfig,
) -> Result<(), String> {
    let name = &place.name;
    if *name == names.stream && (filter.is_empty() || matches(filter, subject)) {
        return Err(format!(
            "the stream `{name}` has the subject `{subject}`, so {names} would get what it puts aside; \
             help: name subjects of another stream with `.dead_letters(..)` and `.parked(..)`"
        ));
    }
    if place.no_ack {
        return Err(format!(
            "the stream `{name}` with the subject `{subject}` does not confirm messages (no_ack), so none \
             can be put aside; help: nats stream edit {name} --ack"
        ));
    }
    if place.retention == RetentionPolicy::Interest {
        return Err(format!(
            "the stream `{name}` keeps messages of `{subject}` only while it has consumers (retention \
             interest), so what is put aside can be lost; help: use a stream with --retention limits"
        ));
    }
    Ok(())
}

/// Returns `true` if a subject with wildcards has this one.
fn matches(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for wanted in pattern.split('.') {
        match (wanted, tokens.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names { stream: "ORDERS".to_owned(), consumer: "shop".to_owned() }
    }

    fn terms(max_attempts: Option<u32>) -> Terms {
        let heartbeat = Duration::from_secs(10);
        Terms { consumer: "orders".to_owned(), prefetch: 16, max_attempts, heartbeat }
    }

    fn config() -> Config {
        Config {
            durable_name: Some("shop".to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_secs(30),
            max_deliver: -1,
            ..Config::default()
        }
    }

    fn refusal(config: Config, max_attempts: Option<u32>) -> String {
        check_consumer(&names(), &config, &terms(max_attempts)).unwrap_err()
    }

    #[test]
    fn a_consumer_that_keeps_its_messages_is_taken() {
        for max_deliver in [-1, 0, 50, 51] {
            let config = Config { max_deliver, ..config() };
            assert_eq!(check_consumer(&names(), &config, &terms(Some(5))), Ok(()));
        }
    }

    #[test]
    fn a_limit_of_deliveries_below_ten_for_each_attempt_is_refused() {
        let limited = Config { max_deliver: 49, ..config() };
        let text = refusal(limited.clone(), Some(5));
        assert!(
            text.contains("silently after 49 deliveries") && text.contains("at least 50"),
            "{text}"
        );
        assert!(text.ends_with("nats consumer edit ORDERS shop --max-deliver=-1"), "{text}");
        assert!(refusal(limited, None).contains("needs one without a limit"));
    }

    #[test]
    fn a_wait_shorter_than_three_heartbeats_is_refused() {
        let text = refusal(Config { ack_wait: Duration::from_secs(29), ..config() }, None);
        assert!(text.contains("after 29s (ack_wait)") && text.contains("every 10s"), "{text}");
        assert!(text.contains("--wait=30s") && text.contains("from_millis(9666)"), "{text}");
        let backoff = vec![Duration::from_secs(60), Duration::from_secs(1)];
        let text = refusal(Config { backoff, ..config() }, None);
        assert!(text.contains("after 1s (backoff)"), "{text}");
    }

    #[test]
    fn a_consumer_of_another_kind_is_refused() {
        let deliver_subject = Some("push".to_owned());
        assert!(refusal(Config { deliver_subject, ..config() }, None).contains("pushes"));
        assert!(refusal(Config { durable_name: None, ..config() }, None).contains("not durable"));
        for ack_policy in [AckPolicy::All, AckPolicy::None] {
            assert!(refusal(Config { ack_policy, ..config() }, None).contains("ack policy"));
        }
        assert!(refusal(Config { headers_only: true, ..config() }, None).contains("headers_only"));
    }

    #[test]
    fn a_place_keeps_what_is_put_aside_and_does_not_bring_it_back() {
        let place = StreamConfig { name: "ASIDE".to_owned(), ..StreamConfig::default() };
        let check = |filter: &str, place: &StreamConfig| {
            check_place(&names(), filter, "orders.dead", place).map_err(|text| {
                assert!(text.contains("help: "), "{text}");
            })
        };
        assert_eq!(check("", &place), Ok(()));
        assert_eq!(check("", &StreamConfig { no_ack: true, ..place.clone() }), Err(()));
        let retention = RetentionPolicy::Interest;
        assert_eq!(check("", &StreamConfig { retention, ..place.clone() }), Err(()));
        let own = StreamConfig { name: "ORDERS".to_owned(), ..place };
        for (filter, answer) in [
            ("", Err(())),
            ("orders.>", Err(())),
            ("orders.*", Err(())),
            ("orders.dead", Err(())),
            ("orders.new", Ok(())),
            ("orders", Ok(())),
            ("orders.dead.>", Ok(())),
        ] {
            assert_eq!(check(filter, &own), answer, "{filter}");
        }
    }
}
