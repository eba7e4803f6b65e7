//! Sources and syntax of keys.

use crate::bench::both;
use crate::client::{KEY, send};
use crate::server::number;
use http::{HeaderName, Method};
use idempotent_runtime::problem::ProblemType;
use support::events;

#[tokio::test]
async fn a_route_that_requires_a_key_refuses_a_request_without_one() {
    for bench in both().await {
        let server = bench.serve(bench.layer().require_key(), number).await;
        let refused = send(server.request(Method::POST, "/orders")).await;
        refused.is_problem(400, ProblemType::MISSING_KEY.code());
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
        server.post("/orders", "k").await.is_first(200, "run 1");
    }
}

#[tokio::test]
async fn an_optional_key_may_be_left_out_and_nothing_is_stored() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        for run in ["run 1", "run 2"] {
            send(server.request(Method::POST, "/orders").body("x")).await.is_first(200, run);
        }
        assert_eq!((bench.runs(), bench.records().await), (2, 0));
    }
}

#[tokio::test]
async fn what_is_not_a_key_is_refused_whether_or_not_the_route_requires_one() {
    let long = "x".repeat(256);
    let long_quoted = format!("\"{long}\"");
    let bad: [&[u8]; 15] = [
        b"",
        b"  ",
        b"\"\"",
        b"\"open",
        b"open\"",
        br#""bad \escape""#,
        br#""ends with\"#,
        b"a, b",
        b"\"a\", \"b\"",
        b"a b",
        b"\"a\" \"b\"",
        "schl\u{fc}ssel".as_bytes(),
        b"\xff\xfe",
        long.as_bytes(),
        long_quoted.as_bytes(),
    ];
    for bench in both().await {
        for layer in [bench.layer(), bench.layer().require_key(), bench.layer().ambient_only()] {
            let server = bench.serve(layer, number).await;
            for line in bad {
                let head = b"POST /orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
                let length = b"content-length: 0\r\n\r\n";
                let request =
                    [head.as_slice(), b"idempotency-key: ", line, b"\r\n", length].concat();
                server.write(&request).await.is_problem(400, ProblemType::INVALID_KEY.code());
            }
        }
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
    }
}

#[tokio::test]
async fn two_header_lines_are_refused_even_if_they_are_equal() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        for (one, two) in [("a", "a"), ("a", "b"), ("\"a\"", "a"), ("a", "")] {
            let request = format!(
                "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                 idempotency-key: {one}\r\nIdempotency-Key: {two}\r\ncontent-length: 0\r\n\r\n"
            );
            let refused = server.write(request.as_bytes()).await;
            refused.is_problem(400, ProblemType::INVALID_KEY.code());
        }
        assert_eq!(bench.runs(), 0);
    }
}

#[tokio::test]
async fn quoted_bare_and_with_parameters_are_one_key() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let first = server.post("/orders", "\"k\"").await;
        for line in ["k", "\"k\";p=1", "\"k\" ; p=1;q", "\"k\""] {
            server.post("/orders", line).await.is_replay_of(&first);
        }
        assert_eq!(bench.runs(), 1);
        server.post("/orders", r#""a \"quoted\" \\ key""#).await.is_first(200, "run 2");
    }
}

#[tokio::test]
async fn strict_keys_must_be_quoted() {
    for bench in both().await {
        let server = bench.serve(bench.layer().strict_keys(), number).await;
        server.post("/orders", "k").await.is_problem(400, ProblemType::INVALID_KEY.code());
        assert_eq!(bench.runs(), 0);
        let first = server.post("/orders", "\"k\"").await;
        for line in ["\"k\";p=1", "\"k\"; p;q=?0", "\"k\";p=\"a, b\""] {
            server.post("/orders", line).await.is_replay_of(&first);
        }
        for line in ["\"k\";;", "\"k\"; =1", "\"k\";P=1", "\"k\";a=", "\"k\" ;a=1", "\"k\";"] {
            let refused = server.post("/orders", line).await;
            refused.is_problem(400, ProblemType::INVALID_KEY.code());
        }
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn what_may_be_a_second_key_is_refused_whether_or_not_keys_are_strict() {
    for bench in both().await {
        for layer in [bench.layer(), bench.layer().strict_keys()] {
            let server = bench.serve(layer, number).await;
            for line in
                ["\"a\"; \"b\"", "\"a\";p=\"open", "\"a\";p=\"x\" \"b\"", "\"a\";p=1, \"b\""]
            {
                let refused = server.post("/orders", line).await;
                refused.is_problem(400, ProblemType::INVALID_KEY.code());
            }
        }
        assert_eq!(bench.runs(), 0);
    }
}

#[tokio::test]
async fn capital_and_small_letters_make_two_keys() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        server.post("/orders", "ABC").await.is_first(200, "run 1");
        server.post("/orders", "abc").await.is_first(200, "run 2");
    }
}

