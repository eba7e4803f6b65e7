//! The commands of a consumer in its group.
//!
//! A delivery is known by the id of its entry, by the consumer that has it, and by its number: each claim
//! counts as one more. Scripts compare all three, so that nothing is changed that another one has claimed.

use super::acks::Acks;
use super::entry::{self, Entry, Sent, Taken};
use super::error::{is_group_missing, says};
use super::inbox::Delivered;
use super::link::{Link, Request};
use super::servers::Servers;
use super::settings::Settings;
use crate::{Reason, Terms};
use redis::{Cmd, RedisResult, Script, Value, cmd};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The time for which a read waits for an entry. The end of a source waits for it too, in the background.
const BLOCK: Duration = Duration::from_secs(2);
/// Pending entries that a script looks at.
const PAGE: usize = 100;
/// Entries that a script changes.
const CHUNK: usize = 100;
/// Consumers that are removed at once.
const MOST_REMOVED: usize = 100;
/// Fields of a copy that is made by a script: Lua passes no more than 8,000 values.
const MOST_VALUES: usize = 7_000;

static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("scripts/take.lua"), include_str!("scripts/claim.lua")))
});
static REDELIVER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("scripts/take.lua"), include_str!("scripts/redeliver.lua")))
});
static KEEP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/keep.lua")));
static ACKNOWLEDGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/acknowledge.lua")));
static PUT_ASIDE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/put_aside.lua")));
static TIDY: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/tidy.lua")));

/// A consumer in its group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) settings: Settings,
    pub(super) consumer: String,
    pub(super) claim_after: Duration,
    pub(super) link: Arc<Link>,
    acks: Acks,
    /// For reads, which keep their connection waiting.
    reader: Link,
}

/// The place of an entry that is not handled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    DeadLetters,
    Parked,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is this consumer's.
    Yes,
    /// Another consumer has claimed the entry, or it is acknowledged.
    Elsewhere,
    /// The entry was trimmed or deleted.
    Gone,
}

impl Group {
    pub(super) fn new(servers: Servers, settings: Settings, terms: &Terms) -> Self {
        let timeout = settings.timeout;
        let link = Arc::new(Link::new(servers.clone(), timeout, timeout));
        Self {
            consumer: settings.consumer(terms),
            claim_after: settings.claim_after(terms),
            acks: Acks::new(Arc::clone(&link), &settings.stream, &settings.group),
            link,
            reader: Link::new(servers, timeout, BLOCK + timeout),
            settings,
        }
    }

