//! Ambient token and scope.

use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::testing::{Ledger, scoped};
use idempotent_runtime::{Error, ErrorKind, idempotent};
use support::local;

#[idempotent(mode = "strong", name = "ambient")]
async fn handle(ledger: &Ledger) -> Result<usize, Error> {
    Ok(ledger.record("k"))
}

#[idempotent(mode = "strong", scope = "department", name = "ambient-scoped")]
async fn scoped_handle(ledger: &Ledger, department: u8) -> Result<usize, Error> {
    Ok(ledger.record("k"))
}

#[tokio::test]
async fn without_a_key_argument_the_ambient_token_is_the_key() {
    let bench = local();
    scoped(bench.idem.clone(), async {
        for token in ["a", "a", "b"] {
            ambient::scope(Ambient::new().token(token), handle(&bench.ledger)).await.unwrap();
        }
    })
    .await;
    assert_eq!(bench.runs(), 2);
}

#[tokio::test]
async fn without_a_token_the_key_is_missing_and_an_empty_one_is_invalid() {
    let bench = local();
    scoped(bench.idem.clone(), async {
        assert_eq!(handle(&bench.ledger).await.unwrap_err().kind(), ErrorKind::MissingKey);
        let empty = ambient::scope(Ambient::new().token(""), handle(&bench.ledger)).await;
        assert_eq!(empty.unwrap_err().kind(), ErrorKind::InvalidKey);
        let scope_only = Ambient::new().scope("acme");
        let missing = ambient::scope(scope_only, handle(&bench.ledger)).await;
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::MissingKey);
    })
    .await;
    assert_eq!(bench.runs(), 0);
}

#[tokio::test]
async fn a_functions_scope_is_added_to_the_ambient_one() {
    let bench = local();
    let call = |tenant: &'static str, department| {
        let request = Ambient::new().token("t").scope(tenant);
        let handled = scoped_handle(&bench.ledger, department);
        scoped(bench.idem.clone(), ambient::scope(request, handled))
    };
    for (tenant, department) in [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("a", 1)] {
        call(tenant, department).await.unwrap();
    }
    assert_eq!(bench.runs(), 4);
}

#[tokio::test]
async fn the_ambient_token_can_be_carried_into_another_task() {
    let carried = ambient::scope(Ambient::new().token("t"), async {
        let here = ambient::current().unwrap();
        tokio::spawn(ambient::scope(here, async { ambient::current() })).await.unwrap()
    });
    assert_eq!(carried.await.unwrap().token.as_deref(), Some("t"));
    assert_eq!(ambient::current(), None);
}
