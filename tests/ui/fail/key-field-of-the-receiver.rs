use idempotent_runtime::{Error, idempotent};

struct Mailer {
    sender: String,
}

struct Mail {
    id: u64,
}

impl Mailer {
    #[idempotent(name = "mail.send", key = "sender")]
    async fn send(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    #[idempotent(name = "mail.forward", key = "(mail.id, sender)")]
    async fn forward(&self, mail: Mail) -> Result<String, Error> {
        Ok(format!("{}:{}", self.sender, mail.id))
    }
}

fn main() {}
