//! Transactions that lose a race: the handler is called again with the same request.

use super::shop::{Expect as _, Shop};
use idempotent_sql::Isolation;
use support::postgres::{PostgresServer, psql};
use support::{until, until_async};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_loses_a_race_is_repeated_with_the_same_request() {
    let shop = Shop::with(|layer| layer, Isolation::Serializable).await;
    let (one, two) =
        tokio::join!(shop.post("/skewed", "one", "lamp"), shop.post("/skewed", "two", "chair"));
    let mut texts = [one.text(), two.text()];
    texts.sort_by_key(|text| text.rsplit(' ').next().unwrap().to_owned());
    assert_eq!((one.status, two.status), (200, 200));
    assert!(texts[0].ends_with(" after 0") && texts[1].ends_with(" after 1"), "{texts:?}");
    assert_eq!(shop.rows("orders").await, 2);
    assert!(shop.calls() >= 3, "one of them was repeated");
    let again = shop.post("/skewed", "two", "chair").await;
    assert_eq!((again.text(), again.is_replay()), (two.text(), true));
}

/// A commit of which other transactions know, and which they do not see: as long as that lasts, each of their
/// rounds is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_against_a_commit_that_takes_long_is_lost_until_that_has_ended() {
    let server = PostgresServer::start();
    let url = server.create_database();
    let shop = Shop::on(&url, None, |layer| layer, Isolation::Serializable).await;
    let waits_for = |standby: &str| {
        psql(&url, &format!("ALTER SYSTEM SET synchronous_standby_names = '{standby}'"));
        psql(&url, "SELECT pg_reload_conf()");
    };
    waits_for("nobody");
    let ((one, two), ()) = tokio::join!(
        async {
            tokio::join!(shop.post("/skewed", "one", "lamp"), shop.post("/skewed", "two", "chair"))
        },
        async {
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
            until_async(async || psql(&url, waits).trim() == "1").await;
            until(|| shop.calls() > 10).await;
            waits_for("");
        }
    );
    assert_eq!((one.status, two.status), (200, 200), "{} {}", one.text(), two.text());
    assert_eq!(shop.rows("orders").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_reports_a_lost_race_is_called_again() {
    let shop = Shop::open().await;
    let reply = shop.post("/first-loses", "k", "lamp").await;
    assert_eq!((reply.status, reply.text()), (200, "lamp"));
    assert_eq!((shop.rows("orders").await, shop.calls()), (1, 2));
    assert!(shop.post("/first-loses", "k", "lamp").await.is_replay());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_a_key_is_not_repeated() {
    let shop = Shop::open().await;
    let reply = shop.post_without_key("/first-loses", "lamp").await;
    assert_eq!((reply.status, shop.rows("orders").await, shop.calls()), (503, 0, 1));

    let shop = Shop::with(|layer| layer, Isolation::Serializable).await;
    let (one, two) = tokio::join!(
        shop.post_without_key("/skewed", "lamp"),
        shop.post_without_key("/skewed", "chair")
    );
    let lost = if one.status == 200 { &two } else { &one };
    assert_eq!((one.status.min(two.status), lost.status), (200, 503));
    assert_eq!((lost.problem(), lost.header("retry-after")), (Some("not-committed"), Some("1")));
    assert_eq!((shop.rows("orders").await, shop.calls()), (1, 2));
}
