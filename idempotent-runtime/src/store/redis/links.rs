//! The connections of a store: one for each runtime that uses it.
//!
//! A connection is driven by a task of the runtime it was made on. If all runtimes shared one, its
//! end would be that of the first runtime, and every answer would cross threads. So each has its
//! own, which goes with it: a body that blocks its runtime does not hold up the keeper's renewals.
//!
//! A connection that fails is replaced by the next command. One to a cluster is replaced behind the
//! commands: it still reaches the other nodes, and a node that is silent makes connecting slow.

use super::error::{Failure, after_an_effect, classify, store_error, unexpected};
use super::paused;
use super::refusals::{self, Reads, refusal};
use super::target::{Connection, OnPush, Target, Timeouts};
use crate::store::{StoreError, StoreErrorKind};
use crate::sync::{Mutex, lock};
use redis::{Cmd, Pipeline, PushKind, RedisError, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Id};

/// The connections of a store.
pub(super) struct Links {
    target: Target,
    timeouts: Timeouts,
    by_runtime: Mutex<HashMap<Id, Arc<Link>>>,
}

/// The connection of one runtime, and what is known about making another one.
struct Link {
    current: Mutex<Option<Current>>,
    /// Held while a connection is made, so that one is made at a time.
    connecting: tokio::sync::Mutex<Pause>,
}

#[derive(Clone)]
struct Current {
    connection: Connection,
    /// Tells this connection from the ones before and after it.
    made: Arc<()>,
    since: Instant,
}

/// When the next connection may be tried.
#[derive(Default)]
struct Pause {
    length: Duration,
    until: Option<Instant>,
    text: String,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    /// Whether it is too early to try.
    fn is_on(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    fn failed(&mut self, error: &StoreError) {
        self.length = (self.length * 2).clamp(Self::FIRST, Self::LONGEST);
        // Somewhere in the second half, so that processes do not come back all at once.
        let part = f64::from(rand::random::<u16>()) / f64::from(u16::MAX);
        self.until = Some(Instant::now() + self.length.mul_f64(0.5 + part / 2.0));
        self.text = error.to_string();
    }
}

/// Why a command got no answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// There is no connection. Nothing was sent.
    NotSent(StoreError),
    /// It was sent once. An error came as its answer, or nothing did.
    Sent(RedisError),
    /// The same, through a client that may have sent it more than once. An error that came last
    /// says nothing about the copies before it.
    Resent(RedisError),
    /// It was sent, and what came as its answer is of no use. The error knows about the effect.
    Answered(StoreError),
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NotSent(error) => error.without_effect(),
            Failed::Sent(error) => store_error(error),
            Failed::Resent(error) => match store_error(error) {
                error if is_transient(error.kind()) => after_an_effect(error),
                // The record is read after such a refusal: a copy that took effect is found.
                error => error,
            },
            Failed::Answered(error) => error,
        }
    }
}

fn is_transient(kind: StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Unavailable | StoreErrorKind::NotReplicated)
}

impl Failed {
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::NotSent(_) => Failure::Disconnected,
            Self::Sent(error) | Self::Resent(error) => classify(error),
            Self::Answered(_) => Failure::Other,
        }
    }

    /// Whether the server can be expected to answer a `GET` all the same.
    pub(super) fn leaves_reads(&self) -> bool {
        match self {
            Self::Sent(error) | Self::Resent(error) => refusal(error).reads == Reads::Served,
            Self::NotSent(_) | Self::Answered(_) => false,
        }
    }
}

