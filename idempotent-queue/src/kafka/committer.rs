//! Commits of what is settled.
//!
//! They have a thread of their own, since each waits for its answer: librdkafka does not tell the end of one that is
//! not waited for, and a commit that is refused has to be repeated. The thread that polls does not wait for a group
//! coordinator that is away.

use super::assignment::Place;
use super::poller::Context;
use super::shared::Shared;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The time between two commits. Messages settled in between are delivered again if the process dies.
const COMMIT_EVERY: Duration = Duration::from_millis(100);

/// The longest wait for something to commit. Every settlement ends it.
const IDLE: Duration = Duration::from_secs(60);

/// The thread, which ends when this is dropped.
pub(super) struct Committer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    pub(super) fn start(consumer: &Arc<BaseConsumer<Context>>, shared: &Arc<Shared>) -> Self {
        let (consumer, commits) = (Arc::clone(consumer), Arc::clone(shared));
        let thread = thread::Builder::new().name("idempotent-kafka-commits".to_owned());
        let thread = thread.spawn(move || run(&consumer, &commits));
        if let Err(error) = &thread {
            tracing::error!(target: "idempotent", %error, "offsets are committed at the end only");
        }
        Self { shared: Arc::clone(shared), thread: thread.ok() }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.committer.stop();
        if let Some(thread) = self.thread.take() {
            // Fails if it has panicked, of which the panic hook has told.
            let _ = thread.join();
        }
    }
}

fn run(consumer: &BaseConsumer<Context>, shared: &Shared) {
    let mut is_refused = false;
    while !shared.committer.is_stopped() {
        if !is_refused {
            shared.committer.wait(IDLE);
        }
        let committed = commit(consumer, shared);
        is_refused = committed.is_err();
        if let Err(error) = committed {
            tracing::warn!(target: "idempotent", %error, "offsets not committed, they are sent again");
        }
        shared.committer.pause(COMMIT_EVERY);
    }
}

/// Commits what is settled.
fn commit(consumer: &BaseConsumer<Context>, shared: &Shared) -> KafkaResult<()> {
    let commits = shared.commits();
    let settled = shared.assignment().to_commit();
    if !settled.is_empty() {
        consumer.commit(&list(&settled)?, CommitMode::Sync)?;
        shared.assignment().committed(&settled);
    }
    drop(commits);
    Ok(())
}

/// Commits offsets of partitions that are given up. If the broker refuses, their messages are delivered again to the next owner.
pub(super) fn commit_at_last(consumer: &BaseConsumer<Context>, settled: &[(Place, i64)]) {
    // Partitions that were lost have another owner, and the broker would refuse.
    if settled.is_empty() || consumer.assignment_lost() {
        return;
    }
    let committed = list(settled).and_then(|list| consumer.commit(&list, CommitMode::Sync));
    if let Err(error) = committed {
        let partitions = settled.len();
        tracing::warn!(
            target: "idempotent", partitions, %error,
            "offsets not committed, messages are delivered again"
        );
    }
}

fn list(offsets: &[(Place, i64)]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for (Place { topic, partition }, offset) in offsets {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    }
    Ok(list)
}
