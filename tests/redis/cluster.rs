//! In a cluster: the contract, keys in every slot, slots that move or that nobody serves, and
//! masters that end.

mod unserved;

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{
    BeginRequest, Begun, IfGone, Progress, StoreExt as _, Update, Updated,
};
use idempotent_runtime::store::{Claim, RedisStore, Store, StoreErrorKind, Token};
use idempotent_runtime::testing::{Ledger, contract, differential};
use idempotent_runtime::{Abandon, Begin, Config, Error, Idempotency, Mode};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::cluster::{Cluster, ClusterSubject, lies_in};
use support::load::{Keys, Load, OPERATION, instance};
use support::redis::{RedisServer, binaries, installed, record_name, until_replicated, until_role};
use support::{OwnError, size, until, until_async};

/// Short, so that a master that went silent is soon given up.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Slots of the first master.
const SLOTS: Range<u16> = 1_000..1_016;

async fn store(cluster: &Cluster) -> RedisStore {
    RedisStore::cluster(cluster.urls()).timeout(TIMEOUT).connect().await.unwrap()
}

/// The machine's server, and every Valkey that the environment names.
fn servers() -> Vec<PathBuf> {
    let mut all = binaries();
    let installed = all.remove(0);
    all.retain(|path| path.to_string_lossy().contains("valkey"));
    all.insert(0, installed);
    all
}

