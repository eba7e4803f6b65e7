//! Many records at once: one round trip for all of them where the servers allow it.

use super::answers::{Written, bytes_of, each_of};
use super::error::Failure;
use super::links::Failed;
use super::name::Name;
use super::script;
use super::server::{Seen, Server, set_ifeq, set_nx_get};
use super::wire;
use redis::{Cmd, Value};
use std::time::Duration;

/// A record that is to be written if there is none.
#[derive(Clone, Debug)]
pub(super) struct Creation {
    pub(super) name: Name,
    pub(super) bytes: Vec<u8>,
    pub(super) ttl: Duration,
}

/// A record that is to be replaced if it is still what the caller saw.
#[derive(Clone, Debug)]
pub(super) struct Replacement {
    pub(super) name: Name,
    pub(super) seen: Seen,
    pub(super) bytes: Vec<u8>,
    pub(super) ttl: Duration,
}

/// A record that is to live on.
#[derive(Clone, Debug)]
pub(super) struct Renewal {
    pub(super) name: Name,
    /// The record as its holder knows it, without a mark.
    pub(super) bytes: Vec<u8>,
    pub(super) ttl: Duration,
}

impl Renewal {
    fn arguments(&self) -> impl Fn(&mut Cmd) {
        let Self { name, bytes, ttl } = self;
        move |command| {
            command.arg(1).arg(name.as_str()).arg(bytes).arg(wire::millis(*ttl));
        }
    }
}

impl Server {
    /// Writes many records that are not there, in one round trip where the servers allow it.
    pub(super) async fn create_many(
        &self,
        records: &[Creation],
    ) -> Vec<Result<Option<Vec<u8>>, Failed>> {
        if !self.features.set_nx_get() || !self.pipelines(records.len()) {
            let each =
                records.iter().map(|Creation { name, bytes, ttl }| self.create(name, bytes, *ttl));
            return super::join(each).await;
        }
        let mut pipeline = redis::pipe();
        for Creation { name, bytes, ttl } in records {
            pipeline.add_command(set_nx_get(name, bytes, wire::millis(*ttl)));
        }
        let answers = self.links.pipeline(&pipeline).await;
        let each = each_of(answers, records).map(|(record, answer)| async move {
            match answer {
                Ok(answer) => bytes_of(answer, "SET"),
                Err(failed) if failed.failure() == Failure::UnknownCommand => {
                    self.create(&record.name, &record.bytes, record.ttl).await
                }
                Err(failed) => Err(failed),
            }
        });
        super::join(each).await
    }

    /// Replaces many records that are still what the caller saw. `None` where that takes a look at
    /// the record.
    pub(super) async fn replace_many(
        &self,
        replacements: &[Replacement],
    ) -> Vec<Result<Option<()>, Failed>> {
        let nothing = || replacements.iter().map(|_| Ok(None)).collect();
        if !self.pipelines(replacements.len()) {
            return nothing();
        }
        let ifeq = self.features.set_ifeq();
        let mut pipeline = redis::pipe();
        for Replacement { name, seen, bytes, ttl } in replacements {
            let millis = wire::millis(*ttl);
            pipeline.add_command(match ifeq {
                true => set_ifeq(name, bytes, &seen.bytes, millis),
                false => script::SWAP.by_hash(&self.swap_arguments(name, seen, bytes, millis)),
            });
        }
        let answers = self.links.pipeline(&pipeline).await;
        each_of(answers, replacements)
            .map(|(replacement, answer)| match answer {
                Ok(Value::BulkString(old)) if ifeq && old == replacement.seen.bytes => Ok(Some(())),
                Ok(Value::Int(1)) if !ifeq => Ok(Some(())),
                Ok(_) => Ok(None),
                Err(failed) => match failed.failure() {
                    Failure::UnknownCommand | Failure::Full | Failure::NoScript => Ok(None),
                    _ => Err(failed),
                },
            })
            .collect()
    }

    /// Lets many records live longer, in one round trip where the servers allow it. The answers say
    /// whether each record still is what its holder thinks.
    pub(super) async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<bool, Failed>> {
        if self.links.target().is_cluster() || renewals.len() < 2 {
            let each = renewals.iter().map(|renewal| self.renew_one(renewal));
            return super::join(each).await;
        }
        let mut pipeline = redis::pipe();
        for renewal in renewals {
            pipeline.add_command(script::RENEW.by_hash(&renewal.arguments()));
        }
        // One wait for all of them: it is for everything that the connection wrote before.
        let mut written = Written::Unasked;
        if let Some(replication) = &self.replication {
            pipeline.add_command(replication.command());
        }
        let mut answers = self.links.pipeline(&pipeline).await;
        if let (Some(replication), Ok(answers)) = (&self.replication, &mut answers) {
            written = replication.written(answers.pop().unwrap_or(Ok(Value::Nil)));
        }
        let each = each_of(answers, renewals).map(|(renewal, answer)| {
            let written = written.clone();
            async move {
                match answer {
                    Ok(answer) => renewed(&answer, written),
                    Err(failed) if failed.failure() == Failure::NoScript => {
                        self.renew_one(renewal).await
                    }
                    Err(failed) => Err(failed),
                }
            }
        });
        super::join(each).await
    }

    async fn renew_one(&self, renewal: &Renewal) -> Result<bool, Failed> {
        let arguments = renewal.arguments();
        let answer = match self.write(&script::RENEW.by_hash(&arguments)).await {
            Err(failed) if failed.failure() == Failure::NoScript => {
                self.write(&script::RENEW.by_text(&arguments)).await
            }
            answer => answer,
        };
        let (answer, written) = answer?;
        renewed(&answer, written)
    }

    /// Whether many commands can travel as one: to one server, and without a wait after each.
    fn pipelines(&self, commands: usize) -> bool {
        commands > 1 && !self.links.target().is_cluster() && self.replication.is_none()
    }
}

/// Reads the answer to a renewal: `true` if the record is its holder's. A lease counts for as long
/// as replicas know it: the one that is promoted lets others take the key over when its own time is
/// up.
fn renewed(answer: &Value, written: Written) -> Result<bool, Failed> {
    let renewed = *answer == Value::Int(1);
    if renewed {
        written.check()?;
    }
    Ok(renewed)
}
