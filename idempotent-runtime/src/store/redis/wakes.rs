//! Wakes the callers that wait for a record that another process holds.
//!
//! One connection of its own, on a thread of its own, made when the first caller waits. The process
//! that ends a marked record publishes its name. No message arrives while the connection is down:
//! all waiters look at their records again when it is lost and when it is back. No caller has to
//! wait for the connection.
//!
//! The same connection receives the records that operators freed: see [`hearing`](super::hearing).

use super::error::misconfigured;
use super::hearing::{Hearing, Subscription};
use super::links::{Links, Moves};
use super::name::Name;
use super::paused;
use super::server::{FREED, Publish};
use super::swaps::CHANNEL;
use super::target::{Connected, Connection, OnPush};
use crate::backoff::Backoff;
use crate::race::{First, race};
use crate::store::{FreedListener, StoreError, Watch};
use crate::sync::{Mutex, Notify, lock, run_on_thread};
use redis::{PushInfo, PushKind, Value};
use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Interval at which the connection is checked with a `PING`.
const PING_EVERY: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The watches of a store.
pub(super) struct Wakes {
    links: Arc<Links>,
    publish: Publish,
    watched: Arc<Watched>,
    subscriber: OnceLock<Option<Subscriber>>,
}

/// The events that callers of this process wait for.
#[derive(Default)]
struct Watched {
    /// The records that are waited for.
    records: Mutex<HashMap<String, Waiting>>,
    /// The listeners to records that operators free: the instances on this store.
    freed: Arc<Hearing>,
}

#[derive(Debug)]
struct Waiting {
    changed: Arc<Notify>,
    watches: usize,
}

/// The thread that listens.
struct Subscriber {
    requests: mpsc::UnboundedSender<Request>,
    listening: watch::Receiver<bool>,
}

/// A request to the thread. The thread ends when no more requests can come.
enum Request {
    Subscribe(String, tokio::sync::oneshot::Sender<()>),
    Unsubscribe(String),
    /// Records are held that operators may free.
    HearFreed,
    /// A server ended the subscription: the record's slot has moved to another one.
    Resubscribe(String),
}

impl Wakes {
    pub(super) fn new(links: Arc<Links>, publish: Publish) -> Arc<Self> {
        let watched = Arc::default();
        Arc::new(Self { links, publish, watched, subscriber: OnceLock::new() })
    }

    /// Watches a record from now on, and waits until changes are heard where that takes no more
    /// than an answer.
    pub(super) async fn watch(self: &Arc<Self>, name: &Name<'_>) -> Watch {
        let Some(subscriber) = self.subscriber() else { return Watch::never() };
        let changed = self.watched.add(name);
        let mut notified = Box::pin(changed.notified_owned());
        notified.as_mut().enable();
        let guard = Guard { wakes: Arc::clone(self), name: name.as_str().to_owned() };
        let patience = self.links.timeouts().response;
        let heard = tokio::time::timeout(patience, subscriber.hears(self.publish, name));
        let _ = paused::hold(patience, heard).await;
        Watch::new(async move {
            let _guard = guard;
            notified.await;
        })
    }

    /// Tells of records that operators free, from when the subscription is made.
    pub(super) fn on_freed(&self, listener: FreedListener) {
        self.watched.freed.add(listener);
        if let Some(subscriber) = self.subscriber() {
            let _ = subscriber.requests.send(Request::HearFreed);
        }
    }

    /// `None` if nothing can be heard.
    fn subscriber(&self) -> Option<&Subscriber> {
        if !self.links.target().can_be_heard() {
            return None;
        }
        self.subscriber
            .get_or_init(|| {
                let started = Subscriber::start(&self.links, self.publish, &self.watched);
                started
                    .inspect_err(|error| {
                        tracing::warn!(target: "idempotent", %error, "waiting callers only poll");
                    })
                    .ok()
            })
            .as_ref()
    }
}

