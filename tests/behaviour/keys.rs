//! Keys of every size and with every character; missing and invalid ones.

use idempotent_runtime::key::{Encoded, Parts};
use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Error, ErrorKind, KeyPart, idempotent};
use support::{both, local};

#[tokio::test]
async fn keys_of_any_content_keep_apart_and_come_back() {
    let keys = [
        "k".to_owned(),
        "x".repeat(255),
        "y".repeat(10_000),
        " ".to_owned(),
        "line\nbreak".to_owned(),
        "nul\0byte".to_owned(),
        "co:lon".to_owned(),
        "{brace}".to_owned(),
        "}{".to_owned(),
        "pipe|bar".to_owned(),
        "quote\"d".to_owned(),
        "grüße 東京 🦀".to_owned(),
    ];
    for bench in both() {
        for round in 0..2 {
            for key in &keys {
                let op = bench.idem.operation("keys").key(key);
                let answer = op.run_detailed(async { Ok::<_, Error>(key.clone()) }).await.unwrap();
                assert_eq!((&answer.value, answer.replayed), (key, round == 1));
            }
        }
    }
}

#[tokio::test]
async fn an_empty_key_is_invalid_and_a_huge_one_too() {
    let bench = local();
    for key in [String::new(), "x".repeat(64 * 1024)] {
        let op = bench.idem.operation("keys").key(&key);
        let error = op.run(async { Ok::<u8, Error>(1) }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidKey);
        assert!(!error.body_ran());
    }
}

#[derive(KeyPart)]
struct Line {
    sku: String,
    size: Size,
}

#[derive(KeyPart)]
enum Size {
    One,
    Custom { width: u8, height: u8 },
}

#[derive(KeyPart)]
struct OrderId(u64);

#[derive(KeyPart)]
struct Request {
    id: OrderId,
    lines: Vec<Line>,
    token: OptionalToken,
}

#[derive(KeyPart)]
struct OptionalToken(#[key_part(skip)] Option<String>, u8);

fn encoded(part: &impl KeyPart) -> String {
    Encoded::of(part).as_str().to_owned()
}

#[test]
fn derived_keys_are_frozen() {
    assert_eq!(encoded(&OrderId(7)), "7");
    assert_eq!(encoded(&Size::One), "One");
    assert_eq!(encoded(&Size::Custom { width: 1, height: 2 }), "Custom(1,2)");
    let request = Request {
        id: OrderId(7),
        lines: vec![Line { sku: "a".into(), size: Size::One }],
        token: OptionalToken(Some("secret".into()), 3),
    };
    assert!(request.token.0.is_some(), "left out of the key, not of the request");
    assert_eq!(encoded(&request), r#"(7,[("a",One)],(3))"#);
}

struct Uri(&'static str);

impl std::fmt::Display for Uri {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

#[derive(KeyPart)]
struct Link(#[key_part(display)] Uri);

#[derive(KeyPart)]
struct Visit {
    page: u64,
    note: Option<String>,
    #[key_part(display)]
    to: Uri,
    #[key_part(display)]
    from: Option<Uri>,
}

#[derive(KeyPart)]
enum Seat {
    At(Option<u8>),
    Free,
}

#[test]
fn derived_keys_with_optional_and_displayed_fields_are_frozen() {
    assert_eq!(encoded(&Link(Uri("a:b"))), r#""a:b""#);
    let visit = |note: Option<&str>, from| {
        encoded(&Visit { page: 7, note: note.map(str::to_owned), to: Uri("a:\"b"), from })
    };
    assert_eq!(visit(None, None), r#"(7,?,"a:\"b",?)"#);
    assert_eq!(visit(Some("x"), Some(Uri("c:d"))), r#"(7,"x","a:\"b","c:d")"#);
    assert_eq!(encoded(&Seat::At(None)), "At(?)");
    assert_eq!(encoded(&Seat::At(Some(3))), "At(3)");
    assert_eq!(encoded(&Seat::Free), "Free");
}

#[test]
fn a_field_that_is_none_is_like_no_field_with_a_value() {
    let visit = |note: Option<&str>| {
        encoded(&Visit { page: 7, note: note.map(str::to_owned), to: Uri(""), from: None })
    };
    for text in ["", "?", "_", "None", "()", "\"?\"", ",?"] {
        assert_ne!(visit(None), visit(Some(text)), "{text:?}");
    }
}

#[derive(Clone)]
struct Call {
    user: u64,
    token: Option<String>,
}

#[idempotent(key = "call.token?", mode = "strong", name = "optional")]
async fn optional(call: Call) -> Result<u64, Error> {
    Ok(call.user)
}

#[idempotent(key = "user:{call.user}:token:{call.token?}", mode = "strong", name = "template")]
async fn template(call: Call) -> Result<u64, Error> {
    Ok(call.user)
}

#[idempotent(key = "call.user", scope = "tenant", mode = "strong", name = "scoped")]
async fn by_tenant(tenant: &str, call: Call) -> Result<String, Error> {
    Ok(tenant.to_owned())
}

#[idempotent(key = const "nightly", mode = "strong", name = "constant")]
async fn nightly(run: u64) -> Result<u64, Error> {
    Ok(run)
}

#[tokio::test]
async fn an_absent_optional_key_is_missing() {
    let bench = local();
    let call = Call { user: 1, token: None };
    scoped(bench.idem.clone(), async {
        let error = optional(call.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingKey);
        assert_eq!(template(call.clone()).await.unwrap_err().kind(), ErrorKind::MissingKey);
        let given = Call { token: Some("t".into()), ..call };
        assert_eq!(optional(given.clone()).await.unwrap(), 1);
        assert_eq!(template(given).await.unwrap(), 1);
    })
    .await;
    let key = Parts::template().text("user:").part(&1).text(":token:").part("t").finish();
    let record = bench.idem.operation("template").encoded_key(key).get().await.unwrap();
    assert!(record.is_some(), "an operator cannot name the key of a template");
}

#[idempotent(key = "(call?.user, call?.token?)", mode = "strong", name = "on_the_way")]
async fn on_the_way(call: Option<Call>) -> Result<u64, Error> {
    Ok(call.map_or(0, |call| call.user))
}

#[tokio::test]
async fn a_value_that_is_absent_on_the_way_is_as_missing_as_one_at_the_end() {
    let bench = local();
    scoped(bench.idem.clone(), async {
        for call in [None, Some(Call { user: 1, token: None })] {
            let error = on_the_way(call).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::MissingKey);
            assert!(!error.body_ran());
        }
        let call = Call { user: 1, token: Some("t".into()) };
        assert_eq!(on_the_way(Some(call)).await.unwrap(), 1);
    })
    .await;
    let key = Parts::tuple().part(&1).part("t").finish();
    let record = bench.idem.operation("on_the_way").encoded_key(key).get().await.unwrap();
    assert!(record.is_some(), "`?` on the way changes the key");
}

#[tokio::test]
async fn tenants_keep_apart() {
    let bench = local();
    let call = Call { user: 1, token: None };
    scoped(bench.idem.clone(), async {
        assert_eq!(by_tenant("a", call.clone()).await.unwrap(), "a");
        assert_eq!(by_tenant("b", call.clone()).await.unwrap(), "b");
        assert_eq!(by_tenant("a", call).await.unwrap(), "a");
    })
    .await;
}

#[tokio::test]
async fn a_constant_key_is_one_key() {
    let bench = local();
    scoped(bench.idem.clone(), async {
        assert_eq!(nightly(1).await.unwrap(), 1);
        assert_eq!(nightly(2).await.unwrap(), 1);
    })
    .await;
}
