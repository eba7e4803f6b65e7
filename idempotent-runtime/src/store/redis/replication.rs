//! Writes that count only when replicas have them.

use super::answers::Written;
use super::error::{after_an_effect, unexpected};
use super::links::{Failed, Links};
use crate::store::{StoreError, StoreErrorKind};
use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;

/// The number of replicas that must have a write, and the time to wait for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replication {
    pub(super) replicas: usize,
    pub(super) timeout: Duration,
}

impl Replication {
    /// Asks how many replicas have what this connection wrote.
    pub(super) fn command(&self) -> Cmd {
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(crate::store::wire::millis(self.timeout));
        wait
    }

    /// Reads the answer to that.
    pub(super) fn written(&self, answer: Result<Value, Failed>) -> Written {
        let replicas = match answer {
            Ok(Value::Int(replicas)) => usize::try_from(replicas).unwrap_or(0),
            Ok(_) => 0,
            Err(failed) => return Written::Unconfirmed(after_an_effect(failed.into())),
        };
        Written::To { replicas, demanded: self.replicas }
    }

    /// Sends a command and waits for replicas to have what it wrote. Both travel together: a wait
    /// on another connection than the write's waits for nothing.
    pub(super) async fn write(
        &self,
        links: &Arc<Links>,
        command: Cmd,
    ) -> Result<(Value, Written), Failed> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(command);
        pipeline.add_command(self.command());
        let Ok([answer, waited]) = <[_; 2]>::try_from(links.pipeline(&pipeline).await?) else {
            return Err(Failed::Answered(unexpected("WAIT")));
        };
        let answer = answer?;
        Ok((answer, self.written(waited)))
    }
}

pub(super) fn too_few(replicas: usize, demanded: usize) -> StoreError {
    let text = format!("{replicas} of {demanded} replicas confirmed the write in time");
    StoreError::new(StoreErrorKind::NotReplicated, text)
}
