//! Writes that count only when replicas have them.

use super::error::unexpected;
use super::links::{Failed, Links};
use super::server::Written;
use crate::store::{StoreError, StoreErrorKind};
use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;

/// How many replicas must have a write, and how long to wait for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replication {
    pub(super) replicas: usize,
    pub(super) timeout: Duration,
}

impl Replication {
    /// Asks how many replicas have what this connection wrote.
    pub(super) fn command(&self) -> Cmd {
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(super::wire::millis(self.timeout));
        wait
    }

    pub(super) fn written(&self, answer: &Value) -> Written {
        let replicas = match answer {
            Value::Int(replicas) => usize::try_from(*replicas).unwrap_or(0),
            _ => 0,
        };
        Written::To { replicas, demanded: self.replicas }
    }

    /// Sends a command and waits for replicas to have what it wrote. Both travel together: a wait
    /// on another connection than the write's waits for nothing.
    pub(super) async fn write(
        &self,
        links: &Arc<Links>,
        command: &Cmd,
    ) -> Result<(Value, Written), Failed> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(command.clone());
        pipeline.add_command(self.command());
        let answers = links.pipeline(&pipeline).await?;
        let Ok([answer, waited]) = <[Value; 2]>::try_from(answers) else {
            return Err(Failed::NotSent(unexpected("WAIT")));
        };
        let answer = answer.extract_error().map_err(Failed::Sent)?;
        let waited = waited.extract_error().map_err(Failed::Sent)?;
        Ok((answer, self.written(&waited)))
    }
}

pub(super) fn too_few(replicas: usize, demanded: usize) -> StoreError {
    let text = format!("{replicas} of {demanded} replicas confirmed the write in time");
    StoreError::new(StoreErrorKind::NotReplicated, text)
}
