//! A message of Kafka, and the headers that this adapter adds to copies of it.

use super::assignment::Claim;
use crate::delivery::{ERROR_HEADER, REASON_HEADER};
use crate::{Message, Reason};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message as _, OwnedHeaders};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The header with the first place of a message: `topic:partition:offset`.
pub const ORIGIN_HEADER: &str = "idempotent-origin";
/// The header with the number of deliveries that a message has had.
pub const DELIVERIES_HEADER: &str = "idempotent-deliveries";
/// The header with the `group.id` of the consumers that a copy is for, or that put it aside.
pub const GROUP_HEADER: &str = "idempotent-group";
/// The header with the time before which a copy is not delivered, in milliseconds since 1970.
pub const DUE_HEADER: &str = "idempotent-due";

/// The longest time for which a copy is held, however wrong the clock is that it was made by.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// A message that was read, with what a copy of it needs.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) claim: Claim,
    /// With the headers that are text.
    pub(super) message: Message,
    /// The topic that it was sent to first, which names the topics of its copies.
    pub(super) home: String,
    pub(super) key: Option<Vec<u8>>,
    /// Without a payload, as Kafka's own tombstones are.
    pub(super) is_tombstone: bool,
    origin: String,
    headers: Vec<RawHeader>,
}

type RawHeader = (String, Option<Vec<u8>>);

/// The headers that this adapter added to a copy, as they were read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) group: Option<String>,
    pub(super) due: Option<SystemTime>,
    origin: Option<String>,
    deliveries: u64,
}

impl Added {
    /// Takes these headers out of those of a message.
    fn take(headers: &mut Vec<RawHeader>) -> Self {
        let mut added = Self::default();
        headers.retain(|(name, value)| {
            let text = value.as_deref().and_then(|value| std::str::from_utf8(value).ok());
            match (&**name, text) {
                (ORIGIN_HEADER, text) => added.origin = text.map(str::to_owned),
                (GROUP_HEADER, text) => added.group = text.map(str::to_owned),
                (DELIVERIES_HEADER, text) => {
                    added.deliveries = text.and_then(|text| text.parse().ok()).unwrap_or_default();
                }
                (DUE_HEADER, text) => {
                    let since = text.and_then(|text| text.parse().ok()).map(Duration::from_millis);
                    added.due = since.and_then(|since| UNIX_EPOCH.checked_add(since));
                }
                _ => return true,
            }
            false
        });
        added
    }

    /// The time that is left until it is due. Zero if it is.
    pub(super) fn wait(&self, now: SystemTime) -> Duration {
        let wait = self.due.and_then(|due| due.duration_since(now).ok()).unwrap_or_default();
        wait.min(LONGEST)
    }

    /// The topic of the origin.
    pub(super) fn topic(&self) -> Option<&str> {
        self.origin.as_deref()?.rsplitn(3, ':').nth(2)
    }
}

impl Record {
    /// Reads a message. The headers of a copy count only on a topic of copies: on any other, the
    /// message was put there by another program, which may have copied the headers of a dead letter.
    pub(super) fn read(
        message: &BorrowedMessage<'_>,
        claim: Claim,
        is_copy: bool,
    ) -> (Self, Added) {
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        let headers =
            headers.map(|Header { key, value }| (key.to_owned(), value.map(<[u8]>::to_vec)));
        Self::new(
            claim,
            message.key().map(<[u8]>::to_vec),
            message.payload().map(<[u8]>::to_vec),
            headers.collect(),
            is_copy,
        )
    }

