//! Many clients of two processes on one Redis: keys repeated at random, clients that go away,
//! handlers that panic. Each key runs once, and nothing is left behind.
#![allow(clippy::print_stdout)]

use crate::processes::{Order, Said, Scene};
use idempotent_runtime::Abandon;
use rand::RngExt as _;
use rand::rngs::ThreadRng;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::history::{Counts, History, Rules};
use support::http::{Connection, PANIC, Service, State, VALUE};
use support::journal::{Event, Step, What, now};
use support::{size, until_async};
use tokio::task::JoinSet;
use tokio::time::timeout;

const CLIENTS: usize = 200;
/// Long enough for a machine that does other things as well: no lease is lost here.
const LEASE: u64 = 60_000;
/// One new key comes in with so many calls.
const CALLS_PER_KEY: u64 = 5;
/// Keys that are called while others of the same kind are under way.
const HOT: u64 = 25;
/// Keys that are called at all.
const KNOWN: u64 = 2_000;
/// How much the memory of a process may grow after it is warm.
const GROWTH: u64 = 512 << 10;
/// The same for what the operating system counts, where it is not given back at once.
const RESIDENT_GROWTH: u64 = 16 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_each_key_runs_once_and_nothing_is_left_behind() {
    let mut scene = Scene::new(2, LEASE);
    let started = Instant::now();
    let idle = states(&scene.services).await;
    let calls = Arc::new(AtomicU64::new(0));
    let mut events = load(&scene, &calls, size(3_000, 20_000)).await;
    let warm = at_rest(&scene.services, &idle).await;
    let loaded = Instant::now();
    let more = size(7_000, 180_000);
    events.extend(load(&scene, &calls, more).await);
    let rate = more as f64 / loaded.elapsed().as_secs_f64();
    let end = at_rest(&scene.services, &idle).await;
    let written = scene.read();
    let executions = check_executions(&written);
    events.extend(written);

    let rules = Rules::new(Abandon::Retry, Duration::from_millis(LEASE));
    let mut history = History::new(rules);
    history.add(events);
    let report = history.check_all();
    println!("{CLIENTS} clients, {} s, {rate:.0} requests a second", started.elapsed().as_secs());
    show(&report.counts, &executions);
    for (process, (warm, end)) in warm.iter().zip(&end).enumerate() {
        println!("process {} warm {warm:?}", process + 1);
        println!("process {} end  {end:?}", process + 1);
    }
    report.assert_kept();
    made_progress(&report.counts, &executions);
    for (warm, end) in warm.iter().zip(&end) {
        assert!(end.allocated < warm.allocated + GROWTH, "{warm:?} became {end:?}");
        assert!(end.resident < warm.resident + RESIDENT_GROWTH, "{warm:?} became {end:?}");
    }
}

/// Lets all clients send so many requests, and returns what they saw.
async fn load(scene: &Scene, calls: &Arc<AtomicU64>, requests: usize) -> Vec<Event> {
    let last = calls.load(Relaxed) + requests as u64;
    let addresses: Vec<_> =
        scene.services.iter().map(|it| (it.worker.process(), it.address)).collect();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let client = Client::new(addresses.clone());
        clients.spawn(client.run(Arc::clone(calls), last));
    }
    let events = clients.join_all().await.concat();
    calls.store(last, Relaxed);
    events
}

/// What a client does with one of its requests.
enum Patience {
    Unlimited,
    /// It goes away after this long.
    Leaves(Duration),
    /// It goes away before the request is sent whole.
    SendsHalf,
}

fn draw(call: u64, rng: &mut ThreadRng) -> (Order, Patience) {
    let spread = if rng.random() { HOT } else { KNOWN };
    let key = call / CALLS_PER_KEY + KNOWN - rng.random_range(0..spread);
    let takes = if rng.random_ratio(1, 4) { rng.random_range(1..=30) } else { 0 };
    let ends = if rng.random_ratio(1, 20) { PANIC } else { VALUE };
    let patience = match rng.random_range(0..100) {
        0 => Patience::SendsHalf,
        1..=6 => Patience::Leaves(Duration::from_micros(rng.random_range(0..20_000))),
        _ => Patience::Unlimited,
    };
    (Order { key: format!("order-{key}"), call, takes, ends }, patience)
}

/// One client with a connection to each process.
struct Client {
    processes: Vec<(u32, SocketAddr, Option<Connection>)>,
    seen: Vec<Event>,
}

