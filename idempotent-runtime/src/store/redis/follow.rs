//! Follows the sentinels while a store is used, so that it leaves a master as soon as one of them
//! names another.
//!
//! A master that is replaced goes on taking writes until the sentinels have told it, which takes
//! them up to ten seconds and more. Its grants during that time are lost. So the store does not
//! wait for a refusal: it listens to every sentinel, asks each once a second beneath that, and ends
//! all its connections when the master changes.
//!
//! This happens on a thread of its own: a runtime that is blocked or not driven would learn of the
//! change too late. The thread ends with the store. It also ends when the store has not been used
//! for [`IDLE`], and then ends all connections, so that none is used while no sentinel is followed.
//! The next command makes another connection and starts the thread again.

use super::links::Links;
use super::sentinel::Sentinel;
use super::target::{OnPush, Timeouts, single};
use crate::race::{First, race};
use crate::sync::{Notify, run_on_thread};
use redis::PushKind;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// Interval at which a sentinel that says nothing is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Time for which a store is followed after its last command.
const IDLE: Duration = Duration::from_secs(20);

/// Channels of the events with which sentinels name another master: the one that leads a failover
/// publishes the first as soon as it does, the others the second.
const CHANNELS: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// The thread that follows the sentinels. It ends with this value.
#[derive(Debug)]
pub(super) struct Follower {
    _end: oneshot::Sender<()>,
}

impl Follower {
    pub(super) fn start(links: &Arc<Links>, sentinel: &Sentinel) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let follow = follow(Arc::downgrade(links), sentinel.clone(), ended);
        run_on_thread("idempotent-sentinel", runtime, follow)?;
        Ok(Self { _end: end })
    }
}

async fn follow(links: Weak<Links>, sentinel: Sentinel, mut ended: oneshot::Receiver<()>) {
    let Some(timeouts) = links.upgrade().map(|links| links.timeouts()) else { return };
    // Each by itself: one that is silent does not keep the others from being heard. They end with
    // the runtime.
    for index in 0..sentinel.sentinels.len() {
        let sentinel = sentinel.clone();
        tokio::spawn(async move {
            loop {
                listen(&sentinel, index, timeouts).await;
                sleep(ASK_EVERY).await;
            }
        });
    }
    let mut used = Instant::now();
    loop {
        // Before the connections are looked through: one of a later generation is made afterwards.
        let generation = sentinel.master.generation();
        match links.upgrade() {
            Some(links) => links.drop_replaced(),
            None => return,
        }
        let happened = race(sentinel.master.replaced(generation), sleep(ASK_EVERY));
        let First::Right(happened) = race(&mut ended, happened).await else { return };
        let Some(links) = links.upgrade() else { return };
        if links.was_used() {
            used = Instant::now();
        } else if matches!(happened, First::Right(())) && used.elapsed() >= IDLE && links.rest() {
            return;
        }
    }
}

/// Listens to one sentinel, and asks it, until it does not answer.
async fn listen(sentinel: &Sentinel, index: usize, timeouts: Timeouts) {
    let said = Arc::new(Notify::new());
    let client = &sentinel.sentinels[index];
    let Ok(mut asked) = single(client, timeouts, hear(&said)).await else { return };
    // One that may not be listened to is asked all the same.
    let _ = asked.subscribe(&CHANNELS[..]).await;
    while sentinel.look(&mut asked).await.is_ok() {
        race(said.notified(), sleep(ASK_EVERY)).await;
    }
}

/// Has a sentinel asked when it says something, or goes.
fn hear(said: &Arc<Notify>) -> OnPush {
    let said = Arc::clone(said);
    Arc::new(move |info| {
        if matches!(info.kind, PushKind::Message | PushKind::Disconnection) {
            said.notify_one();
        }
    })
}
