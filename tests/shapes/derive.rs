#![deny(warnings)]

use std::collections::BTreeMap;

use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
struct OrderId(u64);

#[derive(KeyPart)]
struct Unit;

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
    Transfer(OrderId, #[key_part(skip)] f64, bool),
    #[deprecated]
    Cash,
}

#[derive(KeyPart)]
enum Never {}

#[idempotent(key = "(id, unit, named, pair)", mode = "strong")]
async fn structs(
    id: OrderId,
    unit: Unit,
    named: Named<'_, str, 2>,
    pair: Pair,
) -> Result<u64, Error> {
    let Pair(_, weight, tags) = pair;
    drop((unit, named, tags));
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
    assert_eq!(structs(OrderId(1), Unit, named, pair).await.unwrap(), 1);
    assert!(pay(Payment::Card { r#type: "a".to_owned(), number: 1 }, None).await.unwrap());
    assert!(!pay(Payment::Transfer(OrderId(1), 0.5, true), None).await.unwrap());
    #[allow(deprecated)]
    let cash = Payment::Cash;
    assert!(!pay(cash, None).await.unwrap());
}
