//! One record on a server: what can be asked of it in one step.
//!
//! Each method is one round trip, safe to repeat and safe to arrive late: it changes a record only
//! if that still is what the caller saw.

use super::answers::{Written, bytes_of, ttl_of};
use super::error::{Failure, contended, unexpected};
use super::features::{DeleteIfEqual, Features};
use super::links::{Failed, Links};
use super::name::Name;
use super::replication::Replication;
use super::script::{self, Script};
use super::wire;
use crate::store::StoreError;
use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;

/// The servers of a store.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) links: Arc<Links>,
    pub(super) features: Features,
    pub(super) replication: Option<Replication>,
    /// How the end of a record that others wait for is told.
    pub(super) publish: Publish,
}

/// How the end of a record is told to those who wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publish {
    /// On one channel for all records.
    OneChannel,
    /// On a channel of the record's own name, inside its shard.
    ByName,
}

/// The most looks for a record that is there for the one command and gone for the other.
const ROUNDS: usize = 16;

/// The channel on which the names of ended records are published.
pub(super) const CHANNEL: &str = "idempotent:ended";

/// The channel on which the keys of records that operators freed are published.
pub(super) const FREED: &str = "idempotent:freed";

/// What is known about a record that is to be replaced.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Its bytes, without a mark.
    pub(super) bytes: Vec<u8>,
    /// Somebody waits for it.
    pub(super) marked: bool,
    /// It may be replaced only if it lives no longer than this.
    pub(super) at_most: Option<Duration>,
}

/// What a record is to become.
#[derive(Clone, Debug)]
pub(super) enum Next {
    Bytes { bytes: Vec<u8>, ttl: Duration },
    Nothing,
}

/// Whether a record was replaced.
#[derive(Debug)]
pub(super) enum Replaced {
    Done,
    /// It is something else now, or gone.
    Changed(Option<Vec<u8>>),
    /// It lives longer than it may.
    Alive,
}

impl Server {
    /// Writes a record if there is none. Otherwise returns the one that is there.
    pub(super) async fn create(
        &self,
        name: &Name,
        bytes: &[u8],
        ttl: Duration,
    ) -> Result<Option<Vec<u8>>, Failed> {
        let millis = wire::millis(ttl);
        if self.features.set_nx_get() {
            match self.write(&set_nx_get(name, bytes, millis)).await {
                Err(failed) if failed.failure() == Failure::UnknownCommand => {
                    self.features.without_set_nx_get();
                }
                answer => {
                    let (answer, written) = answer?;
                    let found = bytes_of(answer, "SET")?;
                    if found.is_none() {
                        written.check()?;
                    }
                    return Ok(found);
                }
            }
        }
        self.create_in_two(name, bytes, millis).await
    }

    /// The same for servers whose `SET` cannot do both. Both commands travel together; whatever
    /// happens between them, the second is asked only what the first was refused for.
    async fn create_in_two(
        &self,
        name: &Name,
        bytes: &[u8],
        millis: u64,
    ) -> Result<Option<Vec<u8>>, Failed> {
        for _ in 0..ROUNDS {
            let mut set = redis::cmd("SET");
            set.arg(name.as_str()).arg(bytes).arg("NX").arg("PX").arg(millis);
            let mut pipeline = redis::pipe();
            pipeline.add_command(set);
            pipeline.cmd("GET").arg(name.as_str());
            let replication = self.replication.as_ref();
            if let Some(replication) = replication {
                pipeline.add_command(replication.command());
            }
            let mut answers = self.links.pipeline(&pipeline).await?.into_iter();
            let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
            let (set, found) = (next()?, next());
            if set != Value::Nil {
                if let Some(replication) = replication {
                    replication.written(next()).check()?;
                }
                return Ok(None);
            }
            if let Some(found) = bytes_of(found?, "GET")? {
                return Ok(Some(found));
            }
        }
        Err(Failed::Answered(contended()))
    }

    /// The record, without its time to live.
    pub(super) async fn read(&self, name: &Name) -> Result<Option<Vec<u8>>, Failed> {
        let answer = self.links.command(redis::cmd("GET").arg(name.as_str())).await?;
        bytes_of(answer, "GET")
    }

