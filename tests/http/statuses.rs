//! Answers that are kept, and answers that free their key.

use crate::bench::{Bench, both};
use crate::client::Reply;
use crate::server::{Run, Server};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use idempotent_http::{NoStore, problem};
use idempotent_runtime::Abandon;
use idempotent_runtime::problem::ProblemType;

/// Answers with the status that the path names, and the number of the run.
async fn status(run: Run) -> Response {
    let status: u16 = run.parts.uri.path()[1..].parse().unwrap();
    (StatusCode::from_u16(status).unwrap(), format!("run {}", run.number)).into_response()
}

const STORED: [u16; 18] =
    [200, 201, 202, 203, 300, 301, 302, 303, 307, 308, 400, 402, 404, 406, 409, 410, 412, 422];
const TRANSIENT: [u16; 12] = [401, 403, 405, 407, 408, 411, 413, 414, 415, 425, 429, 431];
const SERVER_ERRORS: [u16; 5] = [500, 501, 502, 503, 504];

async fn twice(bench: &Bench, server: &Server, status: u16) -> [Reply; 2] {
    let path = format!("/{status}");
    let run = bench.runs() + 1;
    let first = server.post(&path, "k").await;
    first.is_first(status, &format!("run {run}"));
    [first, server.post(&path, "k").await]
}

#[tokio::test]
async fn answers_that_a_repeat_would_get_as_well_are_stored() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), status).await;
        for status in STORED {
            let [first, again] = twice(&bench, &server, status).await;
            again.is_replay_of(&first);
        }
        assert_eq!(bench.runs(), STORED.len());
    }
}

#[tokio::test]
async fn answers_that_may_be_others_next_time_free_the_key_at_once() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), status).await;
        for status in TRANSIENT.into_iter().chain(SERVER_ERRORS) {
            let [_, again] = twice(&bench, &server, status).await;
            again.is_first(status, &format!("run {}", bench.runs()));
        }
        assert_eq!(bench.runs(), 2 * (TRANSIENT.len() + SERVER_ERRORS.len()));
    }
}

#[tokio::test]
async fn server_errors_are_stored_where_that_is_switched_on_and_transient_answers_are_not() {
    for bench in both().await {
        let server = bench.serve(bench.layer().store_server_errors(), status).await;
        for status in SERVER_ERRORS {
            let [first, again] = twice(&bench, &server, status).await;
            again.is_replay_of(&first);
        }
        for status in TRANSIENT {
            let [_, again] = twice(&bench, &server, status).await;
            assert!(!again.is_replay());
        }
    }
}

#[tokio::test]
async fn the_statuses_that_are_stored_can_be_chosen() {
    for bench in both().await {
        let layer = bench.layer().store_statuses(|status| status == StatusCode::NOT_FOUND);
        let server = bench.serve(layer, status).await;
        let [first, again] = twice(&bench, &server, 404).await;
        again.is_replay_of(&first);
        for status in [200, 303, 422, 500] {
            let [_, again] = twice(&bench, &server, status).await;
            assert!(!again.is_replay(), "{status}");
        }
    }
}

/// The client signs in again and sends the same request: the key is not spoilt by the login that had
/// expired.
#[tokio::test]
async fn an_expired_login_does_not_stay_expired_for_its_key() {
    for bench in both().await {
        let expired = async |run: Run| match run.number {
            1 => (StatusCode::UNAUTHORIZED, "sign in".to_owned()),
            number => (StatusCode::CREATED, format!("run {number}")),
        };
        let server = bench.serve(bench.layer(), expired).await;
        server.post("/orders", "k").await.is_first(401, "sign in");
        let second = server.post("/orders", "k").await;
        second.is_first(201, "run 2");
        server.post("/orders", "k").await.is_replay_of(&second);
    }
}

/// Panics in every run but the last of [`ROUNDS`].
async fn panics(run: Run) -> String {
    assert_eq!(run.number, ROUNDS, "the handler panics, as it should");
    format!("run {}", run.number)
}

/// What a client is told of a handler that panicked.
fn failed(reply: &Reply) {
    reply.is_problem(500, problem::HANDLER_FAILED.code());
    assert!(reply.text().contains("(it was handled, at least in part)"), "{reply:?}");
    assert!(!reply.text().contains("as it should"), "{reply:?}");
}

/// A key that is freed a little late would not show every time.
const ROUNDS: usize = 20;

#[tokio::test]
async fn a_handler_that_panics_is_answered_with_500_and_frees_its_key_at_once() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), panics).await;
        for _ in 1..ROUNDS {
            failed(&server.post("/orders", "k").await);
        }
        let last = server.post("/orders", "k").await;
        last.is_first(200, "run 20");
        server.post("/orders", "k").await.is_replay_of(&last);
        assert_eq!(bench.runs(), ROUNDS);
    }
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_caught_as_well() {
    for bench in both().await {
        let panics = |run: Run| {
            assert_ne!(run.number, 1, "the handler panics, as it should");
            std::future::ready(format!("run {}", run.number))
        };
        let server = bench.serve(bench.layer(), panics).await;
        failed(&server.post("/orders", "k").await);
        server.post("/orders", "k").await.is_first(200, "run 2");
    }
}

#[tokio::test]
async fn a_panic_blocks_the_key_of_what_must_not_be_repeated() {
    for bench in both().await {
        let server = bench.serve(bench.layer().abandon(Abandon::Block), panics).await;
        failed(&server.post("/orders", "k").await);
        let blocked = server.post("/orders", "k").await;
        blocked.is_problem(409, ProblemType::OUTCOME_UNKNOWN.code());
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_handler_can_ask_for_its_answer_not_to_be_stored() {
    for bench in both().await {
        let not_stored = async |run: Run| {
            let mut response = format!("run {}", run.number).into_response();
            if run.number == 1 {
                response.extensions_mut().insert(NoStore);
            }
            response
        };
        let server = bench.serve(bench.layer(), not_stored).await;
        server.post("/orders", "k").await.is_first(200, "run 1");
        let second = server.post("/orders", "k").await;
        second.is_first(200, "run 2");
        server.post("/orders", "k").await.is_replay_of(&second);
    }
}

/// The handler has run by then: freeing its key would let a repeat run it again.
#[tokio::test]
async fn a_choice_of_statuses_that_panics_counts_as_if_it_were_not_there() {
    for bench in both().await {
        let layer = bench.layer().store_statuses(|_| panic!("the choice panics, as it should"));
        let server = bench.serve(layer, status).await;
        let [first, again] = twice(&bench, &server, 201).await;
        again.is_replay_of(&first);
        let [_, again] = twice(&bench, &server, 502).await;
        again.is_first(502, &format!("run {}", bench.runs()));
    }
}
