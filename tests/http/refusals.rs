//! Refusals by the layers: their format, and that each is reported once.

use crate::bench::{Bench, both};
use crate::client::{KEY, Reply, send};
use crate::server::{Gate, Run, Server, counted, held, number, serve};
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use http_body_util::channel::Channel;
use idempotent_http::{FormTokens, IdempotencyLayer, Streaming, problem, problem_response};
use idempotent_runtime::observe::Ending;
use idempotent_runtime::problem::{Problem, ProblemType};
use std::convert::Infallible;
use std::time::Duration;
use support::events::{self, Events};
use support::{poll_at_most, until};

/// The outcomes and the problems that were reported since the last look.
fn reported(events: &Events) -> (Vec<String>, Vec<String>) {
    let seen = events.take_all();
    let of = |message: &str, field: &str| {
        let found = seen.iter().filter(|event| event.message == message);
        found.map(|event| event.fields[field].clone()).collect()
    };
    (of("call ended", "outcome"), of("the request was refused", "problem"))
}

#[track_caller]
fn is_reported(events: &Events, ending: Ending, problem: Option<ProblemType>) {
    let problems: Vec<_> = problem.iter().map(|problem| problem.code().to_owned()).collect();
    assert_eq!(reported(events), (vec![ending.as_str().to_owned()], problems));
}

/// A service whose layer refuses for every reason of its own.
async fn strict(bench: &Bench, layer: IdempotencyLayer) -> Server {
    let layer = layer
        .require_key()
        .max_request_bytes(8)
        .new_keys_per_scope(2, Duration::from_secs(3_600))
        .scope(|parts: &Parts| match parts.headers.get("user")?.to_str().ok()? {
            "panics" => panic!("the scope panics, as it should"),
            user => Some(user.to_owned()),
        });
    bench.serve(layer, number).await
}

/// Every refusal of the layer's own, and what it is.
async fn own_refusals(server: &Server) -> Vec<(Reply, ProblemType)> {
    let post = || server.request(Method::POST, "/orders");
    let keyed = |key: &str| server.keyed("/orders", key).header("user", "ada");
    let malformed = "POST /orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\nuser: ada\r\n\
                     idempotency-key: k\r\ntransfer-encoding: chunked\r\n\r\nnot a length\r\n";
    let mut refusals = vec![
        (send(post()).await, ProblemType::MISSING_KEY),
        (send(post().header(KEY, "\"open")).await, ProblemType::INVALID_KEY),
        (send(post().header(KEY, "k")).await, problem::SCOPE_MISSING),
        (send(post().header(KEY, "k").header("user", "panics")).await, ProblemType::MISCONFIGURED),
        (send(keyed("k").body("123456789")).await, problem::BODY_TOO_LARGE),
        (server.write(malformed.as_bytes()).await, problem::BODY_INCOMPLETE),
    ];
    for key in ["1", "2"] {
        send(keyed(key)).await;
    }
    refusals.push((send(keyed("3")).await, problem::TOO_MANY_KEYS));
    // And one of the engine's.
    refusals.push((send(keyed("1").body("other")).await, ProblemType::PAYLOAD_MISMATCH));
    refusals
}

fn ending(problem: ProblemType) -> Ending {
    match problem {
        problem::TOO_MANY_KEYS => Ending::Refused,
        ProblemType::PAYLOAD_MISMATCH => Ending::Mismatch,
        _ => Ending::Invalid,
    }
}

#[tokio::test]
async fn each_request_that_the_layer_refuses_is_reported_once() {
    for bench in both().await {
        let events = events::collect();
        let server = strict(&bench, bench.layer()).await;
        let refusals = own_refusals(&server).await;
        let (outcomes, problems) = reported(&events);
        let expected: Vec<_> = refusals.iter().map(|(_, it)| it.code().to_owned()).collect();
        assert_eq!(problems, expected);
        let mut expected: Vec<_> = refusals.iter().map(|(_, it)| ending(*it).as_str()).collect();
        // The two that were handled.
        for _ in 0..2 {
            expected.insert(6, Ending::Executed.as_str());
        }
        assert_eq!(outcomes, expected);
        for (reply, problem) in &refusals {
            reply.is_problem(problem.status(), problem.code());
        }
    }
}

