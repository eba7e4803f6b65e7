use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Reading {
    sensor: String,
    #[key_part = "skip"]
    taken_at: u64,
}

#[derive(KeyPart)]
struct Sample {
    sensor: String,
    #[key_part]
    value: u64,
}

fn main() {}
