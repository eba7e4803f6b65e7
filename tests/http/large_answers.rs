//! Answers that are larger than a client is willing to read.

use crate::bench::both;
use crate::client::KEY;
use crate::retries::retry;
use crate::script::{Script, status};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::channel::Channel;
use idempotent_http::client::{Retry, SendErrorKind};

const LIMIT: usize = 1024;

fn limited() -> Retry {
    retry().max_response_bytes(LIMIT)
}

/// An answer that does not say how long it is. It ends after this many pieces of 256 bytes.
fn chunked(pieces: usize) -> Response {
    let (mut sender, body) = Channel::<Bytes>::new(1);
    tokio::spawn(async move {
        for _ in 0..pieces {
            if sender.send_data(Bytes::from_static(&[b'x'; 256])).await.is_err() {
                return;
            }
        }
    });
    Body::new(body).into_response()
}

#[tokio::test]
async fn an_answer_up_to_the_limit_is_read_and_a_larger_one_is_an_error() {
    type Answer = fn(usize) -> Response;
    let announced: Answer = |pieces| "x".repeat(pieces * 256).into_response();
    for answer in [announced, chunked] {
        let script = Script::new(move |request| answer(4 + request)).await;
        let response = limited().send(script.post()).await.unwrap();
        assert_eq!(response.bytes().await.unwrap().len(), LIMIT);
        let error = limited().send(script.post()).await.unwrap_err();
        assert_eq!(error.kind(), SendErrorKind::ResponseTooLarge);
        assert_eq!((error.attempts(), error.status()), (1, Some(StatusCode::OK)));
        assert_eq!(script.keys().len(), 2, "one that is too large is not sent again");
        assert_eq!(error.key().map(|key| key.to_str().unwrap()), script.keys()[1].as_deref());
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_read_to_its_end() {
    let script = Script::new(|_| chunked(usize::MAX)).await;
    let error = limited().send(script.post()).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::ResponseTooLarge);
}

#[tokio::test]
async fn an_answer_that_is_to_be_sent_again_is_whatever_its_size() {
    let script = Script::new(|request| match request {
        0 => (StatusCode::BAD_GATEWAY, "x".repeat(LIMIT + 1)).into_response(),
        1 => (StatusCode::SERVICE_UNAVAILABLE, chunked(5)).into_response(),
        _ => status(201),
    })
    .await;
    assert_eq!(limited().send(script.post()).await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(script.keys().len(), 3);

    let script = Script::new(|_| (StatusCode::BAD_GATEWAY, "x".repeat(LIMIT + 1)).into_response());
    let script = script.await;
    let error = limited().max_attempts(2).send(script.post()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (SendErrorKind::ResponseTooLarge, 2));
    assert_eq!(error.status(), Some(StatusCode::BAD_GATEWAY));
}

#[tokio::test]
async fn one_that_is_too_large_says_that_it_may_have_been_handled_and_how_to_get_it() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), async |_| "x".repeat(LIMIT + 1)).await;
        let request = || server.client.post(server.url("/orders"));
        let error = limited().send(request()).await.unwrap_err();
        assert!(error.may_have_run());
        assert_eq!(
            error.to_string(),
            "the answer, with status 200, is larger than 1024 bytes; the request may have been handled\n\
             help: send it again with the same key and a larger `max_response_bytes`"
        );
        let key = error.key().unwrap();
        assert!(!format!("{error:?}").contains(key.to_str().unwrap().trim_matches('"')));
        let response = retry().send(request().header(KEY, key)).await.unwrap();
        assert_eq!(response.headers()["idempotent-replayed"], "true");
        assert_eq!(response.bytes().await.unwrap().len(), LIMIT + 1);
        assert_eq!(bench.runs(), 1);
    }
}