impl Client {
    fn new(processes: Vec<(u32, SocketAddr)>) -> Self {
        let unconnected = |(process, address)| (process, address, None);
        Self { processes: processes.into_iter().map(unconnected).collect(), seen: Vec::new() }
    }

    async fn run(mut self, calls: Arc<AtomicU64>, last: u64) -> Vec<Event> {
        loop {
            let call = calls.fetch_add(1, Relaxed);
            if call >= last {
                return self.seen;
            }
            let (order, patience) = draw(call, &mut rand::rng());
            self.call(&order, patience).await;
        }
    }

    async fn call(&mut self, order: &Order, patience: Patience) {
        let which = rand::rng().random_range(0..self.processes.len());
        let (process, address, connection) = &mut self.processes[which];
        let mut open = match connection.take() {
            Some(open) => open,
            None => Connection::open(*address).await.unwrap(),
        };
        let note = |step| {
            let what = What::Of { key: order.key.clone(), call: order.call, step };
            Event { at: now(), process: *process, what }
        };
        self.seen.push(note(Step::Call));
        let reply = match patience {
            Patience::Unlimited => Some(order.send(&mut open).await),
            Patience::Leaves(after) => timeout(after, order.send(&mut open)).await.ok(),
            Patience::SendsHalf => {
                let bytes = order.bytes();
                open.write(&bytes[..bytes.len() - 3]).await.unwrap();
                None
            }
        };
        let Some(reply) = reply else {
            self.seen.push(note(Step::Gone));
            return;
        };
        let said = Said::by(&reply.expect("a service answers"));
        assert!(said != Said::Failed || order.ends == PANIC, "{order:?} was not to fail");
        self.seen.push(note(said.step()));
        *connection = Some(open);
    }
}

/// No two executions of a key at once, none after one that was done, and each came to its end. The
/// checker of histories excuses a second one when a client has gone; here there must be none.
fn check_executions(written: &[Event]) -> Executions {
    let mut written: Vec<&Event> = written.iter().collect();
    written.sort_by_key(|event| event.at);
    let (mut last, mut executions) = (HashMap::new(), Executions::default());
    for Event { what, .. } in written {
        let What::Of { key, call, step } = what else { continue };
        let before = last.insert(key, (call, step));
        let runs = matches!(before, Some((begun, Step::Start { .. })) if begun == call);
        let is_allowed = match step {
            Step::Start { .. } => matches!(before, None | Some((_, Step::Fail { .. }))),
            Step::Fail { .. } | Step::End { .. } => runs,
            _ => false,
        };
        assert!(is_allowed, "{key}: {step:?} after {before:?}");
        executions.done += usize::from(matches!(step, Step::End { .. }));
        executions.panicked += usize::from(matches!(step, Step::Fail { .. }));
    }
    for (key, (_, step)) in last {
        assert!(!matches!(step, Step::Start { .. }), "{key} never ended");
    }
    executions
}

#[derive(Default)]
struct Executions {
    done: usize,
    panicked: usize,
}

async fn states(services: &[Service]) -> Vec<State> {
    let mut states = Vec::new();
    for service in services {
        states.push(service.state().await);
    }
    states
}

/// Waits until nothing runs that did not run before the load.
async fn at_rest(services: &[Service], idle: &[State]) -> Vec<State> {
    for (service, idle) in services.iter().zip(idle) {
        until_async(async || {
            let state = service.state().await;
            state.in_flight == 0 && state.tasks <= idle.tasks
        })
        .await;
    }
    states(services).await
}

fn show(counts: &Counts, executions: &Executions) {
    let Executions { done, panicked } = executions;
    println!("requests      {}", counts.calls);
    println!("keys          {}, {} with an answer", counts.keys, counts.succeeded);
    println!("executions    {done} done, {panicked} panicked");
    println!("replays       {}", counts.replays);
    println!("in progress   {}", counts.refusals["InProgress"]);
    println!("panics seen   {}", counts.own_errors);
    println!("disconnects   {}", counts.gone);
}

fn made_progress(counts: &Counts, executions: &Executions) {
    let share = |percent: usize| counts.calls * percent / 100;
    assert!(executions.done > share(10), "{} executions", executions.done);
    assert!(executions.panicked > share(1) / 2, "{} panics", executions.panicked);
    assert!(counts.replays > share(10), "{counts:?}");
    assert!(counts.refusals["InProgress"] > share(1) / 2, "{counts:?}");
    assert!(counts.gone > share(2), "{counts:?}");
}
