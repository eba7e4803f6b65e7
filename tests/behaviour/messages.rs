//! Messages with the values of the call that is refused.

use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Error, idempotent};
use support::both;

#[idempotent(
    key = "order.id",
    mode = "reject",
    message = "order {order.id} of {{{order.customer()}}} exists",
    name = "message"
)]
async fn place(order: Order) -> Result<u64, Error> {
    Ok(order.id)
}

struct Order {
    id: u64,
    customer: String,
}

impl Order {
    fn customer(&self) -> &str {
        &self.customer
    }
}

#[tokio::test]
async fn a_message_has_the_values_of_the_call_that_is_refused() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            let order = |id| Order { id, customer: "{ada}".to_owned() };
            place(order(7)).await.unwrap();
            place(order(8)).await.unwrap();
            let refused = place(order(7)).await.unwrap_err();
            assert_eq!(refused.message(), "order 7 of {{ada}} exists");
            assert_eq!(place(order(8)).await.unwrap_err().message(), "order 8 of {{ada}} exists");
        })
        .await;
    }
}

#[idempotent(key = "id", mode = "reject", message = "{seats:?} of {id} are taken", name = "debug")]
async fn reserve(id: u64, seats: Vec<&str>) -> Result<u64, Error> {
    drop(seats);
    Ok(id)
}

#[tokio::test]
async fn a_message_shows_a_value_as_debug_does() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            reserve(1, vec!["a"]).await.unwrap();
            let refused = reserve(1, vec!["a", "b"]).await.unwrap_err();
            assert_eq!(refused.message(), "[\"a\", \"b\"] of 1 are taken");
        })
        .await;
    }
}

#[idempotent(key = "id", mode = "reject", message = "{{id}} is taken", detach, name = "braces")]
async fn take(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(
    key = "id",
    mode = "reject",
    message = "{id} is taken",
    detach,
    name = "a message of a detached body"
)]
async fn take_detached(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[tokio::test]
async fn doubled_braces_of_a_message_are_braces() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            take(1).await.unwrap();
            assert_eq!(take(1).await.unwrap_err().message(), "{id} is taken");
            take_detached(1).await.unwrap();
            assert_eq!(take_detached(1).await.unwrap_err().message(), "1 is taken");
        })
        .await;
    }
}
