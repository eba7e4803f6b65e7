use idempotent_runtime::idempotent;

#[idempotent(key = "id", mode = "strong")]
mod payments {
    use idempotent_runtime::Error;

    pub async fn capture(id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

fn main() {
    drop(payments::capture(1));
}
