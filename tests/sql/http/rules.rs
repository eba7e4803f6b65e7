//! Which responses commit the rows, and which undo them.

use super::shop::{Expect as _, Shop};
use axum::http::Method;
use idempotent_sql::Isolation;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_and_its_row_are_there_together() {
    let shop = Shop::open().await;
    let first = shop.post("/orders", "k", "lamp").await;
    assert_eq!((first.status, first.text(), first.is_replay()), (201, "1", false));
    assert_eq!(shop.rows("orders").await, 1);
    let record = shop.layer.record(Method::POST, "/orders", "k").get().await.unwrap().unwrap();
    assert_eq!(record.response.unwrap().body(), "1");

    let again = shop.post("/orders", "k", "lamp").await;
    assert_eq!((again.status, again.text(), again.is_replay()), (201, "1", true));
    assert_eq!((shop.rows("orders").await, shop.calls()), (1, 1));
    let other = shop.post("/orders", "k", "chair").await;
    assert_eq!((other.status, other.problem()), (422, Some("payload-mismatch")));
    assert_eq!((shop.rows("orders").await, shop.calls()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_duplicates_write_one_row() {
    let wait = Duration::from_secs(20);
    let shop = Shop::with(|layer| layer.wait(wait), Isolation::Default).await;
    let shop = std::sync::Arc::new(shop);
    let requests: Vec<_> = (0..16)
        .map(|_| {
            let shop = std::sync::Arc::clone(&shop);
            tokio::spawn(async move { shop.post("/orders", "k", "lamp").await })
        })
        .collect();
    let mut replays = 0;
    for request in requests {
        let reply = request.await.unwrap();
        assert_eq!((reply.status, reply.text()), (201, "1"));
        replays += u32::from(reply.is_replay());
    }
    assert_eq!((replays, shop.rows("orders").await, shop.calls()), (15, 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_failure_undoes_the_rows_and_is_replayed() {
    let shop = Shop::open().await;
    for is_replay in [false, true] {
        let reply = shop.post("/refused", "k", "lamp").await;
        assert_eq!((reply.status, reply.text(), reply.is_replay()), (422, "not 1", is_replay));
        assert_eq!((shop.rows("orders").await, shop.calls()), (0, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_statement_can_be_the_reason_of_a_stored_failure() {
    let shop = Shop::open().await;
    shop.database().execute("INSERT INTO unique_orders VALUES ('lamp')");
    for is_replay in [false, true] {
        let reply = shop.post("/taken", "k", "lamp").await;
        assert_eq!((reply.status, reply.is_replay()), (409, is_replay));
        assert_eq!((shop.rows("orders").await, shop.calls()), (0, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirection_commits() {
    let shop = Shop::open().await;
    for is_replay in [false, true] {
        let reply = shop.post("/redirected", "k", "lamp").await;
        assert_eq!((reply.status, reply.is_replay()), (303, is_replay));
        assert_eq!(reply.header("location"), Some("/orders/1"));
        assert_eq!((shop.rows("orders").await, shop.calls()), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_error_rolls_back_and_frees_the_key() {
    let shop = Shop::open().await;
    let failed = shop.post("/first-fails", "k", "lamp").await;
    assert_eq!((failed.status, shop.rows("orders").await), (502, 0));
    let again = shop.post("/first-fails", "k", "lamp").await;
    assert_eq!((again.status, again.is_replay(), shop.rows("orders").await), (201, false, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_error_that_is_stored_undoes_the_rows() {
    let shop = Shop::with(|layer| layer.store_server_errors(), Isolation::Default).await;
    for is_replay in [false, true] {
        let failed = shop.post("/first-fails", "k", "lamp").await;
        assert_eq!((failed.status, failed.is_replay()), (502, is_replay));
        assert_eq!((shop.rows("orders").await, shop.calls()), (0, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_is_not_to_be_stored_rolls_back() {
    let shop = Shop::open().await;
    for calls in 1..3 {
        let reply = shop.post("/not-stored", "k", "lamp").await;
        assert_eq!((reply.status, reply.is_replay()), (200, false));
        assert_eq!((shop.rows("orders").await, shop.calls()), (0, calls));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_cannot_be_stored_commits_and_is_not_retained() {
    for path in ["/large", "/streamed"] {
        let shop = Shop::with(|layer| layer.max_response_bytes(1_000), Isolation::Default).await;
        let reply = shop.post(path, "k", "lamp").await;
        assert_eq!((reply.status, reply.header("idempotent-stored")), (200, Some("false")));
        assert_eq!(shop.rows("orders").await, 1, "{path}");
        let again = shop.post(path, "k", "lamp").await;
        assert_eq!((again.status, again.problem()), (409, Some("result-not-retained")));
        assert_eq!((shop.rows("orders").await, shop.calls()), (1, 1), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_without_the_transaction_has_its_response_stored() {
    let shop = Shop::open().await;
    for (path, calls) in [("/untouched", 1), ("/copied", 2)] {
        for is_replay in [false, true] {
            let reply = shop.post(path, "k", "lamp").await;
            assert_eq!((reply.status, reply.is_replay(), shop.calls()), (200, is_replay, calls));
        }
        assert_eq!(shop.post_without_key(path, "lamp").await.status, 200);
        shop.handlers.calls.store(calls, SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_a_key_has_a_transaction_too() {
    for enabled in [true, false] {
        let shop = Shop::with(|layer| layer.enabled(enabled), Isolation::Default).await;
        for rows in 1..3 {
            let reply = shop.post_without_key("/orders", "lamp").await;
            assert_eq!((reply.status, reply.header("idempotent-stored")), (201, None));
            assert_eq!(shop.rows("orders").await, rows);
        }
        assert_eq!(shop.post_without_key("/refused", "lamp").await.status, 422);
        assert_eq!(shop.rows("orders").await, 2);
        assert_eq!(shop.rows("idempotent_records").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_without_a_transaction_to_take_says_so() {
    let shop = Shop::open().await;
    let get = b"GET /orders HTTP/1.1\r\nhost: x\r\n\r\n";
    let unguarded = shop.connect().await.exchange(get).await.unwrap();
    let twice = shop.post("/twice", "k", "lamp").await;
    for reply in [unguarded, twice] {
        assert_eq!((reply.status, reply.problem()), (500, Some("misconfigured")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_further_in_leaves_the_transaction_alone() {
    let shop = Shop::open().await;
    for is_replay in [false, true] {
        let reply = shop.post("/guarded-twice", "k", "lamp").await;
        assert_eq!((reply.status, reply.is_replay()), (201, is_replay));
        assert_eq!((shop.rows("orders").await, shop.rows("idempotent_records").await), (1, 1));
    }
}
