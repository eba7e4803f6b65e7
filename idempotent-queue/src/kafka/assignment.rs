//! The partitions that a consumer owns, and the messages of theirs that it has in memory.
//!
//! A message is in one of three places: ready, held until it is due, or in hand, which is a delivery that a
//! handler has. It stays open in the [`Offsets`] of its partition until it is settled.
//!
//! A partition gets a generation when it is assigned. A [`Claim`] that names another one is void: the partition
//! was revoked in the meantime, and its owner gets the message again.

use super::offsets::{Offsets, Read};
use super::record::Record;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
}

/// The right to settle a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) place: Place,
    pub(super) generation: u64,
    pub(super) offset: i64,
}

/// The partition of a message is no longer that of this consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revoked;

/// The limits of what is in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Messages that are ready or in hand, of all partitions together.
    pub(super) prefetch: usize,
    /// Messages of a partition from the oldest that is not settled.
    pub(super) window: usize,
    /// A message is read when the one before it, of the same partition, is settled.
    pub(super) is_ordered: bool,
}

/// The next message, if there is one.
#[derive(Debug)]
pub(super) enum Taken {
    Record(Box<Record>),
    /// None before this time, unless another one is read.
    NotBefore(Instant),
    Nothing,
}

#[derive(Debug)]
pub(super) struct Assignment {
    partitions: HashMap<Place, Partition>,
    generations: u64,
    ready: VecDeque<Record>,
    /// By the time at which they are due; the number tells apart those of one time.
    held: BTreeMap<(Instant, u64), Record>,
    holds: u64,
    in_hand: usize,
    pub(super) limits: Limits,
}

#[derive(Debug)]
struct Partition {
    /// Unique to this assignment of the partition.
    assigned: u64,
    /// The same number, or a later one if the log of the partition was cut off in the meantime.
    generation: u64,
    offsets: Offsets,
}

