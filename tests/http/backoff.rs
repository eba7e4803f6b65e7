//! Pauses between the attempts of a client. They are counted in requests, not in time: a pause that
//! does not fit into the client's patience ends it.

use crate::retries::retry;
use crate::script::{Script, status, with};
use axum::response::Response;
use http::StatusCode;
use idempotent_http::client::Retry;
use idempotent_runtime::problem::{CODE_HEADER, ProblemType};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// A long time ago.
const PAST: &str = "Sun, 09 Sep 2001 01:46:40 GMT";

/// How often a server that always gives this answer is asked by a client whose backoff does not fit
/// into its patience.
async fn asked_with_a_long_backoff(answer: fn() -> Response) -> usize {
    let script = Script::new(move |_| answer()).await;
    let response = Retry::new().pauses(HOUR, HOUR).send(script.post()).await.unwrap();
    assert_eq!(response.status(), answer().status());
    script.keys().len()
}

#[tokio::test]
async fn a_server_that_asks_for_no_pause_is_not_asked_in_a_loop() {
    assert_eq!(asked_with_a_long_backoff(|| with(503, &[("retry-after", "0")])).await, 1);
    assert_eq!(asked_with_a_long_backoff(|| with(429, &[("retry-after", PAST)])).await, 1);
    let in_progress = || {
        let code = ProblemType::IN_PROGRESS.code();
        with(409, &[(CODE_HEADER, code), ("retry-after", "0")])
    };
    assert_eq!(asked_with_a_long_backoff(in_progress).await, 1);
    assert_eq!(asked_with_a_long_backoff(|| with(503, &[("retry-after", "1")])).await, 1);
}

#[tokio::test]
async fn a_server_that_asks_for_no_pause_is_asked_again_after_the_backoff() {
    let script = Script::new(|request| match request {
        0 => with(503, &[("retry-after", "0")]),
        1 => with(503, &[("retry-after", PAST)]),
        _ => status(201),
    })
    .await;
    assert_eq!(retry().send(script.post()).await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(script.keys().len(), 3);
}

#[tokio::test]
async fn a_server_that_asks_for_more_than_there_is_patience_for_is_not_asked_again() {
    for asked in ["3600", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let script = Script::new(move |_| with(503, &[("retry-after", asked)])).await;
        let response = retry().send(script.post()).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(script.keys().len(), 1, "{asked}");
    }
}

#[tokio::test]
async fn a_server_whose_clock_is_behind_is_waited_for_as_long_as_it_means() {
    // An hour, by its own clock.
    let answer = || with(503, &[("date", PAST), ("retry-after", "Sun, 09 Sep 2001 02:46:40 GMT")]);
    let script = Script::new(move |_| answer()).await;
    retry().send(script.post()).await.unwrap();
    assert_eq!(script.keys().len(), 1);
}

#[tokio::test]
async fn a_server_that_never_answers_well_is_asked_as_often_as_is_allowed() {
    let script = Script::new(|_| with(503, &[("retry-after", "0")])).await;
    let response = retry().max_attempts(7).send(script.post()).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(script.keys().len(), 7);
}