    fn new(
        claim: Claim,
        key: Option<Vec<u8>>,
        payload: Option<Vec<u8>>,
        mut headers: Vec<RawHeader>,
        is_copy: bool,
    ) -> (Self, Added) {
        let mut added = Added::take(&mut headers);
        if !is_copy {
            added = Added::default();
        }
        let Claim { place, offset, .. } = &claim;
        let here = || format!("{}:{}:{offset}", place.topic, place.partition);
        let origin = added.origin.clone().unwrap_or_else(here);
        let is_tombstone = payload.is_none();
        let mut message = Message::new(payload.unwrap_or_default())
            .with_id(&*origin)
            .with_deliveries(added.deliveries.saturating_add(1));
        for (name, value) in &headers {
            let text = value.as_deref().and_then(|value| std::str::from_utf8(value).ok());
            if let Some(text) = text {
                message = message.with_header(name, text);
            }
        }
        let home = place.topic.to_string();
        (Self { claim, message, home, key, is_tombstone, origin, headers }, added)
    }

    #[cfg(test)]
    pub(super) fn of(claim: Claim) -> Self {
        Self::new(claim, None, None, vec![], false).0
    }

    /// The payload of a copy.
    pub(super) fn payload(&self) -> Option<&[u8]> {
        (!self.is_tombstone).then(|| self.message.payload())
    }

    /// Counts another delivery of the message.
    pub(super) fn delivered_again(&mut self) {
        let deliveries = self.message.deliveries().unwrap_or_default().saturating_add(1);
        self.message = std::mem::take(&mut self.message).with_deliveries(deliveries);
    }

    /// The headers of a copy that is delivered again to the same group.
    pub(super) fn headers_of_retry(&self, group: &str, due: SystemTime) -> OwnedHeaders {
        // Rounded up: a pause is not shortened.
        let due = due.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().div_ceil(1_000_000);
        self.headers_of_copy(group, |_| true)
            .insert(Header { key: DUE_HEADER, value: Some(&due.to_string()) })
    }

    /// The headers of a copy that is put aside.
    pub(super) fn headers_aside(&self, group: &str, reason: &Reason) -> OwnedHeaders {
        // One that was put aside before, and sent again by a person, has a new reason.
        let headers =
            self.headers_of_copy(group, |name| ![REASON_HEADER, ERROR_HEADER].contains(&name));
        reason.headers().iter().fold(headers, |headers, (name, value)| {
            headers.insert(Header { key: name, value: Some(value) })
        })
    }