#[tokio::test]
async fn what_the_layer_does_not_guard_is_not_reported() {
    for bench in both().await {
        let events = events::collect();
        for layer in [bench.layer(), bench.layer().ambient_only()] {
            let server = bench.serve(layer, number).await;
            send(server.request(Method::POST, "/orders")).await;
            send(server.request(Method::GET, "/orders").header(KEY, "k")).await;
        }
        let ambient = bench.serve(bench.layer().ambient_only(), number).await;
        ambient.post("/orders", "k").await;
        assert_eq!(reported(&events), (vec![], vec![]));
        ambient.post("/orders", "\"open").await;
        is_reported(&events, Ending::Invalid, Some(ProblemType::INVALID_KEY));
    }
}

#[tokio::test]
async fn a_layer_with_a_scope_inside_one_without_is_reported() {
    for bench in both().await {
        let events = events::collect();
        let inner = bench.layer().name("inner").scope(|_| Some("acme".to_owned()));
        let router = counted(&bench.ledger, number).layer(inner).layer(bench.layer());
        let server = serve(router).await;
        server.post("/orders", "k").await.is_problem(500, ProblemType::MISCONFIGURED.code());
        let (outcomes, problems) = reported(&events);
        // The inner one's refusal is the response that the outer one handled.
        assert_eq!(outcomes, [Ending::Invalid.as_str(), Ending::Failed.as_str()]);
        assert_eq!(problems, [ProblemType::MISCONFIGURED.code()]);
    }
}

/// Leaves while it sends its body, as a client does.
async fn leaves(request: Request, next: Next) -> StatusCode {
    let (sender, body) = Channel::<Bytes, Infallible>::new(1);
    let upload = next.run(request.map(|_| Body::new(body)));
    assert!(poll_at_most(20, upload).await.is_none());
    drop(sender);
    StatusCode::OK
}

#[tokio::test]
async fn an_upload_that_is_left_is_reported_as_cancelled() {
    for bench in both().await {
        let events = events::collect();
        for router in [
            counted(&bench.ledger, number).layer(bench.layer()),
            counted(&bench.ledger, number).layer(FormTokens::new(&bench.idem, "order")),
        ] {
            let server = serve(router.layer(from_fn(leaves))).await;
            assert_eq!(server.post("/orders", "k").await.status, 200);
            is_reported(&events, Ending::Cancelled, None);
        }
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
    }
}

#[tokio::test]
async fn an_intended_stream_is_no_value_that_was_not_kept_and_a_large_response_is_one() {
    for bench in both().await {
        let events = events::collect();
        let answers = async |run: Run| match run.parts.uri.path() {
            "/extension" => (axum::Extension(Streaming), "flows").into_response(),
            "/events" => {
                let (mut sender, events) = Channel::<Bytes, Infallible>::new(1);
                tokio::spawn(async move { sender.send_data("data: 1".into()).await });
                ([("content-type", "text/event-stream")], Body::new(events)).into_response()
            }
            "/announced" => "x".repeat(65).into_response(),
            _ => ([("x-large", "y".repeat(2 << 20))], "z").into_response(),
        };
        let server = bench.serve(bench.layer().max_response_bytes(64), answers).await;
        for path in ["/extension", "/events"] {
            let live = server.post(path, "k").await;
            assert_eq!(live.header("idempotent-stored"), Some("false"));
            assert_eq!(events.take("the value is not kept").len(), 0, "{path}");
            let repeat = server.post(path, "k").await;
            repeat.is_problem(409, ProblemType::RESULT_NOT_RETAINED.code());
        }
        let large = server.post("/announced", "k").await;
        assert_eq!(large.header("idempotent-stored"), Some("false"));
        let [not_kept] = &events.take("the value is not kept")[..] else { panic!("not told") };
        assert!(not_kept.fields["reason"].contains("larger"), "{not_kept:?}");
    }
}

/// Refusals of a service with a format of its own.
fn own_format(problem: &Problem, parts: &Parts) -> Option<Response<Bytes>> {
    let text = format!("{} {}: {}", parts.method, parts.uri.path(), problem.detail());
    Response::builder().status(418).header("content-type", "text/own").body(text.into()).ok()
}

#[track_caller]
fn is_own_format(reply: &Reply, problem: ProblemType) {
    assert_eq!(reply.status, 418, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("text/own"));
    assert!(reply.text().starts_with("POST /orders: "), "{reply:?}");
    assert!(reply.text().contains("it was not handled"), "{reply:?}");
    // A client's retries, caches and layers further out go by these.
    assert_eq!(reply.header("idempotency-problem"), Some(problem.code()));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(
        reply.header("retry-after").is_some(),
        problem.is_transient() && problem != problem::BODY_INCOMPLETE
    );
}