impl Subscriber {
    fn start(
        links: &Arc<Links>,
        publish: Publish,
        watched: &Arc<Watched>,
    ) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| misconfigured(error.to_string()))?;
        let (requests, asked) = mpsc::unbounded_channel();
        let (says, listening) = watch::channel(false);
        let (links, watched) = (Arc::clone(links), Arc::clone(watched));
        let again = requests.downgrade();
        let listen = Listener { links, publish, watched, asked, again, says };
        run_on_thread("idempotent-redis", runtime, listen.run())
            .map_err(|error| misconfigured(error.to_string()))?;
        Ok(Self { requests, listening })
    }

    /// Resolves when changes of this record are heard, or when nothing is.
    async fn hears(&self, publish: Publish, name: &Name<'_>) {
        if publish == Publish::OneChannel {
            return;
        }
        let (done, subscribed) = tokio::sync::oneshot::channel();
        let _ = self.requests.send(Request::Subscribe(name.as_str().to_owned(), done));
        let mut listening = self.listening.clone();
        race(subscribed, listening.wait_for(|listening| !listening)).await;
    }
}

/// Ends a watch.
struct Guard {
    wakes: Arc<Wakes>,
    name: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.wakes.watched.remove(&self.name)
            && self.wakes.publish == Publish::ByName
            && let Some(subscriber) = self.wakes.subscriber()
        {
            let name = std::mem::take(&mut self.name);
            let _ = subscriber.requests.send(Request::Unsubscribe(name));
        }
    }
}

impl Watched {
    fn add(&self, name: &Name<'_>) -> Arc<Notify> {
        let mut watched = lock(&self.records);
        let waiting = watched
            .entry(name.as_str().to_owned())
            .or_insert_with(|| Waiting { changed: Arc::new(Notify::new()), watches: 0 });
        waiting.watches += 1;
        Arc::clone(&waiting.changed)
    }

    /// `true` if nobody watches any more.
    fn remove(&self, name: &str) -> bool {
        let mut watched = lock(&self.records);
        let Some(waiting) = watched.get_mut(name) else { return false };
        waiting.watches -= 1;
        let last = waiting.watches == 0;
        if last {
            watched.remove(name);
        }
        last
    }

    fn wake(&self, name: &str) {
        let changed = lock(&self.records).get(name).map(|waiting| Arc::clone(&waiting.changed));
        if let Some(changed) = changed {
            changed.notify_waiters();
        }
    }

    fn wake_all(&self) {
        let all: Vec<_> =
            lock(&self.records).values().map(|waiting| Arc::clone(&waiting.changed)).collect();
        all.iter().for_each(|changed| changed.notify_waiters());
    }

    /// `true` if any record is watched.
    fn any(&self) -> bool {
        !lock(&self.records).is_empty()
    }

    fn has(&self, name: &str) -> bool {
        lock(&self.records).contains_key(name)
    }

    fn names(&self) -> Vec<String> {
        lock(&self.records).keys().cloned().collect()
    }
}

/// A connection that hears what is watched.
///
/// Fields are dropped in their order: what is freed after the connection is dropped is not heard.
struct Subscribed {
    subscription: Subscription,
    connected: Connected,
    /// Told when it ends.
    ended: Arc<Notify>,
    /// Tells of connections of calls that may lead to another server than this one.
    moves: Moves,
}

/// The thread's side.
struct Listener {
    links: Arc<Links>,
    publish: Publish,
    watched: Arc<Watched>,
    asked: mpsc::UnboundedReceiver<Request>,
    /// For what a push makes necessary.
    again: mpsc::WeakUnboundedSender<Request>,
    says: watch::Sender<bool>,
}

