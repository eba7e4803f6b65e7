//! Swaps as commands: one round trip each, and one for many where the servers allow it.
//!
//! A swap has a way: the cheapest command that the server knows. A swap that this command cannot do
//! (the server is full, the record is marked, the server has not seen the script) goes
//! [`otherwise`](Server::otherwise).

use super::answers::{Written, bytes_of, each, ttl_of};
use super::error::{Failure, unexpected};
use super::features::DeleteIfEqual;
use super::links::Failed;
use super::mark;
use super::name::Name;
use super::packed::behind_ready_tasks;
use super::script::{self, Script};
use super::server::{Publish, Server};
use crate::key::RecordKey;
use crate::store::future::all;
use crate::store::wire::HeadBytes;
use crate::store::{Head, Next, Seen, State, StoreFuture, Swap, Swapped, WhenFull, wire};
use redis::{Cmd, Pipeline, RedisWrite, ToRedisArgs, Value};
use std::io::Write as _;

/// The channel on which the names of ended records are published.
pub(super) const CHANNEL: &str = "idempotent:ended";

/// Number of swaps in one message, where many are sent: the server works on it while the next one is made.
const TOGETHER: usize = 256;

/// The command that brings a swap about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `SET NX GET`
    Create,
    /// `SET NX` and `GET`, for servers whose `SET` cannot do both.
    CreateInTwo,
    /// `SET IFEQ GET`
    SetIfEqual,
    /// `DELEX IFEQ`, or `DELIFEQ`
    DeleteIfEqual,
    Renew,
    Script,
}

impl Server {
    /// Replaces a record that is the one the caller saw.
    pub(super) async fn swap(&self, name: &Name<'_>, swap: &Swap) -> Result<Swapped, Failed> {
        let way = self.way(swap);
        let answer = match self.command(way, name, swap) {
            Some(command) => Some(self.write(command).await),
            None => None,
        };
        self.finish(way, name, swap, answer).await
    }

