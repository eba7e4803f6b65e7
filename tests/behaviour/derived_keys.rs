//! Derived keys for requests to other services.

use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Begin, Error, Idempotency, Mode, current, idempotent};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use support::{Bench, OwnError, both, local, neighbour, remote};

/// The keys that bodies derived, in their order.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<String>>>);

impl Sent {
    fn send(&self, name: &str) {
        let key = current().expect("a body runs for an attempt").derived_key(name);
        self.0.lock().unwrap().push(key);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[idempotent(key = "order", mode = "strong", name = "derived-keys.pay")]
async fn pay(order: &str, sent: &Sent, fails: bool) -> Result<u32, OwnError> {
    sent.send("stripe.charge");
    sent.send("ship");
    if fails { Err(OwnError::new("the network broke")) } else { Ok(current().unwrap().attempt()) }
}

#[idempotent(mode = "strong", name = "derived-keys.pay-ambient")]
async fn pay_ambient(sent: &Sent) -> Result<(), Error> {
    sent.send("stripe.charge");
    Ok(())
}

#[tokio::test]
async fn every_attempt_in_every_process_derives_the_same_key() {
    let first = remote();
    let second = neighbour(&first);
    let sent = Sent::default();
    scoped(first.idem.clone(), pay("o-1", &sent, true)).await.unwrap_err();
    scoped(first.idem.clone(), pay("o-1", &sent, true)).await.unwrap_err();
    assert_eq!(scoped(second.idem.clone(), pay("o-1", &sent, false)).await.unwrap(), 3);
    // And after the record is gone.
    first.clock.advance(std::time::Duration::from_secs(3600 * 24 * 30));
    assert_eq!(scoped(second.idem.clone(), pay("o-1", &sent, false)).await.unwrap(), 1);
    let sent = sent.all();
    assert_eq!(sent.len(), 8);
    assert_ne!(sent[0], sent[1], "other names, other keys");
    assert!(sent.chunks(2).all(|attempt| attempt == &sent[..2]), "{sent:?}");
}

/// The key that a body of this operation derives.
async fn derived(idem: &Idempotency, name: &'static str, key: &str, scope: Option<&str>) -> String {
    let mut operation = idem.operation(name).key(key).mode(Mode::Reject);
    if let Some(scope) = scope {
        operation = operation.scope(scope);
    }
    let body = async { Ok::<_, Error>(current().unwrap().derived_key("charge")) };
    operation.run(body).await.unwrap()
}

#[tokio::test]
async fn no_two_operations_scopes_keys_or_names_share_a_key() {
    for Bench { idem, .. } in both() {
        let mut all = vec![
            derived(&idem, "a", "1", None).await,
            derived(&idem, "b", "1", None).await,
            derived(&idem, "a", "2", None).await,
            derived(&idem, "a", "1", Some("x")).await,
            derived(&idem, "a", "1", Some("y")).await,
        ];
        let sent = Sent::default();
        for (token, tenant) in [("t", "x"), ("t", "y"), ("u", "x")] {
            let request = Ambient::new().token(token).scope(tenant);
            scoped(idem.clone(), ambient::scope(request, pay_ambient(&sent))).await.unwrap();
        }
        scoped(idem.clone(), pay("o-1", &sent, false)).await.unwrap();
        all.extend(sent.all());
        let distinct: HashSet<_> = all.iter().collect();
        assert_eq!((all.len(), distinct.len()), (10, 10), "{all:?}");
    }
}

#[tokio::test]
async fn a_derived_key_is_short_fits_everywhere_and_does_not_show_its_origin() {
    let bench = local();
    for key in ["secret", &"long ".repeat(1000), "\"quotes\" | bars | \u{fc}ber"] {
        let derived = derived(&bench.idem, "orders.create", key, Some("acme")).await;
        assert_eq!(derived.len(), 32);
        assert!(derived.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{derived}");
    }
    let shown = bench.op().run(async {
        let attempt = current().unwrap();
        Ok::<_, Error>(format!("{attempt:?}").contains(&attempt.derived_key("charge")))
    });
    assert!(!shown.await.unwrap(), "`Debug` of an attempt shows nothing that can be sent");
}

#[tokio::test]
async fn an_attempt_by_hand_derives_what_the_body_of_the_operation_does() {
    let bench = local();
    let in_body = derived(&bench.idem, "a", "1", None).await;
    bench.idem.operation("a").key("1").forget(false).await.unwrap();
    let begun = bench.idem.operation("a").key("1").mode(Mode::Reject).begin().await.unwrap();
    let Begin::Fresh(attempt) = begun else { panic!("{begun:?}") };
    assert_eq!(attempt.current().derived_key("charge"), in_body);
    attempt.fail().await.unwrap();
}

#[tokio::test]
async fn inside_another_body_the_inner_attempt_counts_and_then_the_outer_one_again() {
    let bench = local();
    let derived = async || current().unwrap().derived_key("charge");
    let (before, inner, after) = bench
        .idem
        .operation("outer")
        .key("1")
        .mode(Mode::Reject)
        .run(async {
            let before = derived().await;
            let inner = bench.idem.operation("inner").key("1").mode(Mode::Reject);
            let inner = inner.run(async { Ok::<_, Error>(derived().await) }).await?;
            Ok::<_, Error>((before, inner, derived().await))
        })
        .await
        .unwrap();
    assert_eq!(before, after);
    assert_ne!(before, inner);
}
