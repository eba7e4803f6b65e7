//! The entries that a source has at hand: those to be delivered, in hand, and to come again.
//!
//! It decides on values alone. Of an entry that comes again only the id is kept: Redis has the rest.

use super::entry::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::Duration;
use tokio::time::Instant;

/// The largest number of entries whose time to come again is known here. That of others is found by
/// looking through what is pending.
const MOST_WAITING: usize = 10_000;

/// The entries of a source.
#[derive(Debug)]
pub(super) struct Inbox {
    /// The largest number of deliveries that are not settled.
    prefetch: usize,
    ready: VecDeque<Entry>,
    waiting: BTreeMap<(Instant, String), Pause>,
    in_hand: usize,
    /// A consumer waits for an entry.
    is_asked: bool,
    has_ended: bool,
    /// The number of entries that the reader waits to be wanted, if it does.
    reader_waits_for: Option<usize>,
    /// The claimer waits until an entry is wanted.
    claimer_waits: bool,
}

/// The tasks that have something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awake {
    pub(super) reader: bool,
    pub(super) claimer: bool,
}

/// A delivery of an entry, which tells it from those before and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) id: String,
    /// The number of the delivery.
    pub(super) number: u64,
}

impl Delivered {
    pub(super) fn of(entry: &Entry) -> Self {
        Self { id: entry.id.clone(), number: entry.deliveries }
    }
}

#[derive(Debug)]
struct Pause {
    number: u64,
    /// Longer than the time after which others claim the entry: it is kept from them now and then.
    is_long: bool,
}

impl Inbox {
    pub(super) fn new(prefetch: usize) -> Self {
        Self {
            prefetch: prefetch.max(1),
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            in_hand: 0,
            is_asked: false,
            has_ended: false,
            reader_waits_for: None,
            claimer_waits: false,
        }
    }

    /// Sets whether a consumer waits for an entry.
    pub(super) fn ask(&mut self, is_asked: bool) {
        self.is_asked = is_asked;
    }

    /// The number of entries that may be fetched: none unless a consumer waits for one.
    pub(super) fn wanted(&self) -> usize {
        if self.is_asked { self.room() } else { 0 }
    }

    /// The number of entries that are worth a read while others are in hand.
    pub(super) fn enough(&self) -> usize {
        (self.prefetch / 4).max(1)
    }

    /// The reader waits until so many entries are wanted.
    pub(super) fn reader_waits_for(&mut self, wanted: usize) {
        self.reader_waits_for = Some(wanted);
    }

    /// The claimer has something to do only once an entry is wanted.
    pub(super) fn claimer_waits(&mut self) {
        self.claimer_waits = true;
    }

    /// Returns the tasks whose wait is over, each once. Settled messages are many, and mostly wake none.
    pub(super) fn awake(&mut self) -> Awake {
        let wanted = self.wanted();
        let reader = self.reader_waits_for.take_if(|least| wanted >= *least).is_some();
        let claimer = wanted > 0 && mem::take(&mut self.claimer_waits);
        Awake { reader, claimer }
    }

    fn room(&self) -> usize {
        match self.has_ended {
            true => 0,
            false => self.prefetch.saturating_sub(self.in_hand + self.ready.len()),
        }
    }

    /// Takes entries that were fetched. Returns those that there is no room for: after the end, and if new
    /// ones and claimed ones came together.
    pub(super) fn arrive(&mut self, mut entries: Vec<Entry>) -> Vec<Entry> {
        let too_many = entries.split_off(self.room().min(entries.len()));
        self.ready.extend(entries);
        too_many
    }

    /// Hands out an entry.
    pub(super) fn next(&mut self) -> Option<Entry> {
        let entry = self.ready.pop_front()?;
        self.in_hand += 1;
        Some(entry)
    }

    /// Notes that a delivery is no longer in hand.
    pub(super) fn leave(&mut self) {
        self.in_hand = self.in_hand.saturating_sub(1);
    }

    /// Keeps the time at which an entry comes again. `false` if there are too many, or after the end.
    pub(super) fn wait(&mut self, delivered: Delivered, due: Instant, is_long: bool) -> bool {
        if self.has_ended || self.waiting.len() >= MOST_WAITING {
            return false;
        }
        let Delivered { id, number } = delivered;
        self.waiting.insert((due, id), Pause { number, is_long });
        true
    }