impl Listener {
    async fn run(mut self) {
        let mut backoff = Backoff::up_to(FIRST_PAUSE, LONGEST_PAUSE);
        let mut is_first = true;
        while !self.asked.is_closed() {
            let started = Instant::now();
            match self.subscribe().await {
                Ok(mut subscribed) => {
                    self.says.send_replace(true);
                    // What ended while nobody listened was not heard.
                    self.watched.wake_all();
                    self.listen(&mut subscribed).await;
                    drop(subscribed);
                    self.says.send_replace(false);
                    self.watched.wake_all();
                }
                Err(error) if is_first => {
                    tracing::warn!(target: "idempotent", %error, "waiting callers only poll");
                }
                Err(error) => {
                    tracing::debug!(target: "idempotent", %error, "the subscription failed");
                }
            }
            // One that ends as soon as it is made is no better than one that fails.
            if started.elapsed() > LONGEST_PAUSE {
                backoff = Backoff::up_to(FIRST_PAUSE, LONGEST_PAUSE);
            }
            is_first = false;
            self.rest(backoff.pause()).await;
        }
    }

    /// Waits, unless nobody needs this thread any more.
    async fn rest(&mut self, pause: Duration) {
        let asked = &mut self.asked;
        let closed = async { while asked.recv().await.is_some() {} };
        race(closed, tokio::time::sleep(pause)).await;
    }

    /// A connection that hears what is watched, and what tells its end.
    async fn subscribe(&self) -> Result<Subscribed, StoreError> {
        let (ended, moves) = (Arc::new(Notify::new()), self.links.moves());
        let subscription = self.watched.freed.open();
        let (watched, number) = (Arc::clone(&self.watched), subscription.connection());
        let on_push = hear(watched, number, Arc::clone(&ended), self.again.clone());
        let mut connected = self.links.target().connect(self.links.timeouts(), on_push).await?;
        self.links.follow()?;
        match (&mut connected.connection, self.publish) {
            (Connection::Single(single), _) => single.connection().subscribe(CHANNEL).await,
            (Connection::Cluster(cluster), Publish::OneChannel) => cluster.subscribe(CHANNEL).await,
            (Connection::Cluster(cluster), Publish::ByName) => {
                let each = self.watched.names().into_iter().map(|name| {
                    let mut cluster = cluster.clone();
                    async move { cluster.ssubscribe(&name).await.map_err(|_| name) }
                });
                // A node that does not answer does not keep others from being heard.
                for name in super::join(each).await.into_iter().filter_map(Result::err) {
                    request(&self.again, Request::Resubscribe(name));
                }
                Ok(())
            }
            (Connection::Given(_), _) => {
                return Err(misconfigured("a connection of the caller's cannot be listened to"));
            }
        }
        .map_err(super::target::connect_error)?;
        if !self.watched.freed.is_empty() {
            let heard = hear_freed(&mut connected.connection, &self.watched.freed, number).await;
            heard.map_err(super::target::connect_error)?;
        }
        Ok(Subscribed { subscription, connected, ended, moves })
    }

    /// Does what is asked until the connection ends. Nothing that is asked waits for another.
    async fn listen(&mut self, subscribed: &mut Subscribed) {
        let Subscribed { subscription, connected, ended, moves } = subscribed;
        let Connected { connection, generation } = connected;
        let links = Arc::clone(&self.links);
        let mut ping_at = tokio::time::Instant::now() + PING_EVERY;
        loop {
            // A master that was replaced publishes nothing, nor does a server that calls have left. Only answers that are
            // kept depend on the latter: watchers poll, and would all look at their records for every connection.
            let keeps_answers = self.watched.freed.keeps_answers();
            let moved = async {
                match keeps_answers {
                    true => moves.next().await,
                    false => pending().await,
                }
            };
            let over = race(ended.notified(), race(links.replaced(*generation), moved));
            let asked = race(self.asked.recv(), tokio::time::sleep_until(ping_at));
            let (mut connection, ended) = (connection.clone(), Arc::clone(ended));
            match race(over, asked).await {
                First::Left(_) | First::Right(First::Left(None)) => return,
                First::Right(First::Left(Some(request))) => {
                    let watched = Arc::clone(&self.watched);
                    let number = subscription.connection();
                    tokio::spawn(async move {
                        if request.perform(&mut connection, number, &watched).await.is_err() {
                            ended.notify_one();
                        }
                    });
                }
                First::Right(First::Right(())) => {
                    ping_at += PING_EVERY;
                    // An instance that answers from its cache sends nothing, and must hear of a new master too. One without
                    // may rest: its attempts are renewed.
                    if self.watched.any() || self.watched.freed.keeps_answers() {
                        self.links.mark_used();
                    }
                    tokio::spawn(async move {
                        if connection.command(redis::cmd("PING")).await.is_err() {
                            ended.notify_one();
                        }
                    });
                }
            }
        }
    }
}

