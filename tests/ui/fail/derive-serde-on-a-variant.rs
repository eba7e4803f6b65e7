use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
enum Payment {
    #[serde(rename = "card")]
    Card(u64),
}

fn main() {}
