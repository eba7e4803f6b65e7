//! Slots that a cluster does not serve: errors that only a cluster answers with, as it words them.

use super::{SLOTS, configure, keys_that_move, store};
use idempotent_runtime::store::Effect;
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{BodyRun, EffectOutcome, Error, ErrorKind, Idempotency};
use support::cluster::{Cluster, lies_in, owner_of};
use support::load::instance;
use support::redis::installed;
use support::until_async;

const OPERATION: &str = "op";

/// An instance on a cluster, and the bodies that ran.
struct Calls {
    idem: Idempotency,
    ledger: Ledger,
}

impl Calls {
    async fn run(&self, key: &str) -> Result<usize, Error> {
        let body = async { Ok(self.ledger.record(key)) };
        self.idem.operation(OPERATION).key(key).run(body).await
    }

    /// Calls until the error is the one that the table in `docs/redis.md` has for the cluster.
    /// Every error before it says as well that no body ran.
    async fn until_refused(&self, key: &str) {
        let before = self.ledger.ran(key);
        until_async(|| async {
            let Err(error) = self.run(key).await else { panic!("{key} is served") };
            let told = (error.kind(), error.body());
            assert_eq!(told, (ErrorKind::StoreUnavailable, BodyRun::DidNotRun), "{error}");
            let text = error.to_string();
            text.contains("CLUSTERDOWN") && text.ends_with("help: CLUSTER INFO")
        })
        .await;
        assert_eq!(self.ledger.ran(key), before, "the body of {key} ran");
    }
}

fn slot_of(idem: &Idempotency, key: &str) -> u16 {
    let key = idem.operation(OPERATION).key(key).record_key().unwrap();
    SLOTS.into_iter().find(|&slot| lies_in(slot..slot + 1, &key)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_nobody_serves_is_named_and_calls_go_on_when_it_is_back() {
    // Without full coverage only the slot is out of service; with it, all slots of its master.
    for coverage in ["no", "yes"] {
        let cluster = Cluster::start(&installed()).await;
        for node in &cluster.nodes {
            configure(node, "cluster-require-full-coverage", coverage).await;
        }
        let calls = Calls { idem: instance(store(&cluster).await), ledger: Ledger::new() };
        let mut keys = keys_that_move(&calls.idem, OPERATION, 120).into_iter();
        let done = keys.next().unwrap();
        assert_eq!(calls.run(&done).await.unwrap(), 1);
        let slot = slot_of(&calls.idem, &done);
        let (beside, elsewhere): (Vec<_>, Vec<_>) =
            keys.partition(|key| slot_of(&calls.idem, key) == slot);
        let (new, other) = (&beside[0], &elsewhere[0]);

        cluster.unassign(slot).await;
        calls.until_refused(new).await;
        // A record is not read from a slot that is not served.
        calls.until_refused(&done).await;
        match coverage {
            "no" => assert_eq!(calls.run(other).await.unwrap(), 1, "another slot of the master"),
            _ => calls.until_refused(other).await,
        }

        cluster.assign(slot).await;
        for key in [new, other, &done] {
            until_async(|| async { calls.run(key).await.is_ok() }).await;
            assert_eq!((calls.run(key).await.unwrap(), calls.ledger.ran(key)), (1, 1), "{key}");
        }
    }
}

const DEDUCT: &str = "return redis.call('DECRBY', KEYS[1], ARGV[1])";
const STOCK: &str = "stock:{lamp}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_whose_keys_are_on_two_masters_is_refused_until_their_slot_has_moved() {
    let cluster = Cluster::start(&installed()).await;
    let store = store(&cluster).await;
    let idem = instance(store.clone());
    let order = |id: u32| idem.operation("stock.deduct").key(id).hash_tag("lamp");
    let deduct = async |id: u32| {
        let effect = Effect::new(DEDUCT).key(STOCK).arg(3);
        let outcome: Result<EffectOutcome<i64>, Error> =
            order(id).run_effect(&store, &effect).await;
        outcome.map(|outcome| match outcome {
            EffectOutcome::Applied(outcome) => (outcome.value, outcome.replayed),
            other => panic!("{other:?}"),
        })
    };
    let mut connection = cluster.connection().await;
    let () = redis::cmd("SET").arg(STOCK).arg(10).query_async(&mut connection).await.unwrap();
    assert_eq!(deduct(1).await.unwrap(), (7, false));

    let slot = cluster.slot_of(STOCK).await;
    let (from, to) = (owner_of(slot), (owner_of(slot) + 1) % 3);
    // The stock has not moved, and a record that is new belongs to the target.
    cluster.begin_move(slot, from, to).await;
    until_async(|| async {
        let error = deduct(2).await.unwrap_err();
        // The client may have sent it before, which is why nothing is said for sure.
        let told = (error.kind(), error.body());
        assert_eq!(told, (ErrorKind::StoreUnavailable, BodyRun::Unknown), "{error}");
        error.to_string().contains("TRYAGAIN")
    })
    .await;
    assert_eq!(deduct(1).await.unwrap(), (7, true), "a record beside the stock is replayed");

    cluster.end_move(slot, from, to).await;
    assert_eq!(deduct(2).await.unwrap(), (4, false));
    assert_eq!(deduct(2).await.unwrap(), (4, true));
    let left: i64 = redis::cmd("GET").arg(STOCK).query_async(&mut connection).await.unwrap();
    assert_eq!(left, 4);
}