impl Request {
    /// An error if the connection is not to be relied on.
    async fn perform(
        self,
        connection: &mut Connection,
        number: u64,
        watched: &Watched,
    ) -> Result<(), redis::RedisError> {
        if let Self::HearFreed = self {
            return hear_freed(connection, &watched.freed, number).await;
        }
        let Connection::Cluster(cluster) = connection else { return Ok(()) };
        match self {
            Self::Subscribe(name, done) => {
                cluster.ssubscribe(&name).await?;
                if done.send(()).is_err() {
                    // Nobody waited for this before looking at the record.
                    watched.wake(&name);
                }
            }
            Self::Unsubscribe(name) => {
                let _ = cluster.sunsubscribe(&name).await;
            }
            Self::HearFreed => {}
            Self::Resubscribe(name) => {
                cluster.ssubscribe(&name).await?;
                // What ended in between was not heard.
                watched.wake(&name);
            }
        }
        Ok(())
    }
}

/// Hears which records operators free.
///
/// An access list may not allow it, for good: then renewals find out, and no answer is kept in this process. After any other
/// error the connection is not to be relied on, and another one tries again; but not in a cluster, where no answer is kept
/// and watches on other nodes would suffer.
async fn hear_freed(
    connection: &mut Connection,
    freed: &Hearing,
    number: u64,
) -> Result<(), redis::RedisError> {
    let (heard, needs_it) = match connection {
        Connection::Single(single) => (single.connection().subscribe(FREED).await, true),
        Connection::Cluster(cluster) => (cluster.subscribe(FREED).await, false),
        Connection::Given(_) => (Ok(()), false),
    };
    let Err(error) = heard else {
        freed.listens(number);
        return Ok(());
    };
    let is_refused = error.code() == Some("NOPERM");
    if needs_it && !is_refused {
        return Err(error);
    }
    if is_refused && freed.keeps_answers() {
        tracing::warn!(target: "idempotent", %error, "the replay cache is off: this user may not subscribe");
    } else {
        tracing::debug!(target: "idempotent", %error, "freed records are not heard of");
    }
    Ok(())
}

/// Asks the thread, from the thread.
fn request(requests: &mpsc::WeakUnboundedSender<Request>, request: Request) {
    if let Some(requests) = requests.upgrade() {
        let _ = requests.send(request);
    }
}

/// Wakes who waits for what is pushed.
fn hear(
    watched: Arc<Watched>,
    connection: u64,
    ended: Arc<Notify>,
    again: mpsc::WeakUnboundedSender<Request>,
) -> OnPush {
    Arc::new(move |PushInfo { kind, data }| match kind {
        PushKind::Message if data.first().and_then(text) == Some(FREED) => {
            if let Some(key) = data.get(1).and_then(text) {
                watched.freed.freed(key);
            }
        }
        PushKind::Message => {
            if let Some(name) = data.get(1).and_then(text) {
                watched.wake(name);
            }
        }
        PushKind::SMessage => {
            if let Some(name) = data.first().and_then(text) {
                watched.wake(name);
            }
        }
        PushKind::SUnsubscribe => {
            // Also where somebody began to wait while the last one before went.
            if let Some(name) = data.first().and_then(text)
                && watched.has(name)
            {
                request(&again, Request::Resubscribe(name.to_owned()));
            }
        }
        PushKind::Disconnection => {
            watched.freed.lost(connection);
            ended.notify_one();
        }
        _ => {}
    })
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

impl fmt::Debug for Wakes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watched = lock(&self.watched.records).len();
        formatter.debug_struct("Wakes").field("watched", &watched).finish_non_exhaustive()
    }
}
