#![deny(warnings)]

use std::time::Duration;

use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum OrderError {
    Refused,
    Idempotency,
}

impl OrderError {
    fn is_final(&self) -> bool {
        matches!(self, Self::Refused)
    }
}

impl From<Error> for OrderError {
    fn from(_: Error) -> Self {
        Self::Idempotency
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
}

struct Request {
    id: u64,
    tenant: String,
    amount: u64,
    currency: String,
}

const RETENTION: Duration = Duration::from_secs(600);

fn count(order: &Order) {
    assert_eq!(order.id, 1);
}

fn retention(order: &Order) -> Duration {
    Duration::from_secs(order.id)
}

#[idempotent(
    key = "req.id",
    expire = RETENTION,
    mode = "strong",
    message = "order {req.id} of {req.tenant} is submitted",
    wait = "300ms",
    lease = 30,
    max_run = "1h",
    name = "orders.create",
    shared_name,
    scope = "req.tenant",
    fingerprint = (req.amount, req.currency),
    bind_payload_after_failure,
    final_errors = OrderError::is_final,
    abandon = "block",
    on_store_error = "refuse",
    on_unrecorded = "error",
    on_replay = count,
    expire_with = retention,
    with = idem,
    crate = ::idempotent_runtime,
)]
async fn create(req: Request, idem: &Idempotency) -> Result<Order, OrderError> {
    if req.amount == 0 {
        return Err(OrderError::Refused);
    }
    Ok(Order { id: req.id })
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let idem = Idempotency::builder().build().unwrap();
    for _ in 0..2 {
        let req = Request { id: 1, tenant: "acme".into(), amount: 5, currency: "EUR".into() };
        assert_eq!(create(req, &idem).await.unwrap(), Order { id: 1 });
    }
    let req = Request { id: 2, tenant: "acme".into(), amount: 0, currency: "EUR".into() };
    assert!(matches!(create(req, &idem).await, Err(OrderError::Refused)));
}
