use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
#[key_part(transparent)]
struct Id(u64);

#[derive(KeyPart)]
#[key_part(display)]
struct Version(u64);

#[derive(KeyPart)]
#[key_part(rename_all = "camelCase")]
struct Order {
    order_id: u64,
}

#[derive(KeyPart)]
#[key_part(tag = "kind", crate = idempotent_runtime)]
enum Channel {
    Web,
    #[key_part(display)]
    App,
}

#[idempotent(key = "(id, version, order, channel)", mode = "strong")]
async fn create(id: Id, version: Version, order: Order, channel: Channel) -> Result<u64, Error> {
    Ok(order.order_id)
}

fn main() {}