#[tokio::test]
async fn keys_of_255_characters_and_of_any_printable_ones_are_replayed() {
    let printable: String = (0x20..=0x7eu8).map(char::from).collect();
    let escaped = printable.replace('\\', "\\\\").replace('"', "\\\"");
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        for key in ["x".repeat(255), format!("\"{escaped}\"")] {
            let first = server.post("/orders", &key).await;
            server.post("/orders", &key).await.is_replay_of(&first);
        }
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn other_headers_carry_the_key_as_well_and_must_not_disagree() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        let first = server.post("/orders", "k").await;
        for alias in ["idempotent-token", "x-idempotency-key"] {
            let alone = server.request(Method::POST, "/orders").header(alias, "\"k\"");
            send(alone).await.is_replay_of(&first);
            send(server.keyed("/orders", "k").header(alias, "k")).await.is_replay_of(&first);
            let differs = send(server.keyed("/orders", "k").header(alias, "other")).await;
            differs.is_problem(400, ProblemType::INVALID_KEY.code());
            let malformed = send(server.keyed("/orders", "k").header(alias, "\"open")).await;
            malformed.is_problem(400, ProblemType::INVALID_KEY.code());
        }
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn the_headers_can_be_chosen() {
    for bench in both().await {
        let layer = bench.layer().require_key().headers([HeaderName::from_static("request-key")]);
        let server = bench.serve(layer, number).await;
        let missing = server.post("/orders", "k").await;
        missing.is_problem(400, ProblemType::MISSING_KEY.code());
        assert!(missing.text().contains("send the header request-key"), "{missing:?}");
        let chosen = || server.request(Method::POST, "/orders").header("request-key", "k");
        let first = send(chosen()).await;
        send(chosen()).await.is_replay_of(&first);
    }
}

#[tokio::test]
async fn the_query_carries_the_key_only_where_that_is_switched_on() {
    for bench in both().await {
        let server = bench.serve(bench.layer(), number).await;
        for run in ["run 1", "run 2"] {
            send(server.request(Method::POST, "/orders?token=k")).await.is_first(200, run);
        }
        let layer = bench.layer().require_key().query_parameter("token");
        let server = bench.serve(layer, number).await;
        let post = |path: &str| server.request(Method::POST, path);
        let first = send(post("/orders?x=1&token=a%20b")).await;
        send(post("/orders?x=1&token=a%20b")).await.is_replay_of(&first);
        send(post("/orders?x=1&token=a%20b").header(KEY, "\"a b\"")).await.is_replay_of(&first);
        for bad in [
            "/orders?token=",
            "/orders?token=a&token=a",
            "/orders?token=%C3%BC",
            "/orders?token=%00",
            &format!("/orders?token={}", "x".repeat(256)),
        ] {
            send(post(bad)).await.is_problem(400, ProblemType::INVALID_KEY.code());
        }
        let differs = send(post("/orders?token=a").header(KEY, "b")).await;
        differs.is_problem(400, ProblemType::INVALID_KEY.code());
        send(post("/orders?other=a")).await.is_problem(400, ProblemType::MISSING_KEY.code());
        assert_eq!(bench.runs(), 3);
    }
}

#[tokio::test]
async fn a_key_may_move_between_the_query_and_a_header() {
    for bench in both().await {
        let server = bench.serve(bench.layer().query_parameter("token"), number).await;
        let post = |path: &str| server.request(Method::POST, path).body("x");
        let first = send(post("/orders?a=1&token=k&b=2")).await;
        first.is_first(200, "run 1");
        send(post("/orders?a=1&b=2").header(KEY, "k")).await.is_replay_of(&first);
        send(post("/orders?token=k&a=1&b=2").header(KEY, "k")).await.is_replay_of(&first);
        for other in ["/orders", "/orders?a=1", "/orders?a=1&b=2&b=2", "/orders?a=1&b=2&Token=k"] {
            let differs = send(post(other).header(KEY, "k")).await;
            differs.is_problem(422, ProblemType::PAYLOAD_MISMATCH.code());
        }
        let bare = send(post("/orders?token=bare")).await;
        send(post("/orders").header(KEY, "bare")).await.is_replay_of(&bare);
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn keys_can_be_validated() {
    for bench in both().await {
        let layer = bench.layer().query_parameter("token").validate_key(|key| match key.len() {
            1 => panic!("the check panics, as it should"),
            8.. => Ok(()),
            _ => Err("a key needs 8 characters".to_owned()),
        });
        let server = bench.serve(layer, number).await;
        for refused in [
            server.post("/orders", "short").await,
            send(server.request(Method::POST, "/orders?token=short")).await,
        ] {
            refused.is_problem(400, ProblemType::INVALID_KEY.code());
            assert!(refused.text().contains("a key needs 8 characters (it was not handled)"));
        }
        let events = events::collect();
        server.post("/orders", "k").await.is_problem(500, ProblemType::MISCONFIGURED.code());
        let [panicked] = &events.take("a hook panicked, and a request was refused")[..] else {
            panic!("not told");
        };
        assert_eq!(panicked.fields["hook"], "validate_key");
        assert_eq!((bench.runs(), bench.records().await), (0, 0));
        let first = server.post("/orders", "\"long enough\"").await;
        server.post("/orders", "\"long enough\"").await.is_replay_of(&first);
        send(server.request(Method::POST, "/orders")).await.is_first(200, "run 2");
    }
}
