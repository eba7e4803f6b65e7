//! The settings of a source, and their check against the terms of a consumer.

use super::entry::PAYLOAD;
use crate::{QueueError, Terms};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The least number of heartbeats within the time after which an entry is claimed: one or two may be late.
const HEARTBEATS: u32 = 3;
/// The time after which an entry is claimed, unless heartbeats are rare or the setting says another one.
const CLAIM_AFTER: Duration = Duration::from_secs(30);
/// The time after which a consumer is removed that was not heard of.
const FORGET_AFTER: Duration = Duration::from_secs(3_600);
/// The time that a server may take to answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// The settings of a source.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) stream: String,
    pub(super) group: String,
    pub(super) consumer: Option<String>,
    /// The field of the payload.
    pub(super) payload: String,
    pub(super) dead_letters: String,
    pub(super) parked: String,
    pub(super) claim_after: Option<Duration>,
    pub(super) forget_after: Duration,
    pub(super) timeout: Duration,
    /// The id after which a new group begins.
    pub(super) begin: &'static str,
    /// Entries are deleted when they are settled.
    pub(super) deletes: bool,
}

impl Settings {
    pub(super) fn new(stream: String, group: String) -> Self {
        Self {
            dead_letters: format!("{stream}:dead"),
            parked: format!("{stream}:parked"),
            stream,
            group,
            consumer: None,
            payload: PAYLOAD.to_owned(),
            claim_after: None,
            forget_after: FORGET_AFTER,
            timeout: TIMEOUT,
            begin: "0",
            deletes: false,
        }
    }

    /// The time after which an entry is claimed whose consumer was not heard of.
    pub(super) fn claim_after(&self, terms: &Terms) -> Duration {
        let least = terms.heartbeat.saturating_mul(HEARTBEATS);
        self.claim_after.unwrap_or_else(|| CLAIM_AFTER.max(least))
    }

    /// The name of the consumer inside its group: the one that was set, or one of its own.
    pub(super) fn consumer(&self, terms: &Terms) -> String {
        let own = || {
            let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "host".to_owned());
            let random = RandomState::new().hash_one(0) as u32;
            format!("{}-{host}-{}-{random:08x}", terms.consumer, std::process::id())
        };
        self.consumer.clone().unwrap_or_else(own)
    }

    /// Refuses settings under which an entry is taken from a consumer at work, or never leaves the stream.
    pub(super) fn check(&self, terms: &Terms) -> Result<(), QueueError> {
        let (claim_after, heartbeat) = (self.claim_after(terms), terms.heartbeat);
        let least = heartbeat.saturating_mul(HEARTBEATS);
        if claim_after < least {
            return Err(QueueError::new(format!(
                "entries of `{}` are claimed after {claim_after:?}, which is shorter than {HEARTBEATS} \
                 heartbeats of {heartbeat:?}: others would claim what is being handled\n\
                 help: claim_after({least:?}), or heartbeat({:?}) of the consumer",
                self.stream,
                claim_after / HEARTBEATS,
            )));
        }
        if [&self.dead_letters, &self.parked].contains(&&self.stream) {
            return Err(QueueError::new(format!(
                "entries of `{0}` would be put aside into `{0}` itself, and be delivered again\n\
                 help: dead_letters(\"{0}:dead\"), parked(\"{0}:parked\")",
                self.stream,
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(heartbeat: u64) -> Terms {
        let heartbeat = Duration::from_secs(heartbeat);
        Terms { consumer: "shop".to_owned(), prefetch: 1, max_attempts: None, heartbeat }
    }

    fn settings() -> Settings {
        Settings::new("orders".to_owned(), "shop".to_owned())
    }

    #[test]
    fn entries_are_claimed_after_three_heartbeats_at_least() {
        assert_eq!(settings().claim_after(&terms(10)), CLAIM_AFTER);
        assert_eq!(settings().claim_after(&terms(20)), Duration::from_secs(60));
        let short = Settings { claim_after: Some(Duration::from_secs(20)), ..settings() };
        let text = short.check(&terms(10)).unwrap_err().to_string();
        assert!(text.contains("help: claim_after(30s), or heartbeat(6.666666666s)"), "{text}");
        short.check(&terms(5)).unwrap();
    }

    #[test]
    fn a_stream_is_not_its_own_place_for_dead_letters() {
        let own = Settings { dead_letters: "orders".to_owned(), ..settings() };
        assert!(own.check(&terms(10)).is_err());
        let own = Settings { parked: "orders".to_owned(), ..settings() };
        assert!(own.check(&terms(10)).is_err());
    }

    #[test]
    fn two_consumers_have_two_names() {
        let names = [(); 2].map(|()| settings().consumer(&terms(10)));
        assert_ne!(names[0], names[1]);
        assert!(names[0].starts_with("shop-"), "{names:?}");
        let named = Settings { consumer: Some("one".to_owned()), ..settings() };
        assert_eq!(named.consumer(&terms(10)), "one");
    }
}