    fn headers_of_copy(&self, group: &str, is_kept: impl Fn(&str) -> bool) -> OwnedHeaders {
        let kept = self.headers.iter().filter(|(name, _)| is_kept(name));
        let copied = kept.fold(OwnedHeaders::new(), |headers, (name, value)| {
            headers.insert(Header { key: name, value: value.as_ref() })
        });
        let deliveries = self.message.deliveries().unwrap_or_default().to_string();
        copied
            .insert(Header { key: ORIGIN_HEADER, value: Some(&self.origin) })
            .insert(Header { key: DELIVERIES_HEADER, value: Some(&deliveries) })
            .insert(Header { key: GROUP_HEADER, value: Some(group) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::assignment::Place;
    use super::*;

    fn claim(topic: &str) -> Claim {
        Claim { place: Place { topic: topic.into(), partition: 2 }, generation: 1, offset: 17 }
    }

    fn raw(name: &str, value: &[u8]) -> RawHeader {
        (name.to_owned(), Some(value.to_vec()))
    }

    fn owned(headers: &OwnedHeaders) -> Vec<RawHeader> {
        let headers = headers.iter();
        headers.map(|it| (it.key.to_owned(), it.value.map(<[u8]>::to_vec))).collect()
    }

    fn sent() -> Vec<RawHeader> {
        vec![raw("a", b"1"), raw("bytes", &[0xff]), ("null".to_owned(), None), raw("a", b"2")]
    }

    fn read(topic: &str, headers: Vec<RawHeader>, is_copy: bool) -> (Record, Added) {
        Record::new(claim(topic), Some(b"k".to_vec()), Some(b"{}".to_vec()), headers, is_copy)
    }

    #[test]
    fn a_copy_keeps_place_count_and_every_header() {
        let (first, added) = read("orders", sent(), false);
        assert_eq!(
            (first.message.id(), first.message.deliveries()),
            (Some("orders:2:17"), Some(1))
        );
        assert_eq!(first.message.headers().collect::<Vec<_>>(), [("a", "1"), ("a", "2")]);
        assert_eq!(added, Added::default());

        let due = UNIX_EPOCH + Duration::from_millis(1_234);
        let headers = owned(&first.headers_of_retry("billing", due));
        assert_eq!(headers[..4], sent());
        let (copy, added) = read("orders.retry", headers, true);
        assert_eq!((copy.message.id(), copy.message.deliveries()), (Some("orders:2:17"), Some(2)));
        assert_eq!(copy.headers, sent());
        assert_eq!((added.group.as_deref(), added.due), (Some("billing"), Some(due)));
        assert_eq!(added.topic(), Some("orders"));
        assert_eq!(copy.message.headers().collect::<Vec<_>>(), [("a", "1"), ("a", "2")]);
    }

    #[test]
    fn a_copy_waits_until_it_is_due_and_no_longer_than_a_day() {
        let now = UNIX_EPOCH + LONGEST * 1_000;
        let due = |due| Added { due: Some(due), ..Added::default() };
        let second = Duration::from_secs(1);
        assert_eq!(due(now + second).wait(now), second);
        assert_eq!(due(now - second).wait(now), Duration::ZERO);
        assert_eq!(due(now + LONGEST * 9).wait(now), LONGEST);
        assert_eq!(Added::default().wait(now), Duration::ZERO);
    }

    #[test]
    fn a_message_on_any_other_topic_is_not_believed_to_be_a_copy() {
        let (first, _) = read("orders", sent(), false);
        let headers = owned(&first.headers_of_retry("billing", SystemTime::now()));
        let (sent_again, added) = read("invoices", headers, false);
        assert_eq!(added, Added::default());
        assert_eq!(sent_again.message.id(), Some("invoices:2:17"));
        assert_eq!(sent_again.headers, sent());
    }

    #[test]
    fn headers_that_cannot_be_read_are_as_if_they_were_not_there() {
        let headers = vec![
            raw(DUE_HEADER, b"soon"),
            raw(DELIVERIES_HEADER, b"-1"),
            raw(GROUP_HEADER, &[0xff]),
            (ORIGIN_HEADER.to_owned(), None),
        ];
        let (record, added) = read("orders.retry", headers, true);
        assert_eq!(added, Added::default());
        assert_eq!(record.message.id(), Some("orders.retry:2:17"));
        assert_eq!(record.message.deliveries(), Some(1));
        let most = vec![raw(DELIVERIES_HEADER, u64::MAX.to_string().as_bytes())];
        let (mut record, _) = read("orders.retry", most, true);
        record.delivered_again();
        assert_eq!(record.message.deliveries(), Some(u64::MAX));
        let latest = vec![raw(DUE_HEADER, u64::MAX.to_string().as_bytes())];
        assert!(read("orders.retry", latest, true).1.wait(SystemTime::now()) <= LONGEST);
    }

    #[test]
    fn what_is_put_aside_has_its_last_reason_alone() {
        let old = vec![raw(REASON_HEADER, b"old"), raw("a", b"1"), raw(ERROR_HEADER, b"old")];
        let (record, _) = read("orders", old, false);
        let aside =
            owned(&record.headers_aside("billing", &Reason::new("final-error", "declined")));
        let reasons: Vec<_> = aside.iter().filter(|(name, _)| name == REASON_HEADER).collect();
        assert_eq!(reasons, [&raw(REASON_HEADER, b"final-error")]);
        assert!(aside.contains(&raw(ORIGIN_HEADER, b"orders:2:17")));
        assert!(aside.contains(&raw(ERROR_HEADER, b"declined")) && aside.contains(&raw("a", b"1")));
    }

    #[test]
    fn a_tombstone_stays_one() {
        let (record, _) = Record::new(claim("orders"), None, None, vec![], false);
        assert_eq!((record.payload(), record.message.payload()), (None, &b""[..]));
    }
}
