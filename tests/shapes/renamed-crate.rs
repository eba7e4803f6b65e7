#![deny(warnings)]

mod vendor {
    pub(crate) mod inner {
        pub(crate) use idempotent_runtime as runtime;
    }
}

use vendor::inner::runtime::{self as idem, Error, KeyPart, idempotent};

#[derive(KeyPart)]
#[key_part(crate = crate::renamed_crate::vendor::inner::runtime)]
struct Id(u64);

#[idempotent(key = "id", mode = "strong", crate = crate::renamed_crate::vendor::inner::runtime)]
async fn absolute(id: Id) -> Result<u64, Error> {
    Ok(id.0)
}

#[idempotent(key = "id", mode = "strong", crate = idem)]
async fn relative(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", crate = "vendor::inner::runtime")]
async fn quoted(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(absolute(Id(1)).await.unwrap(), 1);
    assert_eq!(relative(1).await.unwrap(), 1);
    assert_eq!(quoted(1).await.unwrap(), 1);
}
