use idempotent_runtime::idempotent;

#[derive(Debug)]
enum Error {
    NotFound,
}

#[idempotent(key = "id")]
async fn create(id: u64) -> Result<u64, Error> {
    match id {
        0 => Err(Error::NotFound),
        id => Ok(id),
    }
}

fn main() {}
