use idempotent_runtime::{ErrorKind, idempotent};

enum OrderError {
    Refused(ErrorKind),
}

impl From<ErrorKind> for OrderError {
    fn from(kind: ErrorKind) -> Self {
        Self::Refused(kind)
    }
}

#[idempotent(key = "id")]
async fn create(id: u64) -> Result<u64, OrderError> {
    Ok(id)
}

fn main() {}
