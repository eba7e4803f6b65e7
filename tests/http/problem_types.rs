//! Types of problems: URIs that clients compare, under no host or under the service's own.

use crate::bench::both;
use crate::client::{KEY, Reply, send};
use crate::server::{counted, number, serve};
use http::{HeaderValue, Method};
use idempotent_http::{FormTokens, problem, problem_response};
use idempotent_runtime::problem::{ProblemType, TypeBase};

const OWN: &str = "https://shop.example/problems#";

fn own() -> TypeBase {
    OWN.parse().unwrap()
}

#[track_caller]
fn is_under_own(reply: &Reply, kind: ProblemType) {
    reply.is_problem_under(OWN, kind.status(), kind.code());
}

#[tokio::test]
async fn a_layer_names_all_types_under_the_address_of_its_service() {
    for bench in both().await {
        let layer = bench.layer().require_key().problem_base(own());
        let status = layer.status().for_route(Method::POST, "/orders");
        let router = counted(&bench.ledger, number).layer(layer);
        let server = serve(router.route_service("/status", status)).await;

        let unkeyed = send(server.request(Method::POST, "/orders")).await;
        is_under_own(&unkeyed, ProblemType::MISSING_KEY);
        server.post_body("/orders", "k", "one").await.is_first(200, "run 1");
        let other = server.post_body("/orders", "k", "two").await;
        is_under_own(&other, ProblemType::PAYLOAD_MISMATCH);
        let unknown = send(server.request(Method::GET, "/status").header(KEY, "none")).await;
        is_under_own(&unknown, problem::UNKNOWN_KEY);
    }
}

#[tokio::test]
async fn forms_name_types_under_the_address_of_their_service() {
    for bench in both().await {
        let tokens = FormTokens::new(&bench.idem, "order").problem_base(own());
        let server = serve(counted(&bench.ledger, number).layer(tokens)).await;
        let without = send(server.request(Method::POST, "/orders")).await;
        is_under_own(&without, problem::FORM_TOKEN_MISSING);
    }
}

#[tokio::test]
async fn a_hook_gets_the_problem_with_the_address_of_its_service() {
    for bench in both().await {
        let hooked = |layer: idempotent_http::IdempotencyLayer| {
            layer.on_refusal(|problem, _| {
                let mut response = problem_response(problem);
                let uri = HeaderValue::from_str(&problem.type_uri()).ok()?;
                response.headers_mut().insert("problem-type", uri);
                Some(response)
            })
        };
        // In either order.
        for layer in
            [hooked(bench.layer().problem_base(own())), hooked(bench.layer()).problem_base(own())]
        {
            let server = bench.serve(layer, number).await;
            let invalid = server.post("/orders", "\"open").await;
            is_under_own(&invalid, ProblemType::INVALID_KEY);
            assert_eq!(invalid.header("problem-type"), Some(&*format!("{OWN}invalid-key")));
        }
    }
}
