use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Reference(Option<String>);

fn main() {}