/// Keys whose records lie in [`SLOTS`].
fn keys_that_move(idem: &Idempotency, operation: &'static str, count: usize) -> Vec<String> {
    let move_too = |key: &String| {
        lies_in(SLOTS, &idem.operation(operation).key(key.as_str()).record_key().unwrap())
    };
    (0_u64..).map(|number| number.to_string()).filter(move_too).take(count).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_keeps_the_contract_and_equals_the_table() {
    for binary in servers() {
        let subject = ClusterSubject::start(&binary).await;
        println!("cluster: {} ({})", subject.server_version(), binary.display());
        contract::all(&subject).await;
        differential::check(&subject, 0..size(8, 200) as u64).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_with_braces_are_spread_over_all_masters() {
    let cluster = Cluster::start(&installed()).await;
    let (idem, ledger) = (instance(store(&cluster).await), Ledger::new());
    let keys: Vec<String> = (0..60).map(|number| format!("{{same}}{number}")).collect();
    for key in keys.iter().chain(&keys) {
        let run = async { Ok::<_, Error>(ledger.record(key)) };
        assert_eq!(idem.operation("op").key(key.as_str()).run(run).await.unwrap(), 1);
    }
    let mut records = 0;
    for master in 0..3 {
        let here = cluster.records(master).await;
        assert!((5..=40).contains(&here), "{here} of 60 records on one master");
        records += here;
    }
    assert_eq!(records, 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_told_from_one_of_its_nodes() {
    let cluster = Cluster::start(&installed()).await;
    let error = RedisStore::connect(&cluster.nodes[0].url()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert_eq!(
        error.to_string(),
        "the server is one node of a cluster\nhelp: RedisStore::cluster([url]).connect()"
    );

    // A connection of the caller's own to the whole of it: renewals of many slots go through it.
    let given = cluster.connection().await;
    let store = RedisStore::with_connection(given).connect().await.unwrap();
    let mut held = Vec::new();
    for number in 0..20 {
        let key = RecordKey::from(&*format!("given|{number}"));
        let (lease, linger) = (Duration::from_secs(10), Duration::from_secs(10));
        let claim = Claim::Lease { lease, linger, abandon: Abandon::Retry };
        let token = Token::random();
        let request = BeginRequest { token, fingerprint: None, fence_seed: 1, claim };
        let Begun::Fresh(attempt) = store.begin(&key, &request).await.unwrap() else {
            panic!("{number} is not free");
        };
        let to = Progress::Renewed { lease: Duration::from_secs(60) };
        held.push((key, Update { attempt, to }));
    }
    for (renewed, held) in store.execute_many(held.clone()).await.into_iter().zip(&held) {
        assert_eq!(renewed.unwrap(), Updated::Done);
        let ttl = store.load(&held.0).await.unwrap().unwrap().ttl;
        assert!(ttl > Duration::from_secs(50), "{ttl:?} are left");
    }
}

/// Polls so seldom that only a notification can wake it.
fn listener(store: impl Store) -> Idempotency {
    let config = Config::new()
        .with_mode(Mode::Strong)
        .with_lease(Duration::from_secs(600))
        .with_wait(Duration::from_secs(600))
        .with_retry_interval(Duration::from_secs(300));
    Idempotency::builder().store(store).config(config).build().unwrap()
}

/// Sharded channels are those of single records; what operators free is told to the whole cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_hears_in_a_cluster_that_its_key_was_freed() {
    for binary in servers() {
        let cluster = Cluster::start(&binary).await;
        let holder = listener(store(&cluster).await);
        let operator = listener(store(&cluster).await);
        let Begin::Fresh(held) = holder.operation("op").key("k").begin().await.unwrap() else {
            panic!("the key is not free");
        };
        let waiting = tokio::spawn({
            let holder = holder.clone();
            async move { holder.operation("op").key("k").run(async { Ok::<_, Error>(2) }).await }
        });
        until_async(|| async {
            let mut subscribers = 0;
            for node in &cluster.nodes {
                let mut count = redis::cmd("PUBSUB");
                count.arg("NUMSUB").arg("idempotent:freed");
                let answer: (String, usize) =
                    count.query_async(&mut node.connection().await).await.unwrap();
                subscribers += answer.1;
            }
            subscribers > 0
        })
        .await;
        operator.operation("op").key("k").forget(true).await.unwrap();
        held.lost().await;
        assert_eq!(waiting.await.unwrap().unwrap(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_woken_across_processes_also_when_their_slots_move() {
    let cluster = Cluster::start(&installed()).await;
    let (owner, waiter) = (listener(store(&cluster).await), listener(store(&cluster).await));
    are_woken(&cluster, &owner, &waiter, &["a", "b", "c", "d"], async {}).await;
    let keys = keys_that_move(&owner, "op", 4);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let slots_move = async {
        for slot in SLOTS {
            cluster.move_slot(slot, 0, 1).await;
        }
    };
    are_woken(&cluster, &owner, &waiter, &keys, slots_move).await;
}

fn name(idem: &Idempotency, key: &str) -> String {
    record_name(&idem.operation("op").key(key).record_key().unwrap())
}

/// Waits until a caller waits for a record.
async fn until_marked(cluster: &Cluster, name: &str) {
    let connection = cluster.connection().await;
    until_async(|| {
        let (mut connection, mut mark) = (connection.clone(), redis::cmd("GETRANGE"));
        mark.arg(name).arg(2).arg(2);
        async move { mark.query_async::<Vec<u8>>(&mut connection).await.unwrap() == [1] }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_heard_is_found_when_a_subscription_has_followed_its_slot() {
    let cluster = Cluster::start(&installed()).await;
    let (owner, waiter) = (listener(store(&cluster).await), listener(store(&cluster).await));
    let key = keys_that_move(&owner, "op", 1).remove(0);
    let name = name(&owner, &key);
    let Ok(Begin::Fresh(attempt)) = owner.operation("op").key(&*key).begin().await else {
        panic!("the key is not free");
    };
    let waiting = tokio::spawn(async move {
        let run = async { Err::<u8, _>(OwnError::new("the waiter ran")) };
        waiter.operation("op").key(&*key).run(run).await
    });
    until_marked(&cluster, &name).await;
    // The mark is followed by a look. One that finds the answer would not have to be woken.
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Without its mark the end of the attempt is not published, as if no process were listening.
    let mut unmark = redis::cmd("SETRANGE");
    unmark.arg(&name).arg(2).arg(b"\0");
    let () = unmark.query_async(&mut cluster.connection().await).await.unwrap();
    attempt.complete(&7_u8).await.unwrap();
    for slot in SLOTS {
        cluster.move_slot(slot, 0, 1).await;
    }
    until(|| waiting.is_finished()).await;
    assert_eq!(waiting.await.unwrap().unwrap(), 7);
}

/// The waiter gets the owner's answer to each key, whatever happens while it waits.
async fn are_woken(
    cluster: &Cluster,
    owner: &Idempotency,
    waiter: &Idempotency,
    keys: &[&str],
    meanwhile: impl Future<Output = ()>,
) {
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for key in keys {
        let Ok(Begin::Fresh(attempt)) = owner.operation("op").key(*key).begin().await else {
            panic!("{key} is not free");
        };
        held.push(attempt);
        let (waiter, key) = (waiter.clone(), (*key).to_owned());
        waiting.push(tokio::spawn(async move {
            let run = async { Err::<String, _>(OwnError::new("the waiter ran")) };
            waiter.operation("op").key(key).run(run).await
        }));
    }
    for key in keys {
        until_marked(cluster, &name(owner, key)).await;
    }
    // The mark is followed by a look. One that finds the answer would not have to be woken.
    tokio::time::sleep(Duration::from_millis(100)).await;
    meanwhile.await;
    for (attempt, key) in held.into_iter().zip(keys) {
        attempt.complete(key).await.unwrap();
    }
    let woken = Instant::now();
    for (waiting, key) in waiting.into_iter().zip(keys) {
        assert_eq!(waiting.await.unwrap().unwrap(), *key);
    }
    // Far below the first poll, which comes after 150 s at the earliest.
    assert!(woken.elapsed() < Duration::from_secs(60), "nobody was woken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_change_neither_answers_nor_times() {
    let cluster = Cluster::start(&installed()).await;
    let instances = vec![instance(store(&cluster).await), instance(store(&cluster).await)];
    let one = instances[0].clone();
    let keys = keys_that_move(&one, OPERATION, size(150, 1_500));
    let load = Load::start(instances, Keys::These(keys.clone()));
    load.until_answered(40).await;
    let before = load.answered();
    // Round and round, for as long as there is something to call.
    let mut owner = 0;
    while load.is_calling() {
        let next = (owner + 1) % 3;
        for slot in SLOTS {
            cluster.move_slot(slot, owner, next).await;
        }
        owner = next;
    }
    assert!(load.answered() > before + 100, "little was called while slots moved");
    let finished = load.finish_all().await;
    println!("{} answers, refused: {:?}", finished.answered(), finished.refused());
    finished.check(1).await;
    assert_eq!(finished.bodies(), (keys.len(), keys.len()));

    let expire = one.config().expire;
    for key in &keys {
        let record = one.operation(OPERATION).key(key.as_str()).get().await.unwrap().unwrap();
        assert!(record.ttl <= expire, "{key} lives for {:?}", record.ttl);
        assert!(record.ttl > expire - Duration::from_secs(100), "{key} lives for {:?}", record.ttl);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_renewed_while_their_slots_move() {
    const LENGTH: Duration = Duration::from_secs(60);
    let cluster = Cluster::start(&installed()).await;
    let store = store(&cluster).await;
    let keys = (0..).map(|number: u32| RecordKey::from(&*format!("renewed|{number}")));
    let (mut held, mut lease) = (Vec::new(), LENGTH);
    for key in keys.filter(|key| lies_in(SLOTS, key)).take(8) {
        let claim = Claim::Lease { lease: LENGTH, linger: LENGTH, abandon: Abandon::Retry };
        let token = Token::random();
        let request = BeginRequest { token, fingerprint: None, fence_seed: 1, claim };
        let Begun::Fresh(attempt) = store.begin(&key, &request).await.unwrap() else {
            panic!("{key:?} is not free");
        };
        held.push((key, Update { attempt, to: Progress::Renewed { lease } }));
    }
    let slots_move = async {
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            for slot in SLOTS {
                cluster.move_slot(slot, from, to).await;
            }
        }
    };
    let mut slots_move = std::pin::pin!(slots_move);
    let mut renewals = 0;
    // Each lease is a little longer than the one before, so that each renewal writes.
    loop {
        lease += Duration::from_millis(1);
        for (_, update) in &mut held {
            update.to = Progress::Renewed { lease };
        }
        let renewed = store.execute_many(held.clone());
        let moved = tokio::select! {
            biased;
            () = &mut slots_move => true,
            answers = renewed => {
                for answer in answers {
                    assert_eq!(answer.unwrap(), Updated::Done);
                }
                renewals += 1;
                false
            }
        };
        if moved {
            break;
        }
    }
    assert!(renewals > 10, "{renewals} renewals while slots moved");
    for (key, Update { attempt, .. }) in held {
        let ttl = store.load(&key).await.unwrap().unwrap().ttl;
        assert!(ttl > lease + LENGTH - Duration::from_secs(30), "{ttl:?} are left");
        store.complete(&key, &attempt, None, LENGTH, IfGone::Rewrite).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_on_after_a_master_is_killed() {
    let mut cluster = Cluster::start(&installed()).await;
    let (mut master, mut replica) = (0, 3);
    for _ in 0..size(1, 10) {
        let instances = vec![instance(store(&cluster).await), instance(store(&cluster).await)];
        let load = Load::start(instances, Keys::Endless);
        load.until_answered(200).await;
        cluster.nodes[master].kill();
        cluster.until_promoted(replica).await;
        load.until_answered(400).await;
        let finished = load.finish().await;
        println!("{} answers, refused: {:?}", finished.answered(), finished.refused());
        finished.check(2).await;

        cluster.nodes[master].restart();
        until_role(&cluster.nodes[master], "slave").await;
        until_replicated(&cluster.nodes[replica], 1).await;
        (master, replica) = (replica, master);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_falls_silent_does_not_hold_up_the_others() {
    let cluster = Cluster::start(&installed()).await;
    let instances = vec![instance(store(&cluster).await), instance(store(&cluster).await)];
    // Nobody takes its place until that is allowed, and the others serve what they have.
    for node in &cluster.nodes {
        configure(node, "cluster-require-full-coverage", "no").await;
    }
    configure(&cluster.nodes[3], "cluster-replica-no-failover", "yes").await;
    let elsewhere = |key: &String| {
        let operation = instances[0].operation(OPERATION).key(key.as_str());
        lies_in(6_000..16_384, &operation.record_key().unwrap())
    };
    let keys = (0..).map(|number: u32| format!("elsewhere-{number}")).filter(elsewhere);
    let others = Load::start(instances.clone(), Keys::These(keys.take(5_000).collect()));
    let all = Load::start(instances, Keys::Endless);
    all.until_answered(100).await;
    cluster.nodes[0].pause();
    // Long enough for callers to give its answers up, and for connections to be replaced.
    let silent = Instant::now();
    let (mut answered, mut since, mut longest) = (others.answered(), silent, Duration::ZERO);
    until(|| {
        if others.answered() > answered {
            (answered, since) = (others.answered(), Instant::now());
        }
        longest = longest.max(since.elapsed());
        silent.elapsed() > 4 * TIMEOUT
    })
    .await;
    // Connecting takes two timeouts while it is silent: one by its address, one by its slots.
    println!("others were held up for {longest:?} at most");
    assert!(longest < 3 * TIMEOUT / 2, "others were held up for {longest:?}");

    configure(&cluster.nodes[3], "cluster-replica-no-failover", "no").await;
    cluster.until_promoted(3).await;
    all.until_answered(200).await;
    cluster.nodes[0].go_on();
    all.until_answered(100).await;
    for load in [all, others] {
        let finished = load.finish().await;
        println!("{} answers, refused: {:?}", finished.answered(), finished.refused());
        finished.check(2).await;
    }
}

async fn configure(node: &RedisServer, setting: &str, value: &str) {
    let mut connection = node.connection().await;
    let mut command = redis::cmd("CONFIG");
    let () = command.arg("SET").arg(setting).arg(value).query_async(&mut connection).await.unwrap();
}
