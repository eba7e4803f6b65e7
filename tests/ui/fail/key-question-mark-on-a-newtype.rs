use idempotent_runtime::{Error, idempotent};

struct Reference(Option<String>);

impl std::ops::Deref for Reference {
    type Target = Option<String>;

    fn deref(&self) -> &Option<String> {
        &self.0
    }
}

#[idempotent(key = "reference?")]
async fn create(reference: Reference) -> Result<u64, Error> {
    drop(reference);
    Ok(1)
}

fn main() {}