    /// Reads the answer to the command of a way, and does what is left to do.
    fn finish<'a>(
        &'a self,
        way: Way,
        name: &'a Name<'_>,
        swap: &'a Swap,
        answer: Option<Result<(Value, Written), Failed>>,
    ) -> StoreFuture<'a, Result<Swapped, Failed>> {
        match answer.map(|answer| self.read(way, swap, answer)).transpose() {
            Ok(Some(Some(swapped))) => StoreFuture::ready(Ok(swapped)),
            Ok(Some(None) | None) => StoreFuture::new(async move {
                match self.otherwise(way, name, swap).await {
                    Err(failed) => self.shown_instead(name, swap, failed).await,
                    swapped => swapped,
                }
            }),
            Err(failed) => StoreFuture::new(self.shown_instead(name, swap, failed)),
        }
    }

    /// The record that keeps another one away, which a server that takes no writes may still show.
    async fn shown_instead(
        &self,
        name: &Name<'_>,
        swap: &Swap,
        failed: Failed,
    ) -> Result<Swapped, Failed> {
        if swap.seen != Seen::Nothing || !failed.leaves_reads() {
            return Err(failed);
        }
        match self.get(name).await {
            Ok(Some(bytes)) => Ok(Swapped::Found(Some(mark::decode(bytes, None)?))),
            Ok(None) | Err(_) => Err(failed),
        }
    }

    /// Replaces many records, in one round trip where the servers allow it.
    pub(super) async fn swap_many(
        &self,
        swaps: &[(RecordKey, Swap)],
    ) -> Vec<Result<Swapped, Failed>> {
        let named: Vec<_> = swaps.iter().map(|(key, swap)| (Name::of(key), swap)).collect();
        if named.len() < 2 || self.links.target().is_cluster() {
            return super::join(named.iter().map(|(name, swap)| self.swap(name, swap))).await;
        }
        // A wait for replicas is for what its own connection wrote, so it travels with all of it.
        let in_parts = self.replication.is_none() && self.links.target().sends_once();
        let together = if in_parts { TOGETHER } else { named.len() };
        let mut sent = Vec::with_capacity(named.len().div_ceil(together));
        for part in named.chunks(together) {
            sent.push(self.message(part).started().await);
            if together < named.len() {
                // The connection writes it before the next one is made.
                behind_ready_tasks().await;
            }
        }
        let mut swapped = Vec::with_capacity(named.len());
        for message in sent {
            swapped.append(&mut message.await);
        }
        all(swapped.into_iter()).await
    }

    /// Sends swaps in one message, and reads the answers.
    fn message<'a>(
        &'a self,
        named: &'a [(Name<'_>, &Swap)],
    ) -> StoreFuture<'a, Vec<StoreFuture<'a, Result<Swapped, Failed>>>> {
        StoreFuture::new(async move {
            let mut pipeline = Pipeline::with_capacity(named.len() + 1);
            let mut ways = Vec::with_capacity(named.len());
            for (name, swap) in named {
                let way = self.way(swap);
                let command = self.command(way, name, swap);
                ways.push((way, command.is_some()));
                if let Some(command) = command {
                    pipeline.add_command(command);
                }
            }
            let (mut written, mut answers) = (Written::Unasked, Ok(Vec::new()));
            if !pipeline.is_empty() {
                // One wait for all of them: it is for everything that the connection wrote before.
                if let Some(replication) = &self.replication {
                    pipeline.add_command(replication.command());
                }
                answers = self.links.pipeline(&pipeline).await;
                if let (Some(replication), Ok(answers)) = (&self.replication, &mut answers) {
                    written = replication.written(answers.pop().unwrap_or(Ok(Value::Nil)));
                }
            }
            let mut answers = each(answers);
            let finished = named.iter().zip(ways).map(|((name, swap), (way, is_sent))| {
                let answer = is_sent.then(|| Ok((answers()?, written.clone())));
                self.finish(way, name, swap, answer)
            });
            finished.collect()
        })
    }

    fn way(&self, swap: &Swap) -> Way {
        match (&swap.seen, &swap.next) {
            (_, Next::Extend { .. }) => Way::Renew,
            (Seen::Nothing, Next::Put { .. }) if self.features.set_nx_get() => Way::Create,
            (Seen::Nothing, Next::Put { .. }) => Way::CreateInTwo,
            (Seen::This { head, at_most: None }, Next::Put { .. })
                if is_bare(head.state) && self.features.set_ifeq() =>
            {
                Way::SetIfEqual
            }
            (Seen::This { head, at_most: None }, Next::Nothing)
                if is_bare(head.state) && self.features.delete() != DeleteIfEqual::Script =>
            {
                Way::DeleteIfEqual
            }
            _ => Way::Script,
        }
    }

    /// The command of a way; `None` if it is more than one.
    fn command(&self, way: Way, name: &Name<'_>, swap: &Swap) -> Option<Cmd> {
        Some(match way {
            Way::Create => {
                let mut command = set(name.as_str(), &swap.next, 0);
                command.arg("NX").arg("GET").arg("PX").arg(millis(&swap.next));
                command
            }
            Way::CreateInTwo => return None,
            Way::SetIfEqual => {
                let seen = RecordBytes::seen(&swap.seen);
                let mut command = set(name.as_str(), &swap.next, seen.len());
                command.arg("IFEQ").arg(seen).arg("GET").arg("PX").arg(millis(&swap.next));
                command
            }
            Way::DeleteIfEqual => {
                let mut command = match self.features.delete() {
                    DeleteIfEqual::Script => return None,
                    DeleteIfEqual::Delex => {
                        redis::cmd("DELEX").arg(name.as_str()).arg("IFEQ").to_owned()
                    }
                    DeleteIfEqual::Delifeq => redis::cmd("DELIFEQ").arg(name.as_str()).to_owned(),
                };
                command.arg(RecordBytes::seen(&swap.seen));
                command
            }
            Way::Renew => script::RENEW.by_hash(&renewal(name, swap)),
            Way::Script if self.is_moved(swap) => return None,
            Way::Script => script::SWAP.by_hash(&self.replacement(name, None, swap)),
        })
    }

    /// Reads the answer to the command of a way; `None` if the swap has to go otherwise.
    fn read(
        &self,
        way: Way,
        swap: &Swap,
        answer: Result<(Value, Written), Failed>,
    ) -> Result<Option<Swapped>, Failed> {
        let (answer, written) = match answer {
            Ok(answer) => answer,
            Err(failed) => match (way, failed.failure()) {
                (_, Failure::NoScript) => return Ok(None),
                (Way::Create | Way::SetIfEqual, Failure::Full) if must_be_taken(swap) => {
                    return Ok(None);
                }
                (Way::Create, Failure::UnknownCommand) => {
                    self.features.without_set_nx_get();
                    return Ok(None);
                }
                (Way::SetIfEqual, Failure::UnknownCommand) => {
                    self.features.without_set_ifeq();
                    return Ok(None);
                }
                (Way::DeleteIfEqual, Failure::UnknownCommand) => {
                    self.features.without_delete();
                    return Ok(None);
                }
                _ => return Err(failed),
            },
        };
        let found = match (way, answer) {
            (Way::Renew | Way::Script | Way::DeleteIfEqual, Value::Int(1)) => None,
            (Way::Renew | Way::Script, answer) => return found(answer).map(Some),
            // The script tells what it is instead.
            (Way::DeleteIfEqual, _) => return Ok(None),
            (Way::Create | Way::CreateInTwo, answer) => bytes_of(answer, "SET")?,
            (Way::SetIfEqual, answer) => match bytes_of(answer, "SET")? {
                None => return Ok(Some(Swapped::Found(None))),
                Some(now) => {
                    let seen = RecordBytes::seen(&swap.seen);
                    match now == seen.head() {
                        true => None,
                        // A mark takes the script, which also publishes.
                        false if mark::unmarked(now.clone()) == seen.head() => return Ok(None),
                        false => Some(now),
                    }
                }
            },
        };
        match found {
            Some(bytes) => Ok(Some(Swapped::Found(Some(mark::decode(bytes, None)?)))),
            None => {
                written.check()?;
                Ok(Some(Swapped::Done))
            }
        }
    }

    /// Brings about what the command of a way could not.
    async fn otherwise(&self, way: Way, name: &Name<'_>, swap: &Swap) -> Result<Swapped, Failed> {
        let answer = match way {
            Way::Create | Way::CreateInTwo if !self.features.set_nx_get() => {
                match self.create_in_two(name, swap).await {
                    Err(failed) if failed.failure() == Failure::Full && must_be_taken(swap) => {
                        self.replace(name, swap).await?
                    }
                    created => return created,
                }
            }
            Way::Renew => self.script(&script::RENEW, &renewal(name, swap)).await?,
            _ => self.replace(name, swap).await?,
        };
        match answer {
            (Value::Int(1), written) => {
                written.check()?;
                Ok(Swapped::Done)
            }
            (answer, _) => found(answer),
        }
    }

    /// Compares and writes by a script.
    async fn replace(&self, name: &Name<'_>, swap: &Swap) -> Result<(Value, Written), Failed> {
        if self.is_moved(swap)
            && let Some(answer) = self.move_in(name, swap).await?
        {
            return Ok(answer);
        }
        self.script(&script::SWAP, &self.replacement(name, None, swap)).await
    }

    /// Writes a record if there is none, on a server whose `SET` cannot also show the one that
    /// there is. Both commands travel together; whatever happens between them, the second is asked
    /// only what the first was refused for.
    async fn create_in_two(&self, name: &Name<'_>, swap: &Swap) -> Result<Swapped, Failed> {
        let mut create = set(name.as_str(), &swap.next, 0);
        create.arg("NX").arg("PX").arg(millis(&swap.next));
        let mut pipeline = redis::pipe();
        pipeline.add_command(create);
        pipeline.cmd("GET").arg(name.as_str());
        let replication = self.replication.as_ref();
        if let Some(replication) = replication {
            pipeline.add_command(replication.command());
        }
        let mut answers = self.links.pipeline(&pipeline).await?.into_iter();
        let mut answer = || answers.next().unwrap_or(Ok(Value::Nil));
        let (created, found) = (answer()?, answer());
        if created == Value::Nil {
            // Gone by now if there is none: the protocol asks again.
            let bytes = bytes_of(found?, "GET")?;
            return Ok(Swapped::Found(bytes.map(|it| mark::decode(it, None)).transpose()?));
        }
        if let Some(replication) = replication {
            replication.written(answer()).check()?;
        }
        Ok(Swapped::Done)
    }

    /// Runs a script that writes, by its hash or, if the server does not have it, by its text.
    pub(super) async fn script(
        &self,
        script: &Script,
        arguments: &impl Fn(&mut Cmd),
    ) -> Result<(Value, Written), Failed> {
        match self.write(script.by_hash(arguments)).await {
            Err(failed) if failed.failure() == Failure::NoScript => {
                self.write(script.by_text(arguments)).await
            }
            answer => answer,
        }
    }

    /// The arguments of `swap.lua`. A record that stands beside the one that it replaces is not among them.
    pub(super) fn replacement(
        &self,
        name: &Name<'_>,
        beside: Option<&str>,
        swap: &Swap,
    ) -> impl Fn(&mut Cmd) {
        let (channel, publish) = match self.publish {
            Publish::OneChannel => (CHANNEL, "PUBLISH"),
            Publish::ByName => (name.as_str(), "SPUBLISH"),
        };
        let taken = u8::from(must_be_taken(swap));
        move |command| {
            let (seen, next) = (RecordBytes::seen(&swap.seen), RecordBytes::next(&swap.next));
            match beside {
                None => {
                    let bytes = name.as_str().len() + seen.len() + next.len() + 64;
                    command.reserve_space_for_args([bytes]);
                    command.arg(1).arg(name.as_str()).arg(seen).arg(next);
                }
                Some(beside) => {
                    command.arg(2).arg(name.as_str()).arg(beside).arg(seen).arg("");
                }
            }
            command.arg(millis(&swap.next)).arg(AtMost::of(&swap.seen));
            command.arg(channel).arg(publish).arg(taken);
        }
    }
}

