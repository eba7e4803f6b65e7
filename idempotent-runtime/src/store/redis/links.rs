//! The connections of a store: one for each runtime that uses it.
//!
//! A connection is driven by a task of the runtime it was made on. If all runtimes shared one, its
//! end would be that of the first runtime, and every answer would cross threads. So each has its
//! own, which goes with it: a body that blocks its runtime does not hold up the keeper's renewals.
//!
//! A connection that fails is replaced by the next command. One to a cluster is replaced behind the
//! commands: it still reaches the other nodes, and a node that is silent makes connecting slow.
//!
//! A connection to a master that sentinels have replaced is not used again, and what is under way
//! on it counts as unanswered: its server may still answer, and is about to forget what it says.

use super::error::{Failure, after_an_effect, classify, store_error, unexpected};
use super::eviction::Eviction;
use super::follow::Follower;
use super::master::Generation;
use super::packed::Sent;
use super::paused;
use super::refusals::{self, Reads, refusal};
use super::target::{Connected, Connection, OnPush, Target, Timeouts};
use crate::backoff::Backoff;
use crate::race::{First, race};
use crate::store::{StoreError, StoreErrorKind};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::{Mutex, lock};
use arc_swap::{ArcSwap, ArcSwapOption};
use redis::{Cmd, Pipeline, PushKind, RedisError, Value};
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

/// The connections of a store.
pub(super) struct Links {
    target: Target,
    timeouts: Timeouts,
    eviction: Eviction,
    /// Read by every command, so without a lock or a count that all threads write to.
    by_runtime: ArcSwap<HashMap<Id, Arc<Link>>>,
    /// Behind sentinels, and while the store is used.
    follower: Mutex<Option<Follower>>,
    /// A command was sent since [`was_used`](Self::was_used) was asked last.
    used: AtomicBool,
    /// The number of connections that were made in place of another one.
    reconnected: watch::Sender<u64>,
}

/// The connection of one runtime, and what is known about making another one.
struct Link {
    runtime: Handle,
    /// Read by every command, as the links are.
    current: ArcSwapOption<Current>,
    /// Held while a connection is made, so that one is made at a time.
    connecting: tokio::sync::Mutex<Pause>,
    /// A connection was made. Written while `connecting` is held.
    was_connected: AtomicBool,
}

struct Current {
    connection: Connection,
    made: Made,
    since: Instant,
    /// Of the master that it leads to.
    generation: Generation,
}

/// The number of a connection, which tells it from those before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made(u64);

impl Made {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// The pause before the next connection may be tried.
struct Pause {
    backoff: Backoff,
    until: Option<Instant>,
    /// Kind and text of the last failure.
    failed: Option<(StoreErrorKind, String)>,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    /// The last failure again, if it is too early to try another connection.
    fn on(&self) -> Option<StoreError> {
        let is_on = self.until.is_some_and(|until| Instant::now() < until);
        let (kind, text) = self.failed.as_ref().filter(|_| is_on)?;
        Some(StoreError::new(*kind, format!("not connected: {text}")))
    }

    fn failed(&mut self, error: &StoreError) {
        self.until = Some(Instant::now() + self.backoff.pause());
        self.failed = Some((error.kind(), error.to_string()));
    }
}

impl Default for Pause {
    fn default() -> Self {
        Self { backoff: Backoff::up_to(Self::FIRST, Self::LONGEST), until: None, failed: None }
    }
}

/// Connections that may lead to another server than those before.
pub(super) struct Moves(Option<watch::Receiver<u64>>);

impl Moves {
    /// Resolves when such a connection was made.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            // The sender outlives its receivers: both are this store's.
            Some(reconnected) => drop(reconnected.changed().await),
            None => pending().await,
        }
    }
}

