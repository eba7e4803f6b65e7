use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Payment {
    id: u64,
    #[serde(skip)]
    trace: String,
}

fn main() {}
