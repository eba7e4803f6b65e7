use idempotent_runtime::idempotent;

#[idempotent]
mod orders {}

fn main() {}
