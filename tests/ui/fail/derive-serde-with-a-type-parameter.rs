use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Payment<T> {
    id: u64,
    #[serde(skip)]
    trace: T,
}

fn main() {}
