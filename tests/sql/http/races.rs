//! Transactions that lose a race: the handler is called again with the same request.

use super::shop::{Expect as _, Shop};
use idempotent_sql::Isolation;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_loses_a_race_is_repeated_with_the_same_request() {
    let shop = Shop::with(|layer| layer, Isolation::Serializable).await;
    let (one, two) =
        tokio::join!(shop.post("/skewed", "one", "lamp"), shop.post("/skewed", "two", "chair"));
    let mut texts = [one.text(), two.text()];
    texts.sort_by_key(|text| text.rsplit(' ').next().unwrap().to_owned());
    assert_eq!((one.status, two.status), (200, 200));
    assert!(texts[0].ends_with(" after 0") && texts[1].ends_with(" after 1"), "{texts:?}");
    assert_eq!((shop.rows("orders").await, shop.calls()), (2, 3));
    let again = shop.post("/skewed", "two", "chair").await;
    assert_eq!((again.text(), again.is_replay()), (two.text(), true));
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
