//! Notifications: callers that wait are woken when the attempt that they wait for ends.
//!
//! A waiter marks the record; the caller that ends its attempt sees the mark and notifies, in a statement
//! of its own after the record is written: transactions that notify commit one after the other, so
//! calls without waiters never do. One connection listens for all waiters of a store.
//!
//! Nothing depends on a notification. Waiters poll slowly beneath it, and if the listening
//! connection is lost all of them look once. The next waiter listens again; a store that is to tell of
//! keys that operators free does so by itself.

use super::{Inner, lock};
use crate::client::{Param, PostgresClient};
use crate::columns::KeyColumns;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{FreedEvent, FreedListener, StoreError, Watch};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;

/// The time within which a new listener hears its own notification, unless a pooler keeps it away.
const HEARS_ITSELF: Duration = Duration::from_secs(2);
/// The time after a failure for which waiters poll, before one of them tries to listen again.
const LISTENS_AGAIN: Duration = Duration::from_secs(1);
/// The longest pause between two tries to listen for keys that operators free.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest payload of a notification is 7,999 bytes.
const LONGEST_PAYLOAD: usize = 7_900;
const FREED: &str = "freed ";
const ENDED: &str = "ended ";
const HELLO: &str = "hello ";

#[derive(Clone)]
pub(super) struct Wakes(Arc<Shared>);

struct Shared {
    channel: String,
    waiting: Mutex<Waiting>,
    /// Held while a listener is started, so that one is started at a time. The last failure.
    starting: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Waiting {
    /// Watchers by the number of their key.
    watches: HashMap<i64, Weak<Notify>>,
    told: Vec<FreedListener>,
    listener: Option<Listener>,
    /// Listens for keys that operators free, until it does.
    again: Option<JoinHandle<()>>,
}

impl Waiting {
    /// `false` also if the runtime of the connection has ended, which nobody is told.
    fn is_heard(&self) -> bool {
        self.listener.as_ref().is_some_and(|listener| !listener.client.client.is_closed())
    }
}

/// A connection that listens.
struct Listener {
    /// Its own, to tell it from one that came later.
    hello: String,
    client: PostgresClient,
}

impl Wakes {
    pub(super) fn new(table: &str) -> Self {
        let channel =
            format!("idempotent_{:016x}", KeyColumns::of(&RecordKey::from("")).lock(table));
        let (waiting, starting) = (Mutex::default(), tokio::sync::Mutex::default());
        Self(Arc::new(Shared { channel, waiting, starting }))
    }

    pub(super) fn on_freed(&self, inner: &Arc<Inner>, listener: FreedListener) {
        let mut waiting = lock(&self.0.waiting);
        waiting.told.retain(|listener| !listener.is_over());
        waiting.told.push(listener);
        waiting.listen_for_freed(inner);
    }

    /// Tells all processes, without waiting for it.
    pub(super) fn announce(&self, inner: &Arc<Inner>, message: String) {
        // In this process at once.
        self.0.hear(&message);
        if let Ok(runtime) = Handle::try_current() {
            let inner = Arc::clone(inner);
            runtime.spawn(async move {
                let _ = inner.wakes.send(&inner, &message).await;
            });
        }
    }

    /// Wakes the watchers of a key in this process.
    pub(super) fn wake_here(&self, key: &KeyColumns<'_>, table: &str) {
        if !lock(&self.0.waiting).watches.is_empty() {
            self.0.wake(key.lock(table));
        }
    }

    pub(super) async fn send(&self, inner: &Inner, message: &str) -> Result<(), StoreError> {
        let params = [Param::from(&*self.0.channel), Param::from(message)];
        let sent = inner.query("SELECT pg_notify($1, $2)::text", &params).await;
        sent.map(drop).inspect_err(|error| {
            tracing::debug!(target: "idempotent", %error, "waiters are not notified, and poll");
        })
    }

    /// Makes sure that a connection listens. `false` if notifications do not arrive here.
    async fn listen(&self, inner: &Arc<Inner>) -> Result<bool, StoreError> {
        let mut failed = self.0.starting.lock().await;
        if inner.is_pooled() || failed.is_some_and(|at| at.elapsed() < LISTENS_AGAIN) {
            return Ok(false);
        }
        if lock(&self.0.waiting).is_heard() {
            return Ok(true);
        }
        let listens = self.start_to_listen(inner).await;
        *failed = match listens {
            Ok(true) => None,
            Ok(false) | Err(_) => Some(Instant::now()),
        };
        listens
    }

    async fn start_to_listen(&self, inner: &Arc<Inner>) -> Result<bool, StoreError> {
        let heard_hello = Arc::new(Notify::new());
        let hello = format!("{HELLO}{:016x}", rand_number());
        let heard = {
            let (inner, hello, heard_hello) =
                (Arc::downgrade(inner), hello.clone(), Arc::clone(&heard_hello));
            move |message: Option<AsyncMessage>| {
                let Some(inner) = inner.upgrade() else { return };
                let shared = &inner.wakes.0;
                match message {
                    Some(AsyncMessage::Notification(message)) if message.payload() == hello => {
                        heard_hello.notify_one();
                    }
                    Some(AsyncMessage::Notification(message)) => shared.hear(message.payload()),
                    Some(_) => {}
                    None => shared.lost(&inner, &hello),
                }
            }
        };
        let client = inner.pool.connect(heard).await?;
        match self.hears(inner, &client, &hello, &heard_hello).await {
            Ok(true) => {
                lock(&self.0.waiting).listener = Some(Listener { hello, client });
                Ok(true)
            }
            other => {
                client.close();
                other
            }
        }
    }

