use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Upload {
    user: u64,
    file: std::path::PathBuf,
}

fn main() {}
