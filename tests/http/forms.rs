//! Forms that are handled once.

use crate::bench::{Bench, both};
use crate::client::{Reply, send};
use crate::flight::is_pending;
use crate::server::{Departures, Gate, Run, Server, counted, held, number, serve};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use idempotent_http::{FormTokens, problem};
use idempotent_runtime::instance::Drained;
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::testing::{Ledger, Verb, scoped};
use idempotent_runtime::{Error, idempotent};
use reqwest::RequestBuilder;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use support::{until, while_time_passes};

const FORM: &str = "application/x-www-form-urlencoded";

impl Bench {
    /// `answer` behind `tokens`.
    async fn serve_forms<F, A, R>(&self, tokens: &FormTokens, answer: F) -> Server
    where
        F: Fn(Run) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        serve(counted(&self.ledger, answer).layer(tokens.clone())).await
    }
}

fn orders(bench: &Bench) -> FormTokens {
    FormTokens::new(&bench.idem, "order")
}

async fn issue(tokens: &FormTokens) -> String {
    tokens.issue(None).await.unwrap()
}

/// A form with a token, not yet sent.
fn form(server: &Server, token: &str) -> RequestBuilder {
    let body = format!("item=lamp&form_token={token}&amount=2");
    server.request(Method::POST, "/orders").header("content-type", FORM).body(body)
}

async fn submit(server: &Server, token: &str) -> Reply {
    send(form(server, token)).await
}

/// Handled, and the next token.
#[track_caller]
fn handled(reply: &Reply, run: usize) -> String {
    assert_eq!((reply.status, reply.text()), (StatusCode::OK, &*format!("run {run}")), "{reply:?}");
    reply.header("form-token").expect("the next token").to_owned()
}