    /// The earliest time at which an entry comes again.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes entries whose time has come, at most `most`.
    pub(super) fn due(&mut self, now: Instant, most: usize) -> Vec<Delivered> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            let ((_, id), Pause { number, .. }) = first.remove_entry();
            due.push(Delivered { id, number });
        }
        due
    }

    /// The entries that others must not claim, each with the rest of its pause; without one if it is to be
    /// delivered here.
    pub(super) fn kept(&self, now: Instant) -> Vec<(Delivered, Option<Duration>)> {
        let ready = self.ready.iter().map(|entry| (Delivered::of(entry), None));
        let long = self.waiting.iter().filter(|(_, pause)| pause.is_long);
        let long = long.map(|((due, id), pause)| {
            let delivered = Delivered { id: id.clone(), number: pause.number };
            (delivered, Some(due.saturating_duration_since(now)))
        });
        ready.chain(long).collect()
    }

    /// Forgets entries to be delivered that another consumer has claimed.
    pub(super) fn forget(&mut self, claimed: &[Delivered]) {
        self.ready.retain(|entry| !claimed.contains(&Delivered::of(entry)));
    }

    /// Ends the source. Returns the entries that can be delivered at once, for others to claim.
    pub(super) fn end(&mut self, now: Instant) -> Vec<Delivered> {
        self.has_ended = true;
        let due = self.due(now, usize::MAX);
        self.waiting.clear();
        self.ready.drain(..).map(|entry| Delivered::of(&entry)).chain(due).collect()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn entry(id: &str) -> Entry {
        Entry::new(id.to_owned(), 1, Vec::new(), "payload")
    }

    fn delivered(id: &str) -> Delivered {
        Delivered { id: id.to_owned(), number: 1 }
    }

    #[test]
    fn nothing_is_fetched_beyond_what_may_be_in_hand() {
        let mut inbox = Inbox::new(3);
        assert_eq!(inbox.wanted(), 0, "nobody asks");
        inbox.ask(true);
        assert_eq!(inbox.wanted(), 3);
        inbox.arrive(vec![entry("1-0"), entry("2-0")]);
        assert_eq!(inbox.wanted(), 1);
        inbox.next().unwrap();
        assert_eq!(inbox.wanted(), 1, "one in hand, one ready");
        inbox.leave();
        assert_eq!(inbox.wanted(), 2);
        let too_many = inbox.arrive(vec![entry("3-0"), entry("4-0"), entry("5-0")]);
        assert_eq!(too_many.iter().map(|entry| &*entry.id).collect::<Vec<_>>(), ["5-0"]);
    }

    #[test]
    fn a_task_is_woken_once_when_what_it_waits_for_is_there() {
        let (none, all) =
            (Awake { reader: false, claimer: false }, Awake { reader: true, claimer: true });
        let mut inbox = Inbox::new(8);
        inbox.ask(true);
        assert_eq!(inbox.awake(), none, "nobody waits");
        let entries = (0..8).map(|id| entry(&id.to_string())).collect();
        inbox.arrive(entries);
        (0..8).for_each(|_| drop(inbox.next().unwrap()));
        inbox.reader_waits_for(inbox.enough());
        assert_eq!(inbox.awake(), none, "there is no room");
        inbox.leave();
        assert_eq!(inbox.awake(), none, "one is not worth a read");
        inbox.claimer_waits();
        inbox.leave();
        assert_eq!([inbox.awake(), inbox.awake()], [all, none]);
    }

    #[test]
    fn an_entry_comes_again_when_its_time_has_come() {
        let (mut inbox, now) = (Inbox::new(3), Instant::now());
        inbox.wait(delivered("2-0"), now + SECOND, false);
        inbox.wait(delivered("1-0"), now + 2 * SECOND, false);
        assert_eq!(inbox.earliest(), Some(now + SECOND));
        assert_eq!(inbox.due(now, 9), []);
        assert_eq!(inbox.due(now + 2 * SECOND, 1), [delivered("2-0")]);
        assert_eq!(inbox.due(now + 2 * SECOND, 9), [delivered("1-0")]);
    }

    #[test]
    fn the_number_of_entries_that_wait_is_limited() {
        let (mut inbox, now) = (Inbox::new(3), Instant::now());
        for id in 0..MOST_WAITING {
            assert!(inbox.wait(delivered(&id.to_string()), now, false));
        }
        assert!(!inbox.wait(delivered("one more"), now, false));
    }

    #[test]
    fn entries_that_are_ready_and_long_pauses_are_kept() {
        let (mut inbox, now) = (Inbox::new(3), Instant::now());
        inbox.arrive(vec![entry("1-0"), entry("4-0")]);
        inbox.wait(delivered("2-0"), now + SECOND, false);
        inbox.wait(delivered("3-0"), now + SECOND, true);
        let expected =
            [(delivered("1-0"), None), (delivered("4-0"), None), (delivered("3-0"), Some(SECOND))];
        assert_eq!(inbox.kept(now), expected);
        inbox.forget(&[delivered("1-0")]);
        assert_eq!(inbox.next().unwrap().id, "4-0");
    }

    #[test]
    fn an_inbox_that_has_ended_returns_everything() {
        let (mut inbox, now) = (Inbox::new(3), Instant::now());
        inbox.ask(true);
        inbox.arrive(vec![entry("1-0")]);
        inbox.wait(delivered("2-0"), now, false);
        inbox.wait(delivered("3-0"), now + SECOND, false);
        assert_eq!(inbox.end(now), [delivered("1-0"), delivered("2-0")]);
        assert_eq!(inbox.arrive(vec![entry("5-0")]).len(), 1);
        assert!(!inbox.wait(delivered("6-0"), now, false));
        assert_eq!(inbox.wanted(), 0);
    }
}
