#![deny(warnings)]

use std::borrow::Cow;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(Clone, KeyPart)]
struct Sku(String);

#[derive(Clone)]
struct Item {
    sku: Sku,
}

struct Request {
    id: u64,
    items: Vec<Item>,
    pair: (u64, (String, u64)),
    note: Option<String>,
}

impl Request {
    fn key(&self) -> String {
        format!("request-{}", self.id)
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    fn first(&self) -> &Item {
        &self.items[0]
    }

    fn item_ids(&self) -> Vec<Sku> {
        self.items.iter().map(|item| item.sku.clone()).collect()
    }

    fn sku(&self) -> Sku {
        self.first().sku.clone()
    }
}

impl Sku {
    fn into_text(self) -> String {
        self.0
    }
}

trait IntoText {
    fn into_text(self) -> String;
}

impl IntoText for (String, u64) {
    fn into_text(self) -> String {
        self.0
    }
}

const FIRST: usize = 0;

#[idempotent(key = "req.key()", mode = "strong")]
async fn method_call(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "req.first().sku", mode = "strong")]
async fn method_then_field(req: &Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = "req.item_ids().first()?", mode = "strong")]
async fn first_element(req: Request) -> Result<u64, Error> {
    Ok(req.items.len() as u64)
}

#[idempotent(key = req.pair.1.clone().into_text(), scope = "req.sku().into_text()", mode = "strong")]
async fn method_on_a_clone(req: Request) -> Result<u64, Error> {
    Ok(req.items.len() as u64)
}

#[idempotent(key = "sku.clone().into_text()", scope = "name.to_owned().into_bytes()", mode = "strong")]
async fn method_on_a_clone_of_a_reference(sku: &Sku, name: &str) -> Result<usize, Error> {
    Ok(sku.0.len() + name.len())
}

#[idempotent(key = "req.pair.1.0", mode = "strong")]
async fn tuple_field(req: Request) -> Result<u64, Error> {
    Ok(req.pair.0)
}

#[idempotent(key = "req.note?", mode = "strong")]
async fn optional(req: Request) -> Result<String, Error> {
    Ok(req.note.unwrap_or_default())
}

#[idempotent(key = req.note()?, fingerprint = (req.id, req.note?), mode = "strong")]
async fn optional_method(req: Request) -> Result<String, Error> {
    Ok(req.note.unwrap_or_default())
}

/// An `Option` that a type of its own or a `Cow` leads to.
struct Reference(Option<String>);

impl Deref for Reference {
    type Target = Option<String>;

    fn deref(&self) -> &Option<String> {
        &self.0
    }
}

#[idempotent(key = "(newtype.0?, newtype.as_ref()?, cow.as_ref()?)", mode = "strong")]
async fn optional_inside(newtype: Reference, cow: Cow<'_, Option<u64>>) -> Result<u64, Error> {
    drop(newtype);
    Ok(cow.unwrap_or_default())
}

struct Delivery {
    request: Option<Box<Request>>,
    twice: Option<Option<u64>>,
}

impl Delivery {
    fn place(&self) -> Option<Place> {
        Some(Place { street: "street".to_owned() })
    }
}

struct Place {
    street: String,
}

impl Place {
    fn street(&self) -> String {
        self.street.clone()
    }
}

#[idempotent(key = "delivery.request?.id", scope = delivery.place()?.street, mode = "strong")]
async fn option_on_the_way(delivery: Delivery) -> Result<bool, Error> {
    Ok(delivery.request.is_some())
}

#[idempotent(
    key = "(delivery?.request?.items.first()?.sku.clone().into_text(), n, delivery?.twice??)",
    fingerprint = "{delivery?.place()?.street()}:{n}",
    mode = "strong"
)]
async fn options_on_the_way(delivery: Option<&Delivery>, n: u64) -> Result<u64, Error> {
    Ok(n + u64::from(delivery.is_some()))
}

#[idempotent(key = "id.clone().into()", mode = "strong")]
async fn converted(id: impl Into<String> + Clone) -> Result<String, Error> {
    Ok(id.into())
}

#[idempotent(key = "user:{req.id}:{{{req.pair.0}}}:{req.note?}", mode = "strong")]
async fn template(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = (req.id, req.note?, req.first().sku), mode = "strong")]
async fn tuple(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[idempotent(key = const "nightly", mode = "strong")]
async fn constant() -> Result<u64, Error> {
    Ok(1)
}

#[idempotent(key = const FIRST, scope = const 'c', mode = "strong")]
async fn constant_path() -> Result<u64, Error> {
    Ok(1)
}

#[idempotent(key = "(a, b, c, d, e)", mode = "strong")]
async fn pointers(
    a: Arc<str>,
    b: Box<u64>,
    c: Rc<String>,
    d: &&str,
    e: Arc<Sku>,
) -> Result<usize, Error> {
    drop((b, c, e));
    Ok(a.len() + d.len())
}

#[idempotent(key = "whole", mode = "strong")]
async fn whole_argument(whole: (u64, Vec<Sku>)) -> Result<u64, Error> {
    Ok(whole.0)
}

#[idempotent(key = "req.id", mode = "reject", message = "{{{req.key()}}} of {req.pair.0} is taken")]
async fn message(req: Request) -> Result<u64, Error> {
    Ok(req.id)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let request = |id| Request {
        id,
        items: vec![Item { sku: Sku("a".to_owned()) }],
        pair: (id, ("b".to_owned(), 2)),
        note: Some("note".to_owned()),
    };
    assert_eq!(method_call(request(1)).await.unwrap(), 1);
    assert_eq!(method_then_field(&request(1)).await.unwrap(), 1);
    assert_eq!(first_element(request(1)).await.unwrap(), 1);
    assert_eq!(method_on_a_clone(request(1)).await.unwrap(), 1);
    let sku = Sku("a".to_owned());
    assert_eq!(method_on_a_clone_of_a_reference(&sku, "b").await.unwrap(), 2);
    assert_eq!(tuple_field(request(1)).await.unwrap(), 1);
    assert_eq!(optional(request(1)).await.unwrap(), "note");
    assert_eq!(optional_method(request(1)).await.unwrap(), "note");
    let reference = Reference(Some("r".to_owned()));
    assert_eq!(optional_inside(reference, Cow::Owned(Some(3))).await.unwrap(), 3);
    let delivery = |id| Delivery { request: Some(Box::new(request(id))), twice: Some(Some(3)) };
    assert!(option_on_the_way(delivery(1)).await.unwrap());
    assert_eq!(options_on_the_way(Some(&delivery(1)), 2).await.unwrap(), 3);
    assert_eq!(converted("id").await.unwrap(), "id");
    assert_eq!(template(request(1)).await.unwrap(), 1);
    assert_eq!(tuple(request(1)).await.unwrap(), 1);
    assert_eq!(message(request(7)).await.unwrap(), 7);
    let refused = message(request(7)).await.unwrap_err();
    assert_eq!(refused.message(), "{request-7} of 7 is taken");
    assert_eq!(constant().await.unwrap(), 1);
    assert_eq!(constant_path().await.unwrap(), 1);
    let arc = Arc::new(Sku("s".to_owned()));
    let pointers = pointers("ab".into(), Box::new(1), Rc::new("c".to_owned()), &"d", arc);
    assert_eq!(pointers.await.unwrap(), 3);
    assert_eq!(whole_argument((1, vec![Sku("a".to_owned())])).await.unwrap(), 1);
}
