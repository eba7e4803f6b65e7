use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
enum Payment {
    Cash(f64),
    Free,
}

fn main() {}