/// The failure of a command: it was not sent, or got no usable answer.
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

    /// `true` if the server has given up a transaction.
    pub(super) fn is_discarded(&self) -> bool {
        matches!(self, Self::Sent(error) | Self::Resent(error) if error.code() == Some("EXECABORT"))
    }

    /// `true` if the server refuses the same for as long as it is set up as it is.
    pub(super) fn is_for_good(&self) -> bool {
        let (Self::Sent(error) | Self::Resent(error)) = self else { return false };
        let row = refusal(error);
        // An end that the user may not send discards what was begun, with the reason behind the code.
        let is_end = self.is_discarded() && error.detail().is_some_and(|it| it.contains("NOPERM"));
        is_end || row.kind == StoreErrorKind::Misconfigured && row.failure != Failure::NoScript
    }

    /// `true` if the server can be expected to answer a `GET` all the same.
    pub(super) fn leaves_reads(&self) -> bool {
        match self {
            Self::Sent(error) | Self::Resent(error) => refusal(error).reads == Reads::Served,
            Self::NotSent(_) | Self::Answered(_) => false,
        }
    }
}

/// A command under way.
pub(super) enum Commanded<'a> {
    AtOnce { links: &'a Arc<Links>, made: Made, sent: Sent },
    Otherwise(Pin<Box<dyn Future<Output = Result<Value, Failed>> + Send + 'a>>),
}

impl Future for Commanded<'_> {
    type Output = Result<Value, Failed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::AtOnce { links, made, sent } => Pin::new(sent).poll(context).map(|answer| {
                let answer = answer.and_then(Value::extract_error);
                links.unless_queued(*made, answer.map_err(|error| links.failed(*made, error)))
            }),
            Self::Otherwise(answer) => answer.as_mut().poll(context),
        }
    }
}

/// The answers to a transaction.
pub(super) struct Transacted {
    pub(super) answers: Vec<Result<Value, Failed>>,
    /// The connection that it was sent on.
    pub(super) made: Made,
}

impl Links {
    pub(super) fn new(target: Target, timeouts: Timeouts, eviction: Eviction) -> Arc<Self> {
        Arc::new(Self {
            target,
            timeouts,
            eviction,
            by_runtime: ArcSwap::default(),
            follower: Mutex::new(None),
            used: AtomicBool::new(false),
            reconnected: watch::Sender::new(0),
        })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The number of runtimes that have a connection, or are about to.
    pub(super) fn runtimes(&self) -> usize {
        self.by_runtime.load().len()
    }

    /// Sends a command to the master of its key.
    ///
    /// Not an async function, which would keep room for the command twice: it is given to the connection before the future
    /// is polled.
    pub(super) fn command(self: &Arc<Self>, command: Cmd) -> Commanded<'_> {
        match self.send_at_once(command) {
            Ok((made, sent)) => Commanded::AtOnce { links: self, made, sent },
            // Boxed, because it is large and would make the future of every command so.
            Err(command) => Commanded::Otherwise(Box::pin(self.command_to(None, command))),
        }
    }

    /// Gives a command to the connection of this runtime, if there is one and the command has to wait for nothing but its
    /// answer: no sentinel can replace the server, and the clock is not paused. Otherwise the command comes back.
    fn send_at_once(&self, command: Cmd) -> Result<(Made, Sent), Cmd> {
        if self.target.sentinel().is_some() || paused::is_paused() {
            return Err(command);
        }
        let Ok(handle) = Handle::try_current() else { return Err(command) };
        let links = self.by_runtime.load();
        let Some(link) = links.get(&handle.id()) else { return Err(command) };
        let current = link.current.load();
        match current.as_deref() {
            Some(Current { connection: Connection::Single(connection), made, .. }) => {
                self.mark_used();
                Ok((*made, connection.command(command)))
            }
            _ => Err(command),
        }
    }

