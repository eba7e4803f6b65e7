use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
enum Contact {
    Mail(String),
    #[key_part(rename = "Mail")]
    Newsletter(String),
}

#[idempotent(key = "contact", mode = "reject", expire = "1h")]
async fn write_to(contact: Contact) -> Result<(), Error> {
    Ok(())
}

fn main() {}