/// The time to live of what a swap writes, in milliseconds.
pub(super) fn millis(next: &Next) -> u64 {
    match next {
        Next::Put { ttl, .. } => wire::millis(*ttl).max(1),
        Next::Extend { ttl } => wire::millis(*ttl),
        Next::Nothing => 0,
    }
}

/// A record as one argument of a command, written without a buffer of its own; empty if there is none.
pub(super) struct RecordBytes<'a> {
    head: Option<HeadBytes>,
    value: &'a [u8],
}

impl<'a> RecordBytes<'a> {
    pub(super) fn new(head: &Head, value: Option<&'a crate::store::Value>) -> Self {
        let head = Some(HeadBytes::of(head, value.is_some()));
        Self { head, value: value.map_or(&[], |value| value.as_bytes()) }
    }

    /// A record that was seen, without its value.
    pub(super) fn seen(seen: &Seen) -> Self {
        match seen {
            Seen::Nothing => Self { head: None, value: &[] },
            Seen::This { head, .. } => Self::new(head, None),
        }
    }

    /// The record that a swap leaves.
    fn next(next: &'a Next) -> Self {
        match next {
            Next::Put { head, value, .. } => Self::new(head, value.as_ref()),
            Next::Extend { .. } | Next::Nothing => Self { head: None, value: &[] },
        }
    }

