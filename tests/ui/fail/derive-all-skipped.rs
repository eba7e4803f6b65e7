use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Reading {
    #[key_part(skip)]
    celsius: f64,
}

fn main() {}
