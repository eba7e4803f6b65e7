use idempotent_runtime::KeyPart;

type Note = Option<String>;

#[derive(KeyPart)]
struct Reference(Note);

fn main() {}