    fn head(&self) -> &[u8] {
        self.head.as_ref().map_or(&[], HeadBytes::as_slice)
    }

    fn len(&self) -> usize {
        self.head().len() + self.value.len()
    }
}

impl ToRedisArgs for RecordBytes<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut argument = out.writer_for_next_arg();
        // Writing to memory does not fail.
        let _ = argument.write_all(self.head()).and_then(|()| argument.write_all(self.value));
    }
}

/// The longest time to live that a record may have to be the one that was seen, as scripts take it: empty if any.
pub(super) struct AtMost(Option<u64>);

impl AtMost {
    pub(super) fn of(seen: &Seen) -> Self {
        match seen {
            Seen::This { at_most, .. } => Self(at_most.map(wire::millis)),
            Seen::Nothing => Self(None),
        }
    }
}

impl ToRedisArgs for AtMost {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self.0 {
            Some(millis) => millis.write_redis_args(out),
            None => out.write_arg(b""),
        }
    }
}

/// `true` if a record in this state has no value, so that its head is all there is to compare.
fn is_bare(state: State) -> bool {
    !matches!(state, State::Succeeded | State::FailedFinal)
}

fn must_be_taken(swap: &Swap) -> bool {
    matches!(swap.next, Next::Put { when_full: WhenFull::Take, .. })
}

/// `SET` with the record that is to be there, and room for the conditions that follow: of this many bytes, beside words
/// and numbers.
pub(super) fn set(name: &str, next: &Next, conditions: usize) -> Cmd {
    const WORDS: usize = 32;
    let next = RecordBytes::next(next);
    let bytes = name.len() + next.len() + conditions + WORDS;
    let mut command = Cmd::with_capacity(8, bytes);
    command.arg("SET").arg(name).arg(next);
    command
}

/// The arguments of `renew.lua`.
fn renewal(name: &Name<'_>, swap: &Swap) -> impl Fn(&mut Cmd) {
    move |command| {
        let seen = RecordBytes::seen(&swap.seen);
        command.arg(1).arg(name.as_str()).arg(seen).arg(millis(&swap.next));
        command.arg(AtMost::of(&swap.seen));
    }
}

/// A record and its time to live, as a script answers them.
fn found(answer: Value) -> Result<Swapped, Failed> {
    let broken = || Failed::Answered(unexpected("a script"));
    let Value::Array(pair) = answer else { return Err(broken()) };
    let [bytes, ttl] = <[Value; 2]>::try_from(pair).map_err(|_| broken())?;
    let found = match (bytes_of(bytes, "GET")?, ttl_of(&ttl)?) {
        (Some(bytes), Some(ttl)) => Some(mark::decode(bytes, Some(ttl))?),
        _ => None,
    };
    Ok(Swapped::Found(found))
}
