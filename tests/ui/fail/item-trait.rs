use idempotent_runtime::idempotent;

#[idempotent]
trait Orders {}

fn main() {}
