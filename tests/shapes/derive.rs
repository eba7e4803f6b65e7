#![deny(warnings)]

use std::collections::BTreeMap;
use std::marker::PhantomData;

use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
struct OrderId(u64);

#[derive(KeyPart)]
struct Named<'a, T: ?Sized, const N: usize>
where
    T: 'a,
{
    text: &'a T,
    numbers: [u8; N],
    #[key_part(skip)]
    _weight: f64,
}

#[derive(KeyPart)]
struct Pair(OrderId, #[key_part(skip)] f64, BTreeMap<String, u64>);

#[derive(KeyPart)]
enum Payment {
    Card {
        r#type: String,
        number: u64,
    },
    #[key_part(rename = "Wire")]
    Transfer(OrderId, #[key_part(skip)] f64, bool),
    #[deprecated]
    Cash,
}

#[derive(KeyPart)]
enum Never {}

struct Uri(&'static str);

impl std::fmt::Display for Uri {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

#[derive(KeyPart)]
struct Shown<T>(#[key_part(display)] T);

#[derive(KeyPart)]
struct Optional<T, U> {
    note: Option<String>,
    #[key_part(display)]
    uri: T,
    #[key_part(display)]
    from: std::option::Option<Uri>,
    both: U,
}

/// Attributes of serde are for serde, and mean nothing to the key.
#[derive(serde::Serialize, serde::Deserialize, KeyPart)]
#[serde(rename_all = "camelCase")]
struct Stored<T> {
    #[serde(rename = "number")]
    id: u64,
    #[serde(skip)]
    trace: String,
    #[serde(default)]
    of: T,
}

#[derive(KeyPart, serde::Serialize)]
enum Written {
    #[serde(rename = "first")]
    First {
        #[serde(skip)]
        id: u64,
    },
}

/// A type parameter that only a skipped field names need not be part of a key.
#[derive(KeyPart)]
struct Typed<T> {
    raw: u64,
    #[key_part(skip)]
    of: PhantomData<T>,
}

struct Customer;

#[idempotent(key = "id", mode = "strong")]
async fn typed(id: Typed<Customer>) -> Result<u64, Error> {
    let _ = id.of;
    Ok(id.raw)
}

#[idempotent(key = "(stored, written)", mode = "strong")]
async fn stored(stored: Stored<u8>, written: Written) -> Result<u64, Error> {
    let Written::First { id } = written;
    Ok(stored.id + stored.trace.len() as u64 + u64::from(stored.of) + id)
}

#[idempotent(key = "(shown, optional)", mode = "strong")]
async fn shown(shown: Shown<Uri>, optional: Optional<Uri, u8>) -> Result<usize, Error> {
    let Optional { note, uri, from, both } = optional;
    drop((note, from, both));
    Ok(shown.0.0.len() + uri.0.len())
}

#[idempotent(key = "(id, named, pair)", mode = "strong")]
async fn structs(
    id: OrderId,
    named: Named<'_, str, 2>,
    pair: Pair,
) -> Result<u64, Error> {
    let Pair(_, weight, tags) = pair;
    drop((named, tags));
    Ok(id.0 + weight as u64)
}

#[idempotent(key = "payment", mode = "strong")]
async fn pay(payment: Payment, never: Option<Never>) -> Result<bool, Error> {
    Ok(match payment {
        Payment::Card { .. } => never.is_none(),
        Payment::Transfer(_, weight, _) => weight > 1.0,
        #[allow(deprecated)]
        Payment::Cash => false,
    })
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let named = Named { text: "a", numbers: [1, 2], _weight: 0.5 };
    let pair = Pair(OrderId(1), 0.5, BTreeMap::new());
    assert_eq!(structs(OrderId(1), named, pair).await.unwrap(), 1);
    assert!(pay(Payment::Card { r#type: "a".to_owned(), number: 1 }, None).await.unwrap());
    assert!(!pay(Payment::Transfer(OrderId(1), 0.5, true), None).await.unwrap());
    let optional =
        Optional { note: None, uri: Uri("a:b"), from: Some(Uri("c:d")), both: 1 };
    assert_eq!(shown(Shown(Uri("e:f")), optional).await.unwrap(), 6);
    let _ = Customer;
    assert_eq!(typed(Typed { raw: 7, of: PhantomData }).await.unwrap(), 7);
    for (trace, id, sum) in [("a", 1, 3), ("bc", 1, 4), ("bc", 2, 5)] {
        let request = Stored { id: 1, trace: trace.to_owned(), of: 0 };
        assert_eq!(stored(request, Written::First { id }).await.unwrap(), sum);
    }
    #[allow(deprecated)]
    let cash = Payment::Cash;
    assert!(!pay(cash, None).await.unwrap());
}
