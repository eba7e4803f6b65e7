//! The servers of a store, and what is asked of them beside [swaps](super::swaps).

use super::answers::{Written, bytes_of, ttl_of};
use super::error::{Failure, unexpected};
use super::features::Features;
use super::links::{Failed, Links};
use super::mark;
use super::name::Name;
use super::replication::Replication;
use super::script::{self, Script};
use crate::store::{Found, Record, StoreError};
use redis::{Cmd, Value};
use std::sync::Arc;

/// The servers of a store.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) links: Arc<Links>,
    pub(super) features: Features,
    pub(super) replication: Option<Replication>,
    /// The channel on which the end of a record is published.
    pub(super) publish: Publish,
}

/// The channel on which the end of a record is published to the callers that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publish {
    /// One channel for all records.
    OneChannel,
    /// A channel of the record's own name, inside its shard.
    ByName,
}

/// The channel on which the keys of records that operators freed are published.
pub(super) const FREED: &str = "idempotent:freed";

/// The number of times that the key of a freed record is published, if it is not answered.
const PUBLISHED_AT_MOST: usize = 2;

impl Server {
    /// The bytes of a record.
    pub(super) async fn get(&self, name: &Name<'_>) -> Result<Option<Vec<u8>>, Failed> {
        let get = redis::cmd("GET").arg(name.as_str()).to_owned();
        bytes_of(self.links.command(get).await?, "GET")
    }

    /// The record and the time that it still lives, of one moment.
    pub(super) async fn load(&self, name: &Name<'_>) -> Result<Option<Record>, Failed> {
        let Value::Array(pair) = self.run(&script::LOOK, &only(name)).await? else {
            return Err(Failed::Answered(unexpected("a script")));
        };
        let Ok([bytes, ttl]) = <[Value; 2]>::try_from(pair) else {
            return Err(Failed::Answered(unexpected("a script")));
        };
        match (bytes_of(bytes, "GET")?, ttl_of(&ttl)?) {
            (Some(bytes), Some(ttl)) => {
                let Found { head, value, .. } = mark::decode(bytes, None)?;
                Ok(Some(Record::new(head, value, ttl)))
            }
            _ => Ok(None),
        }
    }

    /// Makes sure that replicas have what was written before, on whichever connection.
    pub(super) async fn confirm(&self, name: &Name<'_>) -> Result<(), Failed> {
        if self.replication.is_none() {
            return Ok(());
        }
        match self.script(&script::TOUCH, &only(name)).await? {
            (Value::Int(0), _) => Ok(()),
            (_, written) => written.check(),
        }
    }

    /// Tells the processes that listen that an operator freed a record.
    ///
    /// Rare, so it is told to all of them, also in a cluster, and again if it is not known to have
    /// arrived. A process that does not hear it learns it by its next renewal, or when the answer that
    /// it keeps is too old, so a refusal is no failure of what was done.
    pub(super) async fn publish_freed(&self, key: &str) {
        for left in (0..PUBLISHED_AT_MOST).rev() {
            let publish = redis::cmd("PUBLISH").arg(FREED).arg(key).to_owned();
            let Err(failed) = self.links.command(publish).await else { return };
            if left == 0 {
                let error = StoreError::from(failed);
                tracing::warn!(target: "idempotent", %error, "nobody was told of a freed record");
            }
        }
    }

    /// Marks a record that is being processed, so that its end is published.
    pub(super) async fn mark(&self, name: &Name<'_>) -> Result<(), Failed> {
        self.run(&script::MARK, &only(name)).await.map(drop)
    }

    /// Runs a script that writes nothing that replicas would have to confirm.
    pub(super) async fn run(
        &self,
        script: &Script,
        arguments: &impl Fn(&mut Cmd),
    ) -> Result<Value, Failed> {
        match self.links.command(script.by_hash(arguments)).await {
            Err(failed) if failed.failure() == Failure::NoScript => {
                self.links.command(script.by_text(arguments)).await
            }
            answer => answer,
        }
    }

    /// Sends a command that writes, and asks how many replicas have it if that matters. Sent as
    /// [`command`](Links::command) does.
    pub(super) fn write(
        &self,
        command: Cmd,
    ) -> impl Future<Output = Result<(Value, Written), Failed>> + Send + use<'_> {
        let written = match &self.replication {
            None => Ok(self.links.command(command)),
            // Boxed, because it makes the future of every command smaller.
            Some(replication) => Err(Box::pin(replication.write(&self.links, command))),
        };
        async {
            match written {
                Ok(sent) => Ok((sent.await?, Written::Unasked)),
                Err(confirmed) => confirmed.await,
            }
        }
    }
}

/// The arguments of a script that takes a record and nothing else.
fn only(name: &Name<'_>) -> impl Fn(&mut Cmd) {
    move |command| {
        command.arg(1).arg(name.as_str());
    }
}