    /// `true` if a new connection hears what others send.
    async fn hears(
        &self,
        inner: &Inner,
        client: &PostgresClient,
        hello: &str,
        heard: &Notify,
    ) -> Result<bool, StoreError> {
        if inner.pool.is_bare() {
            inner.found_pooler("it does not take settings");
            return Ok(false);
        }
        let patience = inner.pool.timeout();
        let ask = async |statement: &str| {
            let asked = client.client.batch_execute(statement);
            matches!(tokio::time::timeout(patience, asked).await, Ok(Ok(())))
        };
        if !ask(&format!("LISTEN {}", self.0.channel)).await {
            return Ok(false);
        }
        // On another connection: a pooler would show the answer to a message of the same one.
        self.send(inner, hello).await?;
        if tokio::time::timeout(HEARS_ITSELF, heard.notified()).await.is_err() {
            // A server that answers has delivered what it had before.
            if ask("").await {
                inner.found_pooler("notifications do not arrive");
            }
            return Ok(false);
        }
        Ok(true)
    }
}

impl Waiting {
    /// `true` if the task that listens is done. A connection that is lost from here on starts another
    /// one, so this is decided under the lock.
    fn has_listened(&mut self, inner: &Inner) -> bool {
        let is_done = self.is_heard() || inner.is_pooled();
        if is_done {
            self.again = None;
        }
        is_done
    }

    /// Listens, in a task that tries until it does, if anybody is to be told of keys that operators
    /// free.
    fn listen_for_freed(&mut self, inner: &Arc<Inner>) {
        let is_trying = self.again.as_ref().is_some_and(|again| !again.is_finished());
        let Ok(runtime) = Handle::try_current() else { return };
        if self.told.iter().all(FreedListener::is_over) || is_trying {
            return;
        }
        let inner = Arc::downgrade(inner);
        self.again = Some(runtime.spawn(async move {
            let mut pause = LISTENS_AGAIN;
            // It ends with the store.
            while let Some(inner) = inner.upgrade() {
                let _ = inner.wakes.listen(&inner).await;
                if lock(&inner.wakes.0.waiting).has_listened(&inner) {
                    return;
                }
                drop(inner);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }));
    }
}

/// Watches a record: marks it, so that its end is notified. Behind a pooler only callers of this
/// process wake it.
pub(super) async fn watch(inner: &Arc<Inner>, key: &RecordKey) -> Result<Watch, StoreError> {
    let listens = inner.wakes.listen(inner).await?;
    let key = KeyColumns::of(key);
    let notify = inner.wakes.0.notify(key.lock(&inner.table.quoted));
    let mut notified = Box::pin(Arc::clone(&notify).notified_owned());
    notified.as_mut().enable();
    if listens {
        inner.query(&inner.statements.watch, &[(&*key.name).into()]).await?;
    }
    Ok(Watch::new(async move {
        notified.await;
        drop(notify);
    }))
}

/// The message that an attempt has ended.
pub(super) fn ended(key: &KeyColumns<'_>, table: &str) -> String {
    format!("{ENDED}{}", key.lock(table))
}

/// The message that an operator freed a key; `None` if the key is too long for it.
pub(super) fn freed(key: &RecordKey) -> Option<String> {
    let is_sendable = key.as_str().len() <= LONGEST_PAYLOAD && !key.as_str().contains('\0');
    is_sendable.then(|| format!("{FREED}{}", key.as_str()))
}

impl Shared {
    fn notify(&self, key: i64) -> Arc<Notify> {
        let mut waiting = lock(&self.waiting);
        if let Some(notify) = waiting.watches.get(&key).and_then(Weak::upgrade) {
            return notify;
        }
        if waiting.watches.len() >= 64 && waiting.watches.len().is_power_of_two() {
            waiting.watches.retain(|_, notify| notify.strong_count() > 0);
        }
        let notify = Arc::new(Notify::new());
        waiting.watches.insert(key, Arc::downgrade(&notify));
        notify
    }

    fn hear(&self, message: &str) {
        if let Some(number) = message.strip_prefix(ENDED).and_then(|it| it.parse().ok()) {
            self.wake(number);
        } else if let Some(key) = message.strip_prefix(FREED) {
            let told = lock(&self.waiting).told.clone();
            for listener in told {
                listener.tell(FreedEvent::Freed(key));
            }
        }
    }

    fn wake(&self, key: i64) {
        let notify = lock(&self.waiting).watches.remove(&key);
        if let Some(notify) = notify.and_then(|notify| notify.upgrade()) {
            notify.notify_waiters();
        }
    }

    /// The connection with this hello is lost: what was sent meanwhile was not heard.
    fn lost(&self, inner: &Arc<Inner>, hello: &str) {
        let mut waiting = lock(&self.waiting);
        if waiting.listener.as_ref().is_some_and(|listener| listener.hello == hello) {
            waiting.listener = None;
        }
        waiting.listen_for_freed(inner);
        let watches = std::mem::take(&mut waiting.watches);
        drop(waiting);
        for notify in watches.into_values().filter_map(|notify| notify.upgrade()) {
            notify.notify_waiters();
        }
    }
}

impl fmt::Debug for Wakes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Wakes").field("channel", &self.0.channel).finish_non_exhaustive()
    }
}

/// A number that another process is unlikely to have.
fn rand_number() -> u64 {
    let token = idempotent_runtime::store::Token::random().to_bytes();
    let (half, _) = token.split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_be_bytes(*half)
}
