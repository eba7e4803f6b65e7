//! Sentinels: how they are asked for the master, and how the master is reached.

use super::error::misconfigured;
use super::master::{Generation, Master, Named};
use super::target::{OnPush, Timeouts, Tls, connect_error, single};
use crate::store::{StoreError, StoreErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{Client, ConnectionAddr, ConnectionInfo, Pipeline, RedisError, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Sentinels, and what they call the master.
#[derive(Clone)]
pub(super) struct Sentinel {
    /// The name by which the sentinels know the master.
    pub(super) name: String,
    pub(super) sentinels: Vec<Client>,
    /// Login and database of the master.
    pub(super) settings: ConnectionInfo,
    pub(super) tls: Tls,
    /// Index of the sentinel that answered last, which is asked first.
    pub(super) first: Arc<AtomicUsize>,
    /// The master by all answers so far.
    pub(super) master: Arc<Master>,
}

/// Most questions to a sentinel when failovers come between the parts of its answer.
const ROUNDS: usize = 3;

impl Sentinel {
    /// Asks one sentinel after the other for the master, and checks that it is one.
    pub(super) async fn connect(
        &self,
        timeouts: Timeouts,
        on_push: OnPush,
    ) -> Result<(MultiplexedConnection, Generation), StoreError> {
        let mut last = misconfigured("no sentinel was given");
        let count = self.sentinels.len();
        let first = self.first.load(Relaxed);
        for index in (0..count).map(|next| (first + next) % count) {
            match self.connect_by(&self.sentinels[index], timeouts, &on_push).await {
                Ok(connected) => {
                    self.first.store(index, Relaxed);
                    return Ok(connected);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_by(
        &self,
        sentinel: &Client,
        timeouts: Timeouts,
        on_push: &OnPush,
    ) -> Result<(MultiplexedConnection, Generation), StoreError> {
        let mut asked = single(sentinel, timeouts, Arc::new(|_| {})).await?;
        let Some(named) = self.ask(&mut asked).await? else {
            let text = format!("the sentinels know no master `{}`", self.name);
            return Err(misconfigured(text));
        };
        let Some(generation) = self.master.learn(&named) else {
            return Err(self.failing_over("a sentinel names the master of before"));
        };
        let client = self.tls.client(self.settings.clone().set_addr(self.address(&named)))?;
        let mut master = single(&client, timeouts, Arc::clone(on_push)).await?;
        // Sentinels may name the old master for a while.
        let role: Vec<Value> =
            redis::cmd("ROLE").query_async(&mut master).await.map_err(connect_error)?;
        match role.into_iter().next().map(redis::from_redis_value::<String>) {
            Some(Ok(role)) if role == "master" => Ok((master, generation)),
            _ => Err(self.failing_over("the server that sentinels name is no master")),
        }
    }

    fn address(&self, named: &Named) -> ConnectionAddr {
        let (host, port) = (named.host.clone(), named.port);
        match self.settings.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host, port),
        }
    }

    fn failing_over(&self, why: &str) -> StoreError {
        let text = format!("`{}` is being failed over: {why}", self.name);
        StoreError::new(StoreErrorKind::Unavailable, text)
    }

    /// Asks a sentinel for the address alone, and for more if that is not the one that is known.
    pub(super) async fn look(&self, asked: &mut MultiplexedConnection) -> Result<(), StoreError> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(&self.name);
        let address: Option<(String, u16)> =
            command.query_async(asked).await.map_err(connect_error)?;
        let Some((host, port)) = address else { return Ok(()) };
        if !self.master.confirm(&host, port)
            && let Some(named) = self.ask(asked).await?
        {
            self.master.learn(&named);
        }
        Ok(())
    }

    /// The master, and the epoch of the configuration that made it one.
    async fn ask(&self, asked: &mut MultiplexedConnection) -> Result<Option<Named>, StoreError> {
        // While a sentinel leads a failover, only `get-master-addr-by-name` tells the new address,
        // and only `master` the epoch. An address between two equal epochs is of that epoch.
        let mut question: Pipeline = redis::pipe();
        for what in ["master", "get-master-addr-by-name", "master"] {
            question.cmd("SENTINEL").arg(what).arg(&self.name);
        }
        for _ in 0..ROUNDS {
            let answers = asked.send_packed_commands(&question, 0, 3).await;
            let Ok([before, address, after]) =
                <[Value; 3]>::try_from(answers.map_err(connect_error)?)
            else {
                return Err(super::error::unexpected("SENTINEL"));
            };
            let address = address.extract_error().map_err(connect_error)?;
            let address: Option<(String, u16)> = read(address)?;
            let Some((host, port)) = address else { return Ok(None) };
            let (before, after) = (epoch(before)?, epoch(after)?);
            if before == after {
                return Ok(Some(Named { host, port, epoch: after }));
            }
        }
        Err(self.failing_over("its sentinels are about to name another master"))
    }
}

fn epoch(answer: Value) -> Result<u64, StoreError> {
    let answer = answer.extract_error().map_err(connect_error)?;
    let fields: HashMap<String, String> = read(answer)?;
    let epoch = fields.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    epoch.ok_or_else(|| super::error::unexpected("SENTINEL MASTER"))
}

fn read<T: redis::FromRedisValue>(answer: Value) -> Result<T, StoreError> {
    redis::from_redis_value(answer).map_err(|error| connect_error(RedisError::from(error)))
}