#[tokio::test]
async fn a_service_writes_refusals_in_its_own_format() {
    for bench in both().await {
        let server = strict(&bench, bench.layer().on_refusal(own_format)).await;
        for (reply, problem) in own_refusals(&server).await {
            is_own_format(&reply, problem);
        }
        let gate = Gate::shut();
        let server = bench.serve(bench.layer().on_refusal(own_format), held(&gate)).await;
        let runs = bench.runs();
        let first = tokio::spawn(send(server.keyed("/orders", "k")));
        until(|| bench.runs() == runs + 1).await;
        is_own_format(&server.post("/orders", "k").await, ProblemType::IN_PROGRESS);
        gate.admit(1);
        assert_eq!(first.await.unwrap().status, 200);
        let status = bench.layer().on_refusal(own_format).status();
        let server = serve(axum::Router::new().route_service("/orders", status)).await;
        let unknown = send(server.request(Method::GET, "/orders").header(KEY, "none")).await;
        assert_eq!(
            (unknown.status.as_u16(), unknown.header("idempotency-problem")),
            (418, Some("unknown-key"))
        );
    }
}

#[tokio::test]
async fn a_hook_may_change_the_usual_response_or_leave_it() {
    for bench in both().await {
        let layer = bench.layer().require_key().on_refusal(|problem, parts| {
            let tenant = parts.extensions.get::<Tenant>()?;
            let mut response = problem_response(problem);
            response.headers_mut().insert("tenant", HeaderValue::from_static(tenant.0));
            response.headers_mut().insert("cache-control", HeaderValue::from_static("private"));
            Some(response)
        });
        let router = counted(&bench.ledger, number).layer(layer);
        let server = serve(router.layer(from_fn(names_the_tenant))).await;
        let changed = send(server.request(Method::POST, "/orders").header("user", "ada")).await;
        assert_eq!((changed.status.as_u16(), changed.header("tenant")), (400, Some("acme")));
        assert_eq!(changed.header("content-type"), Some("application/problem+json"));
        assert_eq!(changed.header("cache-control"), Some("private"));
        let usual = send(server.request(Method::POST, "/orders")).await;
        usual.is_problem(400, ProblemType::MISSING_KEY.code());
        assert_eq!(usual.header("tenant"), None);
    }
}

#[derive(Clone)]
struct Tenant(&'static str);

async fn names_the_tenant(mut request: Request, next: Next) -> Response {
    if request.headers().contains_key("user") {
        request.extensions_mut().insert(Tenant("acme"));
    }
    next.run(request).await
}

async fn names_the_problem(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let problem = response.extensions().get::<Problem>().map(|problem| problem.kind().code());
    let value = HeaderValue::from_static(problem.unwrap_or("none"));
    response.headers_mut().insert("seen", value);
    response
}

#[tokio::test]
async fn layers_further_out_find_the_problem_in_the_extensions() {
    for bench in both().await {
        for layer in [bench.layer(), bench.layer().on_refusal(own_format)] {
            let router = counted(&bench.ledger, number).layer(layer);
            let server = serve(router.layer(from_fn(names_the_problem))).await;
            let seen = async |key: &str, body: &'static str| {
                let reply = server.post_body("/orders", key, body).await;
                reply.header("seen").unwrap().to_owned()
            };
            assert_eq!(seen("\"open", "").await, ProblemType::INVALID_KEY.code());
            assert_eq!(seen("k", "one").await, "none");
            assert_eq!(seen("k", "one").await, "none");
            assert_eq!(seen("k", "two").await, ProblemType::PAYLOAD_MISMATCH.code());
        }
    }
}

#[tokio::test]
async fn a_hook_that_panics_is_logged_and_the_client_gets_the_usual_response() {
    for bench in both().await {
        let events = events::collect();
        let layer = bench.layer().on_refusal(|_, _| panic!("the hook panics, as it should"));
        let server = bench.serve(layer, number).await;
        server.post("/orders", "\"open").await.is_problem(400, ProblemType::INVALID_KEY.code());
        let [panicked] = &events.take("a hook panicked and was ignored")[..] else {
            panic!("not told");
        };
        assert_eq!(panicked.fields["hook"], "on_refusal");
        server.post("/orders", "k").await.is_first(200, "run 1");
    }
}

fn forms(bench: &Bench) -> FormTokens {
    let tokens = FormTokens::new(&bench.idem, "order").max_form_bytes(8);
    tokens.bound_to(|parts: &Parts| match parts.headers.get("user")?.to_str().ok()? {
        "panics" => panic!("the owner panics, as it should"),
        user => Some(user.to_owned()),
    })
}