    /// Sends a command to the master of a slot, whatever keys it names.
    pub(super) async fn command_to(
        self: &Arc<Self>,
        slot: Option<u16>,
        command: Cmd,
    ) -> Result<Value, Failed> {
        let current = self.current().await?;
        let mut connection = current.connection.clone();
        // Pinned here and in `pipeline`: an async function keeps room twice for a future that it is given.
        let answer = {
            let sent = pin!(connection.command_to(slot, command));
            let answer = pin!(self.unless_replaced(current.generation, sent));
            paused::hold(self.timeouts.response, answer).await
        };
        let answer = answer.map_err(|error| self.failed(current.made, error));
        self.unless_queued(current.made, answer)
    }

    /// Sends many commands in one go. Each has its own answer; the error is that of all of them.
    pub(super) async fn pipeline(
        self: &Arc<Self>,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, Failed>>, Failed> {
        let Transacted { answers, made } = self.transaction(pipeline).await?;
        Ok(answers.into_iter().map(|answer| self.unless_queued(made, answer)).collect())
    }

    /// Sends commands in one go that begin a transaction and end it. If it may not have ended, the connection has to be
    /// [left](Self::leave).
    pub(super) async fn transaction(
        self: &Arc<Self>,
        pipeline: &Pipeline,
    ) -> Result<Transacted, Failed> {
        let current = self.current().await?;
        let mut connection = current.connection.clone();
        let answers = {
            let sent = pin!(connection.pipeline(pipeline));
            let answers = pin!(self.unless_replaced(current.generation, sent));
            paused::hold(self.timeouts.response, answers).await
        };
        let failed = |error| self.failed(current.made, error);
        let answers = answers.map_err(failed)?;
        if answers.len() != pipeline.len() {
            return Err(Failed::Answered(unexpected("a pipeline")));
        }
        let each = answers.into_iter().map(Value::extract_error);
        let answers = each.map(|answer| answer.map_err(failed)).collect();
        Ok(Transacted { answers, made: current.made })
    }

    /// The answer, unless the master that it is expected of is replaced before.
    async fn unless_replaced<T>(
        &self,
        generation: Generation,
        answer: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        match race(self.replaced(generation), answer).await {
            First::Left(()) => {
                let text = "the master was replaced before it answered";
                Err(std::io::Error::new(std::io::ErrorKind::ConnectionAborted, text).into())
            }
            First::Right(answer) => answer,
        }
    }

    /// Resolves when connections of this generation must not be used.
    pub(super) async fn replaced(&self, generation: Generation) {
        match self.target.sentinel() {
            Some(sentinel) => sentinel.master.replaced(generation).await,
            None => pending().await,
        }
    }

    /// Tells of each connection from now on that is made in place of another one.
    ///
    /// The address of a single server may lead to another server by then: a name or a virtual address that was moved. Behind
    /// sentinels a connection that leads elsewhere has another [generation](Self::replaced), and a cluster has many servers.
    pub(super) fn moves(&self) -> Moves {
        Moves(self.target.is_single().then(|| self.reconnected.subscribe()))
    }

    /// Tells a connection to the master from one to a master of before.
    fn leads_to_master(&self, current: &Current) -> bool {
        let sentinel = self.target.sentinel();
        sentinel.is_none_or(|sentinel| sentinel.master.generation() == current.generation)
    }

    /// Ends connections to masters that have been replaced.
    pub(super) fn drop_replaced(&self) {
        self.drop_connections(|current| !self.leads_to_master(current));
    }

    fn drop_connections(&self, ends: impl Fn(&Current) -> bool) {
        for link in self.by_runtime.load().values() {
            link.discard_if(&ends);
        }
    }

    /// The answer to a command outside of a transaction, unless it was queued: then one that was begun before could not
    /// end, and nothing has waited for its refusal.
    fn unless_queued(&self, made: Made, answer: Result<Value, Failed>) -> Result<Value, Failed> {
        match answer {
            Ok(Value::SimpleString(text)) if text == "QUEUED" => {
                self.leave(made);
                let text = "redis: a transaction that could not end has queued the command";
                Err(Failed::Answered(StoreError::new(StoreErrorKind::Unavailable, text)))
            }
            answer => answer,
        }
    }

    /// Does without a connection from now on: a transaction that was begun on it may not have ended.
    pub(super) fn leave(&self, made: Made) {
        if let Some((link, _)) = self.link_of(made) {
            link.discard(made);
        }
    }

    /// Notes that the store is used.
    pub(super) fn mark_used(&self) {
        // Written only where it changes something: all runtimes share it.
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }

    /// Tells whether the store was used since this was asked last.
    pub(super) fn was_used(&self) -> bool {
        self.used.swap(false, Relaxed)
    }

    /// Ends all connections of a store that is not used, and its follower with them. `false` if it
    /// is used after all.
    pub(super) fn rest(&self) -> bool {
        let mut follower = lock(&self.follower);
        if self.was_used() {
            return false;
        }
        // A connection that is made after this starts another one.
        *follower = None;
        self.drop_connections(|_| true);
        true
    }

    /// Follows the sentinels from here on, if that is not yet done.
    pub(super) fn follow(self: &Arc<Self>) -> Result<(), StoreError> {
        let Some(sentinel) = self.target.sentinel() else { return Ok(()) };
        let mut follower = lock(&self.follower);
        if follower.is_none() {
            let started = Follower::start(self, sentinel).map_err(|error| {
                let text = format!("sentinels cannot be followed: {error}");
                StoreError::new(StoreErrorKind::Unavailable, text)
            });
            *follower = Some(started?);
        }
        Ok(())
    }

    /// The failure of a command on this connection, which is replaced if the error says so.
    fn failed(self: &Arc<Self>, made: Made, error: RedisError) -> Failed {
        if refusal(&error).connection == refusals::Connection::Replaced
            && let Some((link, used)) = self.link_of(made)
        {
            // A server that answers is reached. Another connection may lead to a better one,
            // but there is no use in making one for every refusal.
            let answers = error.code().is_some();
            if !answers || used.since.elapsed() >= Pause::LONGEST {
                self.replace(&link, made);
            }
        }
        match self.target.sends_once() {
            true => Failed::Sent(error),
            false => Failed::Resent(error),
        }
    }

    /// The link with this connection. Not that of the current runtime: the keeper waits for what callers that have gone
    /// had sent on theirs.
    fn link_of(&self, made: Made) -> Option<(Arc<Link>, Arc<Current>)> {
        self.by_runtime.load().values().find_map(|link| {
            let current = link.current.load_full().filter(|current| current.made == made)?;
            Some((Arc::clone(link), current))
        })
    }

    /// Does without a connection from now on, or from when there is another one.
    fn replace(self: &Arc<Self>, link: &Arc<Link>, made: Made) {
        if !self.target.is_cluster() {
            link.discard(made);
            return;
        }
        // Whoever holds it is connecting.
        if link.connecting.try_lock().is_err() {
            return;
        }
        let (links, link) = (Arc::clone(self), Arc::clone(link));
        // On the runtime that uses it, which need not be the current one.
        let runtime = link.runtime.clone();
        runtime.spawn(async move {
            if links.connect(&link, Some(made)).await.is_err() {
                link.discard(made);
            }
        });
    }

    async fn current(self: &Arc<Self>) -> Result<Arc<Current>, Failed> {
        self.mark_used();
        let link = self.link()?;
        if let Some(current) = self.usable(&link) {
            return Ok(current);
        }
        // Boxed, because it is rare and makes the future of every command smaller.
        Box::pin(self.connect(&link, None)).await
    }

    /// The connection of a link, if it leads to the master.
    fn usable(&self, link: &Link) -> Option<Arc<Current>> {
        link.current.load_full().filter(|current| self.leads_to_master(current))
    }

    /// Makes a connection in place of `old`, unless there is one by now.
    async fn connect(
        self: &Arc<Self>,
        link: &Arc<Link>,
        old: Option<Made>,
    ) -> Result<Arc<Current>, Failed> {
        let mut pause = link.connecting.lock().await;
        if let Some(current) = self.usable(link)
            && old != Some(current.made)
        {
            return Ok(current);
        }
        if let Some(error) = pause.on() {
            return Err(Failed::NotSent(error));
        }
        let made = Made::next();
        let on_push: OnPush = if self.target.is_cluster() {
            // The connection to a node that ends is made again by the client.
            Arc::new(|_| {})
        } else {
            on_end(Arc::downgrade(link), made)
        };
        let connected = self.connect_and_check(on_push);
        match paused::hold(self.timeouts.connect, connected).await {
            Ok(Connected { connection, generation }) => {
                *pause = Pause::default();
                let since = Instant::now();
                let current = Arc::new(Current { connection, made, since, generation });
                link.current.store(Some(Arc::clone(&current)));
                if link.was_connected.swap(true, Relaxed) {
                    self.reconnected.send_modify(|number| *number += 1);
                }
                Ok(current)
            }
            Err(error) => {
                pause.failed(&error);
                Err(Failed::NotSent(error))
            }
        }
    }

    /// Makes a connection to servers that keep what they are given.
    async fn connect_and_check(self: &Arc<Self>, on_push: OnPush) -> Result<Connected, StoreError> {
        let mut connected = self.target.connect(self.timeouts, on_push).await?;
        self.eviction.check(&mut connected.connection).await?;
        self.follow()?;
        Ok(connected)
    }

    /// The link of the current runtime.
    fn link(self: &Arc<Self>) -> Result<Arc<Link>, Failed> {
        let Ok(handle) = Handle::try_current() else {
            let text = "a redis store is used outside a tokio runtime";
            return Err(Failed::NotSent(StoreError::new(StoreErrorKind::Misconfigured, text)));
        };
        let id = handle.id();
        if let Some(link) = self.by_runtime.load().get(&id) {
            return Ok(Arc::clone(link));
        }
        let link = Arc::new(Link {
            runtime: handle.clone(),
            current: ArcSwapOption::empty(),
            connecting: tokio::sync::Mutex::new(Pause::default()),
            was_connected: AtomicBool::new(false),
        });
        let links = self.by_runtime.rcu(|links| {
            let mut links = HashMap::clone(links);
            links.entry(id).or_insert_with(|| Arc::clone(&link));
            links
        });
        if let Some(link) = links.get(&id) {
            // Another task of this runtime was faster.
            return Ok(Arc::clone(link));
        }
        // A task that never ends is dropped with its runtime, and the link with it.
        let guard = EndOfRuntime { links: Arc::downgrade(self), id };
        handle.spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        Ok(link)
    }
}

impl Link {
    /// Forgets a connection that failed, unless another one has taken its place.
    fn discard(&self, made: Made) {
        self.discard_if(|current| current.made == made);
    }

    /// Forgets its connection on a condition.
    fn discard_if(&self, ends: impl Fn(&Current) -> bool) {
        let is_to_end = |current: &Option<Arc<Current>>| current.as_deref().is_some_and(&ends);
        // Another one may take its place meanwhile, and is asked about in turn.
        self.current.rcu(|current| if is_to_end(current) { None } else { current.clone() });
    }
}

/// Forgets a connection as soon as its end is known, rather than with the next command.
fn on_end(link: Weak<Link>, made: Made) -> OnPush {
    Arc::new(move |info| {
        if info.kind == PushKind::Disconnection
            && let Some(link) = link.upgrade()
        {
            link.discard(made);
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
            links.by_runtime.rcu(|links| {
                let mut links = HashMap::clone(links);
                links.remove(&self.id);
                links
            });
        }
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(formatter)
    }
}

#[cfg(test)]
#[path = "links/tests.rs"]
mod tests;