#[tokio::test]
async fn a_form_is_handled_once_and_the_next_token_comes_back() {
    for bench in both().await {
        let tokens = orders(&bench);
        let server = bench.serve_forms(&tokens, number).await;
        let token = issue(&tokens).await;
        let next = handled(&submit(&server, &token).await, 1);
        for _ in 0..2 {
            let again = submit(&server, &token).await;
            again.is_problem(409, problem::FORM_TOKEN_USED.code());
            assert_eq!(again.header("form-token"), None);
        }
        assert_ne!(next, token);
        let last = handled(&submit(&server, &next).await, 2);
        assert_ne!(last, next);
        submit(&server, &next).await.is_problem(409, problem::FORM_TOKEN_USED.code());
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn the_handler_gets_the_form_whole() {
    for bench in both().await {
        let tokens = orders(&bench);
        let echo = async |run: Run| String::from_utf8(run.body.to_vec()).unwrap();
        let server = bench.serve_forms(&tokens, echo).await;
        let token = issue(&tokens).await;
        let reply = submit(&server, &token).await;
        assert_eq!(reply.text(), format!("item=lamp&form_token={token}&amount=2"));
    }
}

#[tokio::test]
async fn a_token_that_was_never_issued_for_this_form_is_unknown() {
    for bench in both().await {
        let tokens = orders(&bench);
        let server = bench.serve_forms(&tokens, number).await;
        let refund = issue(&FormTokens::new(&bench.idem, "refund")).await;
        for token in ["", "42", &"0".repeat(47), &"g".repeat(48), &refund] {
            let unknown = submit(&server, token).await;
            unknown.is_problem(403, problem::FORM_TOKEN_UNKNOWN.code());
        }
        assert_eq!(bench.runs(), 0);
        let refunds = FormTokens::new(&bench.idem, "refund");
        let server = bench.serve_forms(&refunds, number).await;
        handled(&submit(&server, &refund).await, 1);
    }
}

#[tokio::test]
async fn a_token_expires_after_ten_minutes_or_when_it_is_told_to() {
    let slack = Duration::from_secs(30);
    for bench in both().await {
        let short = orders(&bench).expire(Duration::from_secs(60));
        for (tokens, expire) in [(orders(&bench), 600), (short, 60)] {
            let expire = Duration::from_secs(expire);
            let server = bench.serve_forms(&tokens, number).await;
            let (good, late) = (issue(&tokens).await, issue(&tokens).await);
            bench.pass(expire - slack).await;
            let run = bench.runs() + 1;
            handled(&submit(&server, &good).await, run);
            bench.pass(slack).await;
            let expired = submit(&server, &late).await;
            expired.is_problem(403, problem::FORM_TOKEN_UNKNOWN.code());
        }
        assert_eq!(bench.runs(), 2);
    }
}

/// The tests trust this header; a service takes the session from what its authentication found.
fn session(parts: &Parts) -> Option<String> {
    Some(parts.headers.get("x-session")?.to_str().ok()?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_form_that_is_clicked_twice_has_expired_each_time() {
    for bench in both().await {
        let tokens = orders(&bench);
        let server = Arc::new(bench.serve_forms(&tokens, number).await);
        for _ in 0..10 {
            let token = issue(&tokens).await;
            bench.pass(Duration::from_secs(601)).await;
            let click = || {
                let (server, token) = (Arc::clone(&server), token.clone());
                tokio::spawn(async move { submit(&server, &token).await })
            };
            let clicks: Vec<_> = (0..16).map(|_| click()).collect();
            for click in clicks {
                let answer = click.await.unwrap();
                answer.is_problem(403, problem::FORM_TOKEN_UNKNOWN.code());
            }
        }
        assert_eq!(bench.runs(), 0);
    }
}

#[tokio::test]
async fn a_token_of_another_session_is_foreign_and_is_not_used_up() {
    for bench in both().await {
        let tokens = orders(&bench).bound_to(session);
        let server = bench.serve_forms(&tokens, number).await;
        let token = tokens.issue(Some("s-1")).await.unwrap();
        let submit_as = async |session: &str, token: &str| {
            send(form(&server, token).header("x-session", session)).await
        };
        for _ in 0..2 {
            let foreign = submit_as("s-2", &token).await;
            foreign.is_problem(403, problem::FORM_TOKEN_FOREIGN.code());
        }
        for nobody in [submit(&server, &token).await, submit_as("", &token).await] {
            nobody.is_problem(403, problem::SCOPE_MISSING.code());
        }
        assert_eq!(bench.runs(), 0);
        let next = handled(&submit_as("s-1", &token).await, 1);
        let used = submit_as("s-1", &token).await;
        used.is_problem(409, problem::FORM_TOKEN_USED.code());
        // The next token belongs to the same session.
        let foreign = submit_as("s-2", &next).await;
        foreign.is_problem(403, problem::FORM_TOKEN_FOREIGN.code());
        handled(&submit_as("s-1", &next).await, 2);
    }
}

/// Fails as the path says until its third run.
async fn fails_twice(run: Run) -> Response {
    if run.number > 2 {
        return number(run).await.into_response();
    }
    match run.parts.uri.path() {
        "/panics" => panic!("the handler panics, as it should"),
        path => StatusCode::from_u16(path[1..].parse().unwrap()).unwrap().into_response(),
    }
}

#[tokio::test]
async fn after_a_failure_or_a_panic_the_token_can_be_used_again_at_once() {
    let refusals = ["/401", "/403", "/405", "/407", "/411", "/413", "/414", "/415", "/431"];
    let failures = ["/500", "/502", "/503", "/408", "/425", "/429", "/panics"];
    for path in refusals.into_iter().chain(failures) {
        for bench in both().await {
            let tokens = orders(&bench);
            let server = bench.serve_forms(&tokens, fails_twice).await;
            let token = issue(&tokens).await;
            let post = async || {
                let request = server.request(Method::POST, path).header("form-token", &token);
                send(request).await
            };
            for _ in 0..2 {
                let failed = post().await;
                let expected = path[1..].parse().unwrap_or(500);
                assert_eq!(failed.status.as_u16(), expected, "{path}: {failed:?}");
                let problem = (path == "/panics").then_some(problem::HANDLER_FAILED.code());
                assert_eq!(failed.header("idempotency-problem"), problem);
                assert_eq!(failed.header("form-token"), None);
            }
            handled(&post().await, 3);
            post().await.is_problem(409, problem::FORM_TOKEN_USED.code());
        }
    }
}

/// What an `#[idempotent]` function says while another call of it runs: 409, and it passes.
#[tokio::test]
async fn after_a_refusal_that_passes_by_itself_the_token_can_be_used_again() {
    for bench in both().await {
        let tokens = orders(&bench);
        let busy_first = async |run: Run| -> Response {
            match run.number {
                1 => Problem::new(ProblemType::IN_PROGRESS, "another call runs").into_response(),
                _ => number(run).await.into_response(),
            }
        };
        let server = bench.serve_forms(&tokens, busy_first).await;
        let token = issue(&tokens).await;
        submit(&server, &token).await.is_problem(409, ProblemType::IN_PROGRESS.code());
        handled(&submit(&server, &token).await, 2);
    }
}

#[tokio::test]
async fn an_answer_that_a_repeat_would_get_as_well_uses_the_token_up() {
    for bench in both().await {
        let tokens = orders(&bench);
        let refuses = async |_: Run| (StatusCode::UNPROCESSABLE_ENTITY, "no such item");
        let server = bench.serve_forms(&tokens, refuses).await;
        let token = issue(&tokens).await;
        let refused = submit(&server, &token).await;
        refused.is_first(422, "no such item");
        let next = refused.header("form-token").unwrap();
        submit(&server, &token).await.is_problem(409, problem::FORM_TOKEN_USED.code());
        submit(&server, next).await.is_first(422, "no such item");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_send_a_form_at_once_one_is_handled() {
    for bench in both().await {
        let tokens = orders(&bench);
        let server = bench.serve_forms(&tokens, number).await;
        for round in 1..=5 {
            let token = issue(&tokens).await;
            let sent: Vec<_> = (0..8).map(|_| tokio::spawn(send(form(&server, &token)))).collect();
            let mut accepted = 0;
            for reply in sent {
                let reply = reply.await.unwrap();
                if reply.status == 200 {
                    accepted += 1;
                } else {
                    reply.is_problem(409, problem::FORM_TOKEN_USED.code());
                }
            }
            assert_eq!((accepted, bench.runs()), (1, round));
        }
    }
}

#[tokio::test]
async fn the_token_can_come_in_a_header_and_both_names_can_be_chosen() {
    for bench in both().await {
        let tokens = orders(&bench);
        let server = bench.serve_forms(&tokens, number).await;
        let token = issue(&tokens).await;
        let json = server.request(Method::POST, "/orders").json_body(r#"{"item":"lamp"}"#);
        handled(&send(json.header("form-token", &token)).await, 1);

        let tokens = orders(&bench).field("csrf").header(HeaderName::from_static("x-csrf"));
        let server = bench.serve_forms(&tokens, number).await;
        let token = issue(&tokens).await;
        submit(&server, &token).await.is_problem(400, problem::FORM_TOKEN_MISSING.code());
        let field = tokens.hidden_field(&token);
        assert_eq!(field, format!(r#"<input type="hidden" name="csrf" value="{token}">"#));
        let chosen = server.request(Method::POST, "/orders").header("content-type", FORM);
        let reply = send(chosen.body(format!("csrf={token}"))).await;
        assert_eq!(reply.text(), "run 2");
        let next = reply.header("x-csrf").unwrap();
        let by_header = server.request(Method::POST, "/orders").header("x-csrf", next);
        assert_eq!(send(by_header).await.text(), "run 3");
    }
}

/// What the JSON feature of the client would do.
trait JsonBody {
    fn json_body(self, text: &'static str) -> Self;
}

impl JsonBody for RequestBuilder {
    fn json_body(self, text: &'static str) -> Self {
        self.header("content-type", "application/json").body(text)
    }
}

#[tokio::test]
async fn a_form_is_one_however_its_media_type_is_written() {
    for bench in both().await {
        let tokens = orders(&bench);
        let server = bench.serve_forms(&tokens, number).await;
        let kinds = [
            "Application/X-WWW-Form-URLEncoded",
            "application/x-www-form-urlencoded;charset=UTF-8",
            "APPLICATION/X-WWW-FORM-URLENCODED ; charset=utf-8",
        ];
        for (sent, kind) in kinds.into_iter().enumerate() {
            let body = format!("form_token={}", issue(&tokens).await);
            let form = server.request(Method::POST, "/orders").header("content-type", kind);
            handled(&send(form.body(body)).await, sent + 1);
        }
        let body = format!("form_token={}", issue(&tokens).await);
        let another = server.request(Method::POST, "/orders").header("content-type", "x-www-form");
        let refused = send(another.body(body)).await;
        refused.is_problem(400, problem::FORM_TOKEN_MISSING.code());
    }
}

#[tokio::test]
async fn a_form_without_a_token_is_refused() {
    for bench in both().await {
        let tokens = orders(&bench);
        let server = bench.serve_forms(&tokens, number).await;
        let token = issue(&tokens).await;
        let post = || server.request(Method::POST, "/orders");
        let without = [
            post(),
            post().header("content-type", FORM).body("item=lamp"),
            post().json_body(r#"{"form_token":"x"}"#),
            // The field counts in a form only.
            post().header("content-type", "text/plain").body(format!("form_token={token}")),
        ];
        for request in without {
            send(request).await.is_problem(400, problem::FORM_TOKEN_MISSING.code());
        }
        assert_eq!(bench.runs(), 0);
        handled(&submit(&server, &token).await, 1);
    }
}

#[tokio::test]
async fn a_form_that_is_too_large_or_cut_off_is_refused_and_keeps_its_token() {
    for bench in both().await {
        let tokens = orders(&bench).max_form_bytes(128);
        let server = bench.serve_forms(&tokens, number).await;
        let token = issue(&tokens).await;
        let head = format!(
            "POST /orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\nform-token: {token}\r\n"
        );
        let announced = format!("{head}content-length: 129\r\n\r\n");
        let chunk = "x".repeat(129);
        let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n81\r\n{chunk}\r\n");
        for request in [announced, chunked] {
            let refused = server.write(request.as_bytes()).await;
            refused.is_problem(413, problem::BODY_TOO_LARGE.code());
        }
        let malformed = format!("{head}transfer-encoding: chunked\r\n\r\nnot a length\r\n");
        let refused = server.write(malformed.as_bytes()).await;
        refused.is_problem(400, problem::BODY_INCOMPLETE.code());
        assert_eq!(bench.runs(), 0);
        handled(&submit(&server, &token).await, 1);
    }
}

#[tokio::test]
async fn safe_methods_need_no_token_and_all_others_do() {
    for bench in both().await {
        let server = bench.serve_forms(&orders(&bench), number).await;
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            assert_eq!(send(server.request(method, "/orders")).await.status, 200);
        }
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let refused = send(server.request(method, "/orders")).await;
            refused.is_problem(400, problem::FORM_TOKEN_MISSING.code());
        }
        assert_eq!(bench.runs(), 3);
    }
}

#[tokio::test]
async fn a_form_whose_client_has_gone_is_handled_and_stays_used() {
    for bench in both().await {
        let gate = Gate::shut();
        let tokens = orders(&bench);
        let done = Ledger::new();
        let answer = {
            let (held, done) = (held(&gate), done.clone());
            move |run: Run| {
                let (held, done) = (held(run), done.clone());
                async move {
                    held.await;
                    done.record("done").to_string()
                }
            }
        };
        let departures = Departures::default();
        let router = counted(&bench.ledger, answer).layer(tokens.clone());
        let server = serve(departures.watch(router)).await;
        let token = issue(&tokens).await;
        let sent = tokio::spawn(send(form(&server, &token)));
        until(|| bench.runs() == 1).await;
        sent.abort();
        until(|| departures.count() == 1).await;
        submit(&server, &token).await.is_problem(409, problem::FORM_TOKEN_USED.code());
        gate.admit(1);
        until(|| done.total() == 1).await;
        submit(&server, &token).await.is_problem(409, problem::FORM_TOKEN_USED.code());
        assert_eq!(bench.runs(), 1);
    }
}

/// A browser drops the first of two clicks, perhaps while the store is being asked.
#[tokio::test]
async fn a_form_whose_client_goes_while_its_token_is_consumed_is_handled() {
    for bench in both().await {
        let (neighbour, store) = bench.neighbour().await;
        let tokens = FormTokens::new(&neighbour, "order");
        let departures = Departures::default();
        let router = counted(&bench.ledger, number).layer(tokens.clone());
        let server = serve(departures.watch(router)).await;
        let token = issue(&tokens).await;
        let consumed = store.hold_after(Verb::Begin);
        let sent = tokio::spawn(send(form(&server, &token)));
        consumed.arrived(1).await;
        sent.abort();
        until(|| departures.count() == 1).await;
        consumed.open();
        until(|| bench.runs() == 1).await;
        submit(&server, &token).await.is_problem(409, problem::FORM_TOKEN_USED.code());
    }
}

#[tokio::test]
async fn a_shutdown_waits_for_forms_that_are_being_handled_and_refuses_others() {
    for bench in both().await {
        let gate = Gate::shut();
        let tokens = orders(&bench);
        let server = bench.serve_forms(&tokens, held(&gate)).await;
        let [first, second] = [issue(&tokens).await, issue(&tokens).await];
        let sent = tokio::spawn(send(form(&server, &first)));
        until(|| bench.runs() == 1).await;
        let mut stop = pin!(bench.idem.shutdown(Duration::from_secs(60)));
        assert!(is_pending(stop.as_mut()).await);
        let refused = submit(&server, &second).await;
        refused.is_problem(503, ProblemType::SHUTTING_DOWN.code());
        assert!(is_pending(stop.as_mut()).await);
        gate.admit(1);
        assert_eq!(stop.await, Drained::All);
        handled(&sent.await.unwrap(), 1);
    }
}

#[tokio::test]
async fn while_the_store_is_down_forms_are_refused_and_keep_their_tokens() {
    for bench in both().await {
        let (neighbour, store) = bench.neighbour().await;
        let tokens = FormTokens::new(&neighbour, "order");
        let server = bench.serve_forms(&tokens, number).await;
        let token = issue(&tokens).await;
        store.all_down();
        let refused = while_time_passes(|it| bench.tick(it), submit(&server, &token)).await;
        refused.is_problem(503, ProblemType::STORE_UNAVAILABLE.code());
        assert_eq!(bench.runs(), 0);
        store.all_up();
        handled(&submit(&server, &token).await, 1);
    }
}

#[idempotent(mode = "strong", name = "http.of-a-form")]
async fn of_a_form() -> Result<String, Error> {
    Ok("done".to_owned())
}

/// The handler of a form runs in a task of its own; what is in place goes along.
#[tokio::test]
async fn the_ambient_token_reaches_the_handler_of_a_form() {
    for bench in both().await {
        let tokens = orders(&bench);
        let idem = bench.idem.clone();
        let answer = move |_: Run| scoped(idem.clone(), of_a_form());
        let router = counted(&bench.ledger, answer).layer(tokens.clone());
        let server = serve(router.layer(bench.layer().ambient_only())).await;
        let token = issue(&tokens).await;
        let reply = send(form(&server, &token).header(crate::client::KEY, "k")).await;
        reply.is_first(200, "done");
    }
}
