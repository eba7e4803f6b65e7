//! A client that sends its request until it is answered.

use crate::bench::both;
use crate::client::KEY;
use crate::script::{Script, status, with};
use crate::server::{Gate, held_first, number};
use crate::unreliable::{Fate, Unreliable};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::channel::Channel;
use idempotent_http::client::{Retry, SendErrorKind, Sent};
use idempotent_runtime::problem::{CODE_HEADER, ProblemType};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::until;

/// Soon enough for a test.
pub(crate) fn retry() -> Retry {
    Retry::new().pauses(Duration::from_millis(5), Duration::from_millis(20)).max_attempts(50)
}

/// The first connections fare as `fates` says, all others well.
fn first(fates: &'static [Fate]) -> impl Fn(usize) -> Fate + Send + 'static {
    |connection| fates.get(connection).copied().unwrap_or(Fate::Delivered)
}

fn is_replay(response: &reqwest::Response) -> bool {
    response.headers().get("idempotent-replayed").is_some_and(|value| value == "true")
}

#[tokio::test]
async fn what_the_network_loses_is_sent_again_and_handled_once() {
    for (fate, replayed) in [
        (Fate::RequestLost, false),
        (Fate::ReplyLost, true),
        // In the middle of the headers, and of the body.
        (Fate::ReplyCut(30), true),
        (Fate::ReplyCut(120), true),
    ] {
        for bench in both().await {
            let answer = async |_| "a longer answer ".repeat(16);
            let server = bench.serve(bench.layer().require_key(), answer).await;
            let plan = move |connection| if connection == 0 { fate } else { Fate::Delivered };
            let way = Unreliable::to(&server, plan).await;
            let request = server.client.post(way.url("/orders")).body("lamp");
            let response = retry().send(request).await.unwrap();
            assert_eq!(is_replay(&response), replayed, "{fate:?}");
            assert_eq!(response.url().path(), "/orders");
            assert_eq!(response.text().await.unwrap(), "a longer answer ".repeat(16));
            assert_eq!((bench.runs(), way.connections()), (1, 2), "{fate:?}");
        }
    }
}

#[tokio::test]
async fn a_silent_server_is_given_up_and_asked_again() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let way = Unreliable::to(&server, first(&[Fate::Silent])).await;
        let patient = retry().attempt_timeout(Duration::from_millis(500));
        // The client's own time-out is far longer.
        let response = patient.send(server.client.post(way.url("/orders"))).await.unwrap();
        assert!(is_replay(&response));
        assert_eq!(response.text().await.unwrap(), "run 1");
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn each_of_many_requests_is_handled_once_on_a_way_that_loses_half_of_them() {
    const REQUESTS: usize = 60;
    for bench in both().await {
        let server = bench.serve(bench.layer().require_key(), number).await;
        let chance = Mutex::new(StdRng::seed_from_u64(7));
        let way =
            Unreliable::to(&server, move |_| match chance.lock().unwrap().random_range(0..8) {
                0 => Fate::RequestLost,
                1 | 2 => Fate::ReplyLost,
                3 => Fate::ReplyCut(90),
                _ => Fate::Delivered,
            })
            .await;
        let answers = (0..REQUESTS).map(|item| {
            let request = server.client.post(way.url("/orders")).body(item.to_string());
            async move { retry().send(request).await.unwrap().text().await.unwrap() }
        });
        let answers: HashSet<String> = all_at_once(answers).await.into_iter().collect();
        assert_eq!(answers.len(), REQUESTS, "each has an answer of its own");
        assert_eq!(bench.runs(), REQUESTS);
        assert!(way.connections() > REQUESTS, "nothing was lost");
    }
}

async fn all_at_once<F>(all: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let tasks: Vec<_> = all.map(tokio::spawn).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

#[tokio::test]
async fn a_request_in_progress_is_waited_for() {
    for bench in both().await {
        let gate = Gate::shut();
        let server = Arc::new(bench.serve(bench.layer(), held_first(&gate)).await);
        let began = Arc::clone(&server);
        let owner = tokio::spawn(async move { began.post("/orders", "\"k\"").await });
        until(|| bench.runs() == 1).await;
        let way = Unreliable::to(&server, first(&[])).await;
        let request = server.client.post(way.url("/orders"));
        let repeat = tokio::spawn(async move { retry().send_with_key(request, "k").await });
        // Whoever comes a second time was refused the first time.
        until(|| way.connections() == 2).await;
        gate.admit(1);
        let repeat = repeat.await.unwrap().unwrap();
        assert!(is_replay(&repeat));
        assert_eq!(repeat.text().await.unwrap(), owner.await.unwrap().text());
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn all_attempts_carry_one_key_and_the_next_request_another() {
    let script = Script::new(|request| status(if request % 3 == 2 { 200 } else { 500 })).await;
    for _ in 0..2 {
        retry().send(script.post()).await.unwrap();
    }
    let keys = script.keys();
    assert_eq!(keys.len(), 6);
    assert!(keys[..3].iter().all(|key| key.is_some() && *key == keys[0]), "{keys:?}");
    assert!(keys[3..].iter().all(|key| key.is_some() && *key == keys[3]), "{keys:?}");
    assert_ne!(keys[0], keys[3]);
}

#[tokio::test]
async fn a_key_that_the_request_has_is_kept() {
    let script = Script::new(|request| status(if request == 0 { 502 } else { 200 })).await;
    retry().send(script.post().header(KEY, "mine")).await.unwrap();
    retry().send_with_key(script.post().header(KEY, "mine"), "a \"b\"").await.unwrap();
    let keys: Vec<_> = script.keys().into_iter().flatten().collect();
    assert_eq!(keys, ["mine", "mine", r#""a \"b\"""#]);
}

#[tokio::test]
async fn safe_requests_get_no_key_and_are_sent_again_as_well() {
    let script = Script::new(|request| status(if request == 0 { 503 } else { 200 })).await;
    let get = script.server.client.get(script.server.url("/"));
    assert_eq!(retry().send(get).await.unwrap().status(), StatusCode::OK);
    assert_eq!(script.keys(), [None, None]);
}

#[tokio::test]
async fn a_key_used_for_another_payload_is_not_sent_again() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        server.post_body("/orders", "\"k\"", "lamp").await.is_first(200, "run 1");
        let way = Unreliable::to(&server, first(&[])).await;
        let request = server.client.post(way.url("/orders")).body("chair");
        let response = retry().send_with_key(request, "k").await.unwrap();
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!((way.connections(), bench.runs()), (1, 1));
    }
}

#[tokio::test]
async fn what_will_not_change_is_not_sent_again() {
    let duplicate = [(CODE_HEADER, ProblemType::DUPLICATE.code()), ("retry-after", "1")];
    let unreadable = [(CODE_HEADER, ProblemType::RESULT_UNREADABLE.code())];
    let script = Script::new(move |request| match request {
        0 => with(422, &[("retry-after", "1")]),
        1 => with(409, &duplicate),
        2 => with(500, &unreadable),
        3 => status(409),
        _ => status(404),
    })
    .await;
    for expected in [422, 409, 500, 409, 404] {
        assert_eq!(retry().send(script.post()).await.unwrap().status(), expected);
    }
    assert_eq!(script.keys().len(), 5);
}

#[tokio::test]
async fn the_last_answer_is_returned_when_attempts_or_patience_end() {
    let script = Script::new(|_| status(503)).await;
    let response = retry().max_attempts(3).send(script.post()).await.unwrap();
    assert_eq!((response.status(), script.keys().len()), (StatusCode::SERVICE_UNAVAILABLE, 3));
    // With which it can be sent again later.
    let sent = response.extensions().get::<Sent>().unwrap();
    let key = sent.key.as_ref().map(|key| key.to_str().unwrap());
    assert_eq!((sent.attempts, key), (3, script.keys()[0].as_deref()));

    let script = Script::new(|_| with(429, &[("retry-after", "86400")])).await;
    let response = retry().send(script.post()).await.unwrap();
    assert_eq!((response.status(), script.keys().len()), (StatusCode::TOO_MANY_REQUESTS, 1));
}

#[tokio::test]
async fn no_answer_is_an_error_with_the_key_to_try_again_later() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let way = Unreliable::to(&server, first(&[Fate::ReplyLost; 3])).await;
        let request = || server.client.post(way.url("/orders"));
        let error = retry().max_attempts(3).send(request()).await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (SendErrorKind::NoAnswer, 3));
        assert!(error.may_have_run());
        assert_eq!(
            error.to_string(),
            "no answer after 3 attempts; it may have been handled: send it again with the same key"
        );
        let key = error.key().unwrap();
        assert!(!format!("{error:?}").contains(key.to_str().unwrap().trim_matches('"')));
        let later = request().header(KEY, key);
        assert!(is_replay(&retry().send(later).await.unwrap()));
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn an_error_before_any_connection_says_that_nothing_was_handled() {
    let script = Script::new(|_| status(200)).await;
    let request = script.post();
    let Script { server, .. } = script;
    drop(server);
    let error = retry().max_attempts(2).send(request).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_run()), (SendErrorKind::NoAnswer, false));
    let text = "no answer after 2 attempts; it was not handled: send it again with the same key";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn a_redirect_that_cannot_be_followed_may_have_been_handled() {
    let script = Script::new(|_| with(303, &[("location", "ftp://localhost/")])).await;
    let follows = reqwest::Client::builder().no_proxy().build().unwrap();
    let error = retry().send(follows.post(script.server.url("/"))).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_run()), (SendErrorKind::NoAnswer, true));
    assert_eq!(script.keys().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_sent_twice_is_not_sent_at_all() {
    let script = Script::new(|_| status(200)).await;
    let (_sender, body) = Channel::<Bytes>::new(1);
    let stream = script.post().body(reqwest::Body::wrap(body));
    let cases = [
        (retry().send(stream).await, SendErrorKind::NotRepeatable),
        (retry().send_with_key(script.post(), "").await, SendErrorKind::InvalidKey),
        (
            retry().send(script.server.client.post("no address")).await,
            SendErrorKind::InvalidRequest,
        ),
        (
            retry().send(script.server.client.post("ftp://localhost/")).await,
            SendErrorKind::InvalidRequest,
        ),
    ];
    for (answer, kind) in cases {
        let error = answer.unwrap_err();
        assert_eq!((error.kind(), error.may_have_run()), (kind, false));
        assert!(error.to_string().ends_with("(it was not sent)"), "{error}");
    }
    assert_eq!(script.keys().len(), 0);
}