impl Assignment {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            partitions: HashMap::new(),
            generations: 0,
            ready: VecDeque::new(),
            held: BTreeMap::new(),
            holds: 0,
            in_hand: 0,
            limits,
        }
    }

    /// The partition is this consumer's. Claims of an earlier assignment are void.
    pub(super) fn assign(&mut self, place: Place) {
        self.forget(&place);
        let assigned = self.next_generation();
        let offsets = Offsets::default();
        self.partitions.insert(place, Partition { assigned, generation: assigned, offsets });
    }

    /// The partition is no longer this consumer's. Returns the offset that is still to be committed.
    pub(super) fn revoke(&mut self, place: &Place) -> Option<i64> {
        self.forget(place);
        self.partitions.remove(place)?.offsets.to_commit()
    }

    /// No partition is this consumer's.
    pub(super) fn revoke_all(&mut self) -> Vec<(Place, i64)> {
        self.ready.clear();
        self.held.clear();
        let revoked = self.partitions.drain();
        let offsets =
            revoked.filter_map(|(place, it)| it.offsets.to_commit().map(|offset| (place, offset)));
        offsets.collect()
    }

    /// The partitions, each with the number of its assignment.
    pub(super) fn assigned(&self) -> impl Iterator<Item = (&Place, u64)> {
        self.partitions.iter().map(|(place, partition)| (place, partition.assigned))
    }

    fn generation(&self, place: &Place) -> Option<u64> {
        self.partitions.get(place).map(|partition| partition.generation)
    }

    /// Another message of this partition may be read.
    pub(super) fn has_room(&self, place: &Place) -> bool {
        let Limits { prefetch, window, is_ordered } = self.limits;
        self.ready.len() + self.in_hand < prefetch
            && self.partitions.get(place).is_some_and(|Partition { offsets, .. }| {
                offsets.span() < window && !(is_ordered && offsets.open() > 0)
            })
    }

    /// Takes in a message that was read. One of a partition that is not this consumer's is left out.
    pub(super) fn read(&mut self, mut record: Record, due: Option<Instant>) {
        let Some(generation) = self.note(&record.claim.place, record.claim.offset) else { return };
        record.claim.generation = generation;
        match due {
            Some(due) => self.keep(record, due),
            None => self.ready.push_back(record),
        }
    }

    /// Takes in a message that is not for this consumer, and is settled by being read.
    pub(super) fn pass_over(&mut self, place: &Place, offset: i64) {
        self.note(place, offset);
        if let Some(partition) = self.partitions.get_mut(place) {
            partition.offsets.settle(offset);
        }
    }

    /// The next message, which is then in hand. One that is due goes before those that were read later.
    pub(super) fn take(&mut self, now: Instant) -> Taken {
        let earliest = self.held.first_key_value().map(|((due, _), _)| *due);
        let next = match earliest {
            Some(due) if due <= now => self.held.pop_first().map(|(_, record)| record),
            _ => self.ready.pop_front(),
        };
        match (next, earliest) {
            (Some(record), _) => {
                self.in_hand += 1;
                Taken::Record(Box::new(record))
            }
            (None, Some(due)) => Taken::NotBefore(due),
            (None, None) => Taken::Nothing,
        }
    }

    /// A delivery has ended, whatever became of its message.
    pub(super) fn put_down(&mut self) {
        self.in_hand = self.in_hand.saturating_sub(1);
    }

    pub(super) fn owns(&self, claim: &Claim) -> Result<(), Revoked> {
        match self.generation(&claim.place) {
            Some(generation) if generation == claim.generation => Ok(()),
            _ => Err(Revoked),
        }
    }

    pub(super) fn settle(&mut self, claim: &Claim) -> Result<(), Revoked> {
        self.owns(claim)?;
        if let Some(partition) = self.partitions.get_mut(&claim.place) {
            partition.offsets.settle(claim.offset);
        }
        Ok(())
    }

    /// Keeps a message in memory, to be delivered again when it is due.
    pub(super) fn hold(&mut self, record: Record, due: Instant) -> Result<(), Revoked> {
        self.owns(&record.claim)?;
        self.keep(record, due);
        Ok(())
    }

    /// The offsets to commit.
    pub(super) fn to_commit(&self) -> Vec<(Place, i64)> {
        let offsets = self.partitions.iter().filter_map(|(place, partition)| {
            partition.offsets.to_commit().map(|offset| (place.clone(), offset))
        });
        offsets.collect()
    }

    /// Commits were confirmed.
    pub(super) fn committed(&mut self, offsets: &[(Place, i64)]) {
        for (place, offset) in offsets {
            if let Some(partition) = self.partitions.get_mut(place) {
                partition.offsets.committed(*offset);
            }
        }
    }

    /// Notes an offset that was read. Returns the generation of its partition.
    fn note(&mut self, place: &Place, offset: i64) -> Option<u64> {
        if self.partitions.get_mut(place)?.offsets.read(offset) == Read::Rewound {
            self.forget(place);
            let generation = self.next_generation();
            self.partitions.get_mut(place)?.generation = generation;
        }
        self.generation(place)
    }

    fn keep(&mut self, record: Record, due: Instant) {
        self.holds += 1;
        self.held.insert((due, self.holds), record);
    }

    /// Drops the messages of a partition that no handler has.
    fn forget(&mut self, place: &Place) {
        self.ready.retain(|record| record.claim.place != *place);
        self.held.retain(|_, record| record.claim.place != *place);
    }

    fn next_generation(&mut self) -> u64 {
        self.generations += 1;
        self.generations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn place(partition: i32) -> Place {
        Place { topic: "orders".into(), partition }
    }

    fn record(partition: i32, offset: i64) -> Record {
        Record::of(Claim { place: place(partition), generation: 0, offset })
    }

    fn assigned(limits: Limits, partitions: i32) -> Assignment {
        let mut assignment = Assignment::new(limits);
        (0..partitions).for_each(|partition| assignment.assign(place(partition)));
        assignment
    }

    const LIMITS: Limits = Limits { prefetch: 4, window: 6, is_ordered: false };

    /// The claim of the next message, which is then in hand.
    fn taken(assignment: &mut Assignment, now: Instant) -> Option<Claim> {
        match assignment.take(now) {
            Taken::Record(record) => Some(record.claim),
            _ => None,
        }
    }

    fn offsets(assignment: &mut Assignment, now: Instant) -> Vec<i64> {
        std::iter::from_fn(|| taken(assignment, now)).map(|claim| claim.offset).collect()
    }

    #[test]
    fn no_more_messages_are_read_than_may_be_in_hand() {
        let mut assignment = assigned(LIMITS, 2);
        let now = Instant::now();
        for offset in 0..4 {
            assert!(assignment.has_room(&place(0)));
            assignment.read(record(0, offset), None);
        }
        assert!(!assignment.has_room(&place(1)), "the limit is for all partitions together");
        let first = taken(&mut assignment, now).unwrap();
        assert!(!assignment.has_room(&place(0)), "it is in hand");
        assignment.settle(&first).unwrap();
        assignment.put_down();
        assert!(assignment.has_room(&place(0)));
        assert!(!assignment.has_room(&place(7)), "it is not this consumer's");
    }

    #[test]
    fn a_partition_is_not_read_far_beyond_a_message_that_is_not_settled() {
        let mut assignment = assigned(LIMITS, 2);
        let now = Instant::now();
        for offset in 0..6 {
            assert!(assignment.has_room(&place(0)));
            assignment.read(record(0, offset), None);
            let claim = taken(&mut assignment, now).unwrap();
            if offset > 0 {
                assignment.settle(&claim).unwrap();
                assignment.put_down();
            }
        }
        assert!(!assignment.has_room(&place(0)));
        assert!(assignment.has_room(&place(1)));
    }

    #[test]
    fn a_message_that_is_held_comes_when_it_is_due_and_before_those_behind_it() {
        let mut assignment = assigned(LIMITS, 1);
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        assignment.read(record(0, 0), Some(later));
        assignment.read(record(0, 1), Some(now));
        assert_eq!(offsets(&mut assignment, now), [1], "it does not wait for the one before it");
        assert!(matches!(assignment.take(now), Taken::NotBefore(due) if due == later));
        assignment.read(record(0, 2), None);
        assert_eq!(offsets(&mut assignment, later), [0, 2]);
        assert!(matches!(assignment.take(later), Taken::Nothing));
    }

    #[test]
    fn in_order_a_message_waits_for_the_one_before_it() {
        let mut assignment = assigned(Limits { is_ordered: true, ..LIMITS }, 2);
        let now = Instant::now();
        assignment.read(record(0, 0), None);
        assert!(!assignment.has_room(&place(0)));
        assert!(assignment.has_room(&place(1)), "another partition has an order of its own");
        let Taken::Record(first) = assignment.take(now) else { panic!("it is ready") };
        assignment.put_down();
        let claim = first.claim.clone();
        assignment.hold(*first, now).unwrap();
        assert!(!assignment.has_room(&place(0)), "it keeps its place while it is held");
        assert_eq!(offsets(&mut assignment, now), [0]);
        assignment.settle(&claim).unwrap();
        assert!(assignment.has_room(&place(0)));
    }

    #[test]
    fn a_claim_is_void_once_its_partition_is_revoked() {
        let mut assignment = assigned(LIMITS, 2);
        let now = Instant::now();
        for offset in 0..3 {
            assignment.read(record(0, offset), None);
        }
        assignment.read(record(1, 0), None);
        let [first, second] = [(); 2].map(|()| taken(&mut assignment, now).unwrap());
        assignment.settle(&first).unwrap();
        assert_eq!(assignment.revoke(&place(0)), Some(1), "what is settled is committed");
        assert_eq!(assignment.settle(&second), Err(Revoked));
        assert_eq!(assignment.hold(record(0, 1), now), Err(Revoked));
        let left = taken(&mut assignment, now).unwrap();
        assert_eq!(left.place, place(1), "messages of the partition are dropped");
        // It comes back, and with it the same messages.
        assignment.assign(place(0));
        assert_eq!(assignment.settle(&second), Err(Revoked), "the claim is of the time before");
        assert_eq!(assignment.to_commit(), []);
        assignment.read(record(0, 1), None);
        let again = taken(&mut assignment, now).unwrap();
        assignment.settle(&again).unwrap();
        assert_eq!(assignment.to_commit(), [(place(0), 2)]);
        assert_eq!(assignment.revoke(&place(7)), None);
    }

    #[test]
    fn what_is_not_confirmed_is_committed_when_all_is_revoked() {
        let mut assignment = assigned(LIMITS, 2);
        for partition in [0, 1] {
            assignment.read(record(partition, 0), None);
            let claim = taken(&mut assignment, Instant::now()).unwrap();
            assignment.settle(&claim).unwrap();
        }
        assignment.committed(&[(place(0), 1), (place(7), 1)]);
        assert_eq!(assignment.revoke_all(), [(place(1), 1)]);
        assert_eq!(assignment.assigned().count(), 0);
    }

    #[test]
    fn a_log_that_was_cut_off_voids_claims_and_drops_messages() {
        let mut assignment = assigned(LIMITS, 1);
        let now = Instant::now();
        assignment.read(record(0, 10), None);
        assignment.read(record(0, 11), None);
        let before = taken(&mut assignment, now).unwrap();
        assignment.read(record(0, 2), None);
        assert_eq!(assignment.owns(&before), Err(Revoked));
        assert_eq!(offsets(&mut assignment, now), [2]);
    }

    #[test]
    fn a_message_for_others_is_passed_over() {
        let mut assignment = assigned(LIMITS, 1);
        assignment.pass_over(&place(0), 5);
        assert_eq!(assignment.to_commit(), [(place(0), 6)]);
        assignment.pass_over(&place(7), 5);
    }

    #[test]
    fn a_message_of_a_partition_that_was_taken_away_is_not_delivered() {
        let mut assignment = assigned(LIMITS, 1);
        assignment.read(record(7, 0), None);
        assert!(matches!(assignment.take(Instant::now()), Taken::Nothing));
    }
}
