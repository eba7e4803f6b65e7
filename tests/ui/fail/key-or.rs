use idempotent_runtime::{Error, idempotent};

struct Checkout {
    token: Option<String>,
    order_id: String,
}

#[idempotent(key = "req.token || req.order_id")]
async fn check_out(req: Checkout) -> Result<String, Error> {
    Ok(req.order_id)
}

fn main() {}