    /// The record and how long it still lives, of one moment.
    pub(super) async fn look(&self, name: &Name) -> Result<Option<(Vec<u8>, Duration)>, Failed> {
        let Value::Array(pair) = self.run(&script::LOOK, &only(name)).await? else {
            return Err(Failed::Answered(unexpected("a script")));
        };
        let Ok([bytes, ttl]) = <[Value; 2]>::try_from(pair) else {
            return Err(Failed::Answered(unexpected("a script")));
        };
        match (bytes_of(bytes, "GET")?, ttl_of(&ttl)?) {
            (Some(bytes), Some(ttl)) => Ok(Some((bytes, ttl))),
            _ => Ok(None),
        }
    }

    /// Replaces a record that is still what the caller saw.
    pub(super) async fn replace(
        &self,
        name: &Name,
        seen: &Seen,
        next: &Next,
    ) -> Result<Replaced, Failed> {
        if !seen.marked && seen.at_most.is_none() {
            let replaced = match next {
                Next::Bytes { bytes, ttl } if self.features.set_ifeq() => {
                    self.set_if_equal(name, seen, bytes, *ttl).await?
                }
                Next::Nothing => self.delete_if_equal(name, seen).await?,
                Next::Bytes { .. } => None,
            };
            if let Some(replaced) = replaced {
                return Ok(replaced);
            }
        }
        self.swap(name, seen, next).await
    }

    /// `None` if it takes a script: the server is full, or does not know the command.
    async fn set_if_equal(
        &self,
        name: &Name,
        seen: &Seen,
        bytes: &[u8],
        ttl: Duration,
    ) -> Result<Option<Replaced>, Failed> {
        let command = set_ifeq(name, bytes, &seen.bytes, wire::millis(ttl));
        let (answer, written) = match self.write(&command).await {
            Err(failed) if failed.failure() == Failure::UnknownCommand => {
                self.features.without_set_ifeq();
                return Ok(None);
            }
            Err(failed) if failed.failure() == Failure::Full => return Ok(None),
            answer => answer?,
        };
        match bytes_of(answer, "SET")? {
            Some(old) if old == seen.bytes => {
                written.check()?;
                Ok(Some(Replaced::Done))
            }
            // A mark takes the script, which also publishes.
            Some(now) if wire::unmarked(now.clone()) == seen.bytes => Ok(None),
            now => Ok(Some(Replaced::Changed(now))),
        }
    }

    /// `None` if it takes a script.
    async fn delete_if_equal(&self, name: &Name, seen: &Seen) -> Result<Option<Replaced>, Failed> {
        let command = match self.features.delete() {
            DeleteIfEqual::Script => return Ok(None),
            DeleteIfEqual::Delex => {
                redis::cmd("DELEX").arg(name.as_str()).arg("IFEQ").arg(&seen.bytes).to_owned()
            }
            DeleteIfEqual::Delifeq => {
                redis::cmd("DELIFEQ").arg(name.as_str()).arg(&seen.bytes).to_owned()
            }
        };
        match self.write(&command).await {
            Ok((Value::Int(1), written)) => {
                written.check()?;
                Ok(Some(Replaced::Done))
            }
            // The script tells what it is instead.
            Ok(_) => Ok(None),
            Err(failed) if failed.failure() == Failure::UnknownCommand => {
                self.features.without_delete();
                Ok(None)
            }
            Err(failed) => Err(failed),
        }
    }

    async fn swap(&self, name: &Name, seen: &Seen, next: &Next) -> Result<Replaced, Failed> {
        let (bytes, ttl) = match next {
            Next::Bytes { bytes, ttl } => (&bytes[..], wire::millis(*ttl)),
            Next::Nothing => (&[][..], 0),
        };
        let arguments = self.swap_arguments(name, seen, bytes, ttl);
        let mut command = script::SWAP.by_hash(&arguments);
        let answer = match self.write(&command).await {
            Err(failed) if failed.failure() == Failure::NoScript => {
                command = script::SWAP.by_text(&arguments);
                self.write(&command).await
            }
            answer => answer,
        };
        match answer? {
            (Value::Int(1), written) => {
                written.check()?;
                Ok(Replaced::Done)
            }
            (Value::Int(0), _) => Ok(Replaced::Alive),
            (now, _) => Ok(Replaced::Changed(bytes_of(now, "a script")?)),
        }
    }