/// Every refusal of forms, how it is counted, and what it is.
async fn form_refusals(server: &Server, tokens: &FormTokens) -> Vec<(Reply, ProblemType)> {
    let post = || server.request(Method::POST, "/orders");
    let send_as = async |user: &str, token: &str| {
        send(post().header("user", user).header("form-token", token)).await
    };
    let token = tokens.issue(Some("ada")).await.unwrap();
    let foreign = send_as("bob", &token).await;
    assert_eq!(send_as("ada", &token).await.status, 200);
    vec![
        (foreign, problem::FORM_TOKEN_FOREIGN),
        (send_as("ada", &token).await, problem::FORM_TOKEN_USED),
        (send_as("ada", "42").await, problem::FORM_TOKEN_UNKNOWN),
        (send(post().header("user", "ada")).await, problem::FORM_TOKEN_MISSING),
        (send(post()).await, problem::SCOPE_MISSING),
        (send_as("panics", &token).await, ProblemType::MISCONFIGURED),
        (send(post().body("123456789")).await, problem::BODY_TOO_LARGE),
    ]
}

#[tokio::test]
async fn each_form_is_reported_once() {
    for bench in both().await {
        let events = events::collect();
        let answers = async |run: Run| match run.number {
            2 => Err(StatusCode::BAD_GATEWAY),
            3 => panic!("the handler panics, as it should"),
            _ => Ok(number(run).await),
        };
        let tokens = forms(&bench);
        let server = serve(counted(&bench.ledger, answers).layer(tokens.clone())).await;
        let refusals = form_refusals(&server, &tokens).await;
        let (outcomes, problems) = reported(&events);
        let expected: Vec<_> = refusals.iter().map(|(_, it)| it.code().to_owned()).collect();
        assert_eq!(problems, expected);
        let invalid = Ending::Invalid.as_str();
        let (executed, rejected) = (Ending::Executed.as_str(), Ending::Rejected.as_str());
        assert_eq!(outcomes[..3], [invalid, executed, rejected]);
        assert_eq!(outcomes[3..], [invalid; 5]);
        for (reply, problem) in &refusals {
            reply.is_problem(problem.status(), problem.code());
        }

        let token = tokens.issue(Some("ada")).await.unwrap();
        let again = || server.request(Method::POST, "/orders").header("user", "ada");
        let failed = Some(problem::HANDLER_FAILED);
        for (ending, problem) in
            [(Ending::Failed, None), (Ending::Panicked, failed), (Ending::Executed, None)]
        {
            send(again().header("form-token", &token)).await;
            is_reported(&events, ending, problem);
        }
    }
}

#[tokio::test]
async fn forms_have_refusals_in_a_format_of_their_own() {
    for bench in both().await {
        let tokens = forms(&bench).on_refusal(own_format);
        let server = serve(counted(&bench.ledger, number).layer(tokens.clone())).await;
        for (reply, problem) in form_refusals(&server, &tokens).await {
            is_own_format(&reply, problem);
        }
    }
}

#[cfg(feature = "metrics")]
#[tokio::test]
async fn refusals_are_counted_by_service_outcome_and_problem() {
    use idempotent_runtime::observe::names;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    for bench in both().await {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let counted_since = || -> Vec<(String, String, u64)> {
            let snapshot = snapshotter.snapshot().into_vec().into_iter();
            let mut counts: Vec<_> = snapshot
                .filter_map(|(key, _, _, value)| {
                    let DebugValue::Counter(count) = value else { return None };
                    let labels = key.key().labels().map(|it| it.value().to_owned());
                    let labels: Vec<_> = labels.collect();
                    (count > 0).then(|| (key.key().name().to_owned(), labels.join(" "), count))
                })
                .filter(|(name, ..)| {
                    [names::CALLS, names::REFUSALS, names::NOT_KEPT].contains(&&**name)
                })
                .collect();
            counts.sort();
            counts
        };
        let _guard = metrics::set_default_local_recorder(&recorder);
        let streams = async |_: Run| (axum::Extension(Streaming), "flows");
        let server = bench.serve(bench.layer().require_key(), streams).await;
        let mut unkeyed = std::pin::pin!(send(server.request(Method::POST, "/orders")));
        (&mut unkeyed).await;
        server.post("/orders", "k").await;
        server.post("/orders", "k").await;
        let row = |name: &str, labels: &str| (name.to_owned(), labels.to_owned(), 1);
        let mut expected = vec![
            row(names::CALLS, "shop invalid"),
            row(names::CALLS, "shop executed"),
            row(names::CALLS, "shop replayed"),
            row(names::REFUSALS, "shop missing-key"),
            row(names::REFUSALS, "shop result-not-retained"),
        ];
        expected.sort();
        assert_eq!(counted_since(), expected);
    }
}
