use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
#[key_part(crate = "idempotent_runtime")]
struct Version(u64);

#[derive(KeyPart)]
#[key_part(display)]
enum Channel<T: Clone> {
    Web(T),
    #[key_part(rename_all = "snake_case")]
    App { version: u64 },
}

#[idempotent(key = "(version, channel)", mode = "strong")]
async fn create(version: Version, channel: Channel<u64>) -> Result<u64, Error> {
    Ok(version.0)
}

fn main() {}