    /// Creates the group, and the stream with it, unless it is there.
    pub(super) async fn create(&self, begin: &str) -> RedisResult<()> {
        let Settings { stream, group, .. } = &self.settings;
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(stream).arg(group).arg(begin).arg("MKSTREAM");
        match self.link.ask_again(Request::Command(&create)).await {
            Err(error) if says(&error, "BUSYGROUP") => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Creates a group again that is gone, and passes other errors on.
    ///
    /// It begins with the first entry that is there: what was pending is known to nobody, and the
    /// functions know what they have done.
    async fn recreate(&self, error: redis::RedisError) -> RedisResult<()> {
        if !is_group_missing(&error) {
            return Err(error);
        }
        let Settings { stream, group, .. } = &self.settings;
        tracing::warn!(target: "idempotent", stream, group, "the group is gone and is created again");
        self.create("0").await
    }

    /// Waits for entries that were not delivered before. None came in time, if none is returned.
    pub(super) async fn read(&self, most: usize) -> RedisResult<Vec<Entry>> {
        let Settings { stream, group, .. } = &self.settings;
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(group).arg(&self.consumer).arg("COUNT").arg(most);
        read.arg("BLOCK").arg(millis(BLOCK)).arg("STREAMS").arg(stream).arg(">");
        match self.reader.ask(Request::Command(&read)).await {
            Ok(answer) => {
                let entries = entry::read(answer)?;
                Ok(entries.into_iter().map(|sent| self.entry(sent, 1)).collect())
            }
            Err(error) => self.recreate(error).await.map(|()| Vec::new()),
        }
    }

    /// Claims entries that no consumer has kept for a while, from one page of those that are pending after
    /// `start`. Returns the last one that was looked at, if there may be more.
    pub(super) async fn claim(
        &self,
        start: Option<&str>,
        most: usize,
    ) -> RedisResult<(Vec<Entry>, Option<String>)> {
        let start = start.map_or_else(|| "-".to_owned(), |last| format!("({last}"));
        let mut claim = self.script(&CLAIM);
        claim.arg(millis(self.claim_after)).arg(most).arg(start).arg(PAGE);
        match self.link.ask(Request::Script(&claim)).await {
            Ok(answer) => {
                let taken = entry::taken(answer)?;
                let last = taken.last.clone();
                Ok((self.entries(taken), last))
            }
            Err(error) => self.recreate(error).await.map(|()| (Vec::new(), None)),
        }
    }

    /// Takes entries again that this consumer has had since, at most as many as a script changes.
    pub(super) async fn redeliver(&self, again: &[Delivered]) -> RedisResult<Vec<Entry>> {
        let mut entries = Vec::new();
        for chunk in again.chunks(CHUNK) {
            let mut redeliver = self.script(&REDELIVER);
            for Delivered { id, number } in chunk {
                redeliver.arg(id).arg(number);
            }
            match self.link.ask(Request::Script(&redeliver)).await {
                Ok(answer) => entries.extend(self.entries(entry::taken(answer)?)),
                Err(error) => self.recreate(error).await?,
            }
        }
        Ok(entries)
    }

    /// Keeps deliveries from being claimed until their pauses are over, or until they have been idle for
    /// as long as any other.
    pub(super) async fn keep(&self, each: &[(Delivered, Keep)]) -> RedisResult<Vec<Kept>> {
        let mut all = Vec::with_capacity(each.len());
        for chunk in each.chunks(CHUNK) {
            let mut keep = self.script(&KEEP);
            for (Delivered { id, number }, until) in chunk {
                keep.arg(id).arg(number).arg(until.idle(self.claim_after));
            }
            let answer = self.link.ask_again(Request::Script(&keep)).await?;
            let kept: Vec<i8> = redis::from_redis_value(answer)?;
            for ((Delivered { id, .. }, _), kept) in chunk.iter().zip(kept) {
                all.push(match kept {
                    1 => Kept::Yes,
                    0 => Kept::Elsewhere,
                    _ => {
                        self.report_gone(id);
                        Kept::Gone
                    }
                });
            }
        }
        Ok(all)
    }

    /// Acknowledges an entry. It may have been before, by this consumer or another one.
    pub(super) async fn acknowledge(&self, id: &str) -> RedisResult<()> {
        let Settings { stream, group, .. } = &self.settings;
        if !self.settings.deletes {
            return self.acks.send(id).await;
        }
        let mut script = ACKNOWLEDGE.key(stream);
        self.link.ask_again(Request::Script(script.arg(group).arg(id))).await.map(drop)
    }

    /// Copies an entry to another place, and acknowledges it.
    pub(super) async fn put_aside(
        &self,
        entry: &Entry,
        place: Place,
        reason: &Reason,
    ) -> RedisResult<()> {
        let Settings { stream, group, payload, deletes, .. } = &self.settings;
        let place = match place {
            Place::DeadLetters => &self.settings.dead_letters,
            Place::Parked => &self.settings.parked,
        };
        let copy = entry.put_aside(payload, reason);
        if self.link.servers().are_together(stream, place) && copy.len() <= MOST_VALUES {
            let mut script = PUT_ASIDE.key(stream);
            script.key(place).arg(group).arg(&entry.id).arg(u8::from(*deletes)).arg(copy);
            return self.link.ask_again(Request::Script(&script)).await.map(drop);
        }
        // Confirmed, then acknowledged: the copy may be there twice, and is not lost.
        let mut add = cmd("XADD");
        add.arg(place).arg("*").arg(copy);
        self.link.ask(Request::Command(&add)).await?;
        self.acknowledge(&entry.id).await
    }

    /// Removes consumers that were not heard of for a while and have nothing pending.
    pub(super) async fn tidy(&self) -> RedisResult<()> {
        let Settings { stream, group, forget_after, .. } = &self.settings;
        let mut tidy = TIDY.key(stream);
        tidy.arg(group).arg(millis(*forget_after)).arg(MOST_REMOVED);
        let answer = self.link.ask(Request::Script(&tidy)).await?;
        let removed: usize = redis::from_redis_value(answer)?;
        if removed > 0 {
            tracing::debug!(target: "idempotent", stream, group, removed, "idle consumers removed");
        }
        Ok(())
    }

    /// An answer of the server to a command without effect.
    pub(super) async fn look(&self, command: &Cmd) -> RedisResult<Value> {
        self.link.ask_again(Request::Command(command)).await
    }

    /// A script that is told the group and the consumer first.
    fn script<'a>(&self, script: &'a Script) -> redis::ScriptInvocation<'a> {
        let mut invocation = script.key(&self.settings.stream);
        invocation.arg(&self.settings.group).arg(&self.consumer);
        invocation
    }

    fn entry(&self, (id, fields): Sent, deliveries: u64) -> Entry {
        Entry::new(id, deliveries, fields, &self.settings.payload)
    }

    fn entries(&self, taken: Taken) -> Vec<Entry> {
        taken.gone.iter().for_each(|id| self.report_gone(id));
        let entries = taken.entries.into_iter();
        entries.map(|(sent, deliveries)| self.entry(sent, deliveries)).collect()
    }

    fn report_gone(&self, id: &str) {
        let Settings { stream, group, .. } = &self.settings;
        tracing::warn!(
            target: "idempotent", stream, group, id,
            "an entry that was not settled is gone from its stream: it was trimmed or deleted"
        );
    }
}

/// The time for which a delivery is kept from being claimed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    /// As long as any other that was delivered this moment.
    Whole,
    /// For a pause, after which every consumer may claim it. No longer than any other.
    For(Duration),
    /// Every consumer may claim it at once.
    Not,
}

impl Keep {
    /// The idle time, in milliseconds, of an entry that others claim when it reaches `claim_after`.
    fn idle(self, claim_after: Duration) -> u64 {
        match self {
            Self::Whole => 0,
            // One more, since the server counts whole milliseconds.
            Self::For(pause) => millis(claim_after).saturating_sub(millis(pause).saturating_add(1)),
            Self::Not => millis(claim_after),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