    pub(super) fn swap_arguments(
        &self,
        name: &Name,
        seen: &Seen,
        bytes: &[u8],
        ttl: u64,
    ) -> impl Fn(&mut Cmd) {
        let at_most = seen.at_most.map(|ttl| wire::millis(ttl).to_string()).unwrap_or_default();
        let (channel, publish) = match self.publish {
            Publish::OneChannel => (CHANNEL, "PUBLISH"),
            Publish::ByName => (name.as_str(), "SPUBLISH"),
        };
        move |command| {
            command.arg(1).arg(name.as_str()).arg(&seen.bytes).arg(bytes).arg(ttl);
            command.arg(&at_most).arg(channel).arg(publish);
        }
    }

    /// Writes a record if there is none, also on a server that is full.
    pub(super) async fn create_when_full(
        &self,
        name: &Name,
        bytes: &[u8],
        ttl: Duration,
    ) -> Result<Replaced, Failed> {
        let seen = Seen { bytes: Vec::new(), marked: false, at_most: None };
        self.swap(name, &seen, &Next::Bytes { bytes: bytes.to_vec(), ttl }).await
    }

    /// Makes sure that replicas have what was written before, on whichever connection.
    pub(super) async fn confirm(&self, name: &Name) -> Result<(), Failed> {
        if self.replication.is_none() {
            return Ok(());
        }
        let arguments = only(name);
        let answer = match self.write(&script::TOUCH.by_hash(&arguments)).await {
            Err(failed) if failed.failure() == Failure::NoScript => {
                self.write(&script::TOUCH.by_text(&arguments)).await
            }
            answer => answer,
        };
        match answer? {
            (Value::Int(0), _) => Ok(()),
            (_, written) => written.check(),
        }
    }

    /// Tells the processes that listen that an operator freed a record.
    ///
    /// Rare, so it is told to all of them, also in a cluster. A process that does not hear it
    /// learns it by its next renewal, so a refusal is no failure of what was done.
    pub(super) async fn publish_freed(&self, key: &str) {
        let told = self.links.command(redis::cmd("PUBLISH").arg(FREED).arg(key)).await;
        if let Err(failed) = told {
            let error = StoreError::from(failed);
            tracing::debug!(target: "idempotent", %error, "nobody was told of a freed record");
        }
    }

    /// Marks a record that is being processed, so that its end is published.
    pub(super) async fn mark(&self, name: &Name) -> Result<(), Failed> {
        self.run(&script::MARK, &only(name)).await.map(drop)
    }

    /// Runs a script that writes nothing that replicas would have to confirm.
    async fn run(&self, script: &Script, arguments: &impl Fn(&mut Cmd)) -> Result<Value, Failed> {
        match self.links.command(&script.by_hash(arguments)).await {
            Err(failed) if failed.failure() == Failure::NoScript => {
                self.links.command(&script.by_text(arguments)).await
            }
            answer => answer,
        }
    }

    /// Sends a command that writes, and asks how many replicas have it if that matters.
    pub(super) async fn write(&self, command: &Cmd) -> Result<(Value, Written), Failed> {
        match &self.replication {
            None => Ok((self.links.command(command).await?, Written::Unasked)),
            Some(replication) => replication.write(&self.links, command).await,
        }
    }
}

pub(super) fn set_nx_get(name: &Name, bytes: &[u8], millis: u64) -> Cmd {
    let mut command = redis::cmd("SET");
    command.arg(name.as_str()).arg(bytes).arg("NX").arg("GET").arg("PX").arg(millis);
    command
}

pub(super) fn set_ifeq(name: &Name, bytes: &[u8], old: &[u8], millis: u64) -> Cmd {
    let mut command = redis::cmd("SET");
    command.arg(name.as_str()).arg(bytes).arg("IFEQ").arg(old);
    command.arg("GET").arg("PX").arg(millis);
    command
}

/// The arguments of a script that takes a record and nothing else.
fn only(name: &Name) -> impl Fn(&mut Cmd) {
    move |command| {
        command.arg(1).arg(name.as_str());
    }
}
