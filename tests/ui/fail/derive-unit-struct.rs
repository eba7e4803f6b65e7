use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Nightly;

fn main() {}
