use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
#[key_part(rename_all = "snake_case")]
enum Channel {
    EMail,
    PushMessage,
}

#[idempotent(key = "(user, channel)", mode = "reject", expire = "10m")]
async fn notify(user: u64, channel: Channel) -> Result<(), Error> {
    Ok(())
}

fn main() {}
