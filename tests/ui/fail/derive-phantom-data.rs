use std::marker::PhantomData;

use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
struct Customer(u64);

#[derive(KeyPart)]
struct Id<T> {
    raw: u64,
    entity: PhantomData<T>,
}

#[idempotent(key = "id", mode = "strong")]
async fn deactivate(id: Id<Customer>) -> Result<u64, Error> {
    Ok(id.raw)
}

fn main() {}