impl Links {
    pub(super) fn new(target: Target, timeouts: Timeouts) -> Arc<Self> {
        Arc::new(Self { target, timeouts, by_runtime: Mutex::new(HashMap::new()) })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// How many runtimes have a connection, or are about to.
    pub(super) fn runtimes(&self) -> usize {
        lock(&self.by_runtime).len()
    }

    pub(super) async fn command(self: &Arc<Self>, command: &Cmd) -> Result<Value, Failed> {
        let (link, mut current) = self.current().await?;
        let answer =
            paused::hold(self.timeouts.response, current.connection.command(command)).await;
        self.check(&link, &current, answer)
    }

    /// Sends many commands in one go. Each has its own answer; the error is that of all of them.
    pub(super) async fn pipeline(
        self: &Arc<Self>,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, Failed>>, Failed> {
        let (link, mut current) = self.current().await?;
        let sent = current.connection.pipeline(pipeline);
        let answers = paused::hold(self.timeouts.response, sent).await;
        let answers = self.check(&link, &current, answers)?;
        if answers.len() != pipeline.len() {
            return Err(Failed::Answered(unexpected("a pipeline")));
        }
        let each = answers.into_iter().map(Value::extract_error);
        Ok(each.map(|answer| self.check(&link, &current, answer)).collect())
    }

    fn check<T>(
        self: &Arc<Self>,
        link: &Arc<Link>,
        used: &Current,
        answer: Result<T, RedisError>,
    ) -> Result<T, Failed> {
        answer.map_err(|error| {
            if refusal(&error).connection == refusals::Connection::Replaced {
                // A server that answers is reached. Another connection may lead to a better one,
                // but there is no use in making one for every refusal.
                let answers = error.code().is_some();
                if !answers || used.since.elapsed() >= Pause::LONGEST {
                    self.replace(link, used);
                }
            }
            match self.target.sends_once() {
                true => Failed::Sent(error),
                false => Failed::Resent(error),
            }
        })
    }

    /// Does without a connection from now on, or from when there is another one.
    fn replace(self: &Arc<Self>, link: &Arc<Link>, used: &Current) {
        if !self.target.is_cluster() {
            link.discard(&used.made);
            return;
        }
        // Whoever holds it is connecting.
        if link.connecting.try_lock().is_err() {
            return;
        }
        let (links, link, made) = (Arc::clone(self), Arc::clone(link), Arc::clone(&used.made));
        tokio::spawn(async move {
            if links.connect(&link, Some(&made)).await.is_err() {
                link.discard(&made);
            }
        });
    }

    async fn current(self: &Arc<Self>) -> Result<(Arc<Link>, Current), Failed> {
        let link = self.link()?;
        if let Some(current) = link.current() {
            return Ok((link, current));
        }
        let current = self.connect(&link, None).await?;
        Ok((link, current))
    }

    /// Makes a connection in place of `old`, unless there is one by now.
    async fn connect(&self, link: &Arc<Link>, old: Option<&Arc<()>>) -> Result<Current, Failed> {
        let mut pause = link.connecting.lock().await;
        if let Some(current) = link.current()
            && !old.is_some_and(|old| Arc::ptr_eq(old, &current.made))
        {
            return Ok(current);
        }
        if pause.is_on() {
            let text = format!("not connected: {}", pause.text);
            return Err(Failed::NotSent(StoreError::new(StoreErrorKind::Unavailable, text)));
        }
        let made = Arc::new(());
        let on_push: OnPush = if self.target.is_cluster() {
            // The connection to a node that ends is made again by the client.
            Arc::new(|_| {})
        } else {
            on_end(Arc::downgrade(link), Arc::downgrade(&made))
        };
        let connected = self.target.connect(self.timeouts, on_push);
        match paused::hold(self.timeouts.connect, connected).await {
            Ok(connection) => {
                *pause = Pause::default();
                let current = Current { connection, made, since: Instant::now() };
                *lock(&link.current) = Some(current.clone());
                Ok(current)
            }
            Err(error) => {
                pause.failed(&error);
                Err(Failed::NotSent(error))
            }
        }
    }

    /// The link of the current runtime.
    fn link(self: &Arc<Self>) -> Result<Arc<Link>, Failed> {
        let Ok(handle) = Handle::try_current() else {
            let text = "a redis store is used outside a tokio runtime";
            return Err(Failed::NotSent(StoreError::new(StoreErrorKind::Misconfigured, text)));
        };
        let id = handle.id();
        if let Some(link) = lock(&self.by_runtime).get(&id) {
            return Ok(Arc::clone(link));
        }
        let link = Arc::new(Link {
            current: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(Pause::default()),
        });
        let held = Arc::clone(lock(&self.by_runtime).entry(id).or_insert(link));
        // A task that never ends is dropped with its runtime, and the link with it.
        let guard = EndOfRuntime { links: Arc::downgrade(self), id };
        handle.spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        Ok(held)
    }
}

impl Link {
    fn current(&self) -> Option<Current> {
        lock(&self.current).clone()
    }

    /// Forgets a connection that failed, unless another one has taken its place.
    fn discard(&self, made: &Arc<()>) {
        let mut current = lock(&self.current);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(&current.made, made)) {
            *current = None;
        }
    }
}

/// Forgets a connection as soon as its end is known, rather than with the next command.
fn on_end(link: Weak<Link>, made: Weak<()>) -> OnPush {
    Arc::new(move |info| {
        if info.kind == PushKind::Disconnection
            && let (Some(link), Some(made)) = (link.upgrade(), made.upgrade())
        {
            link.discard(&made);
        }
    })
}

/// Removes the link of a runtime that has ended.
struct EndOfRuntime {
    links: Weak<Links>,
    id: Id,
}

impl Drop for EndOfRuntime {
    fn drop(&mut self) {
        if let Some(links) = self.links.upgrade() {
            let ended = lock(&links.by_runtime).remove(&self.id);
            drop(ended);
        }
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(formatter)
    }
}
