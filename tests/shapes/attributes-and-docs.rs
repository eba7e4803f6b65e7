#![deny(warnings)]
#![deny(missing_docs)]

//! Documented.

use idempotent_runtime::{Error, idempotent};

/// Creates.
#[must_use = "an order was created"]
#[allow(clippy::unused_async)]
#[cfg_attr(all(), inline)]
#[idempotent(key = "id", mode = "strong")]
#[deprecated = "use another"]
pub async fn create(#[allow(unused)] id: u64) -> Result<u64, Error> {
    Ok(1)
}

#[idempotent(key = "id", mode = "strong")]
async fn inner_attribute(id: u64, unused: u64) -> Result<u64, Error> {
    #![allow(unused_variables)]
    Ok(id)
}

#[idempotent(key = "(session, id)", mode = "strong")]
async fn conditional(
    #[cfg(not(target_os = "none"))] session: u64,
    #[cfg(target_os = "none")] other: u64,
    id: u64,
) -> Result<u64, Error> {
    Ok(session + id)
}

/// In a module.
pub mod orders {
    use super::*;

    #[idempotent(key = "id", mode = "strong")]
    pub(super) async fn create(id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    #[allow(deprecated)]
    let created = create(1).await;
    assert_eq!(created.unwrap(), 1);
    assert_eq!(inner_attribute(1, 2).await.unwrap(), 1);
    assert_eq!(conditional(1, 2).await.unwrap(), 3);
    assert_eq!(conditional(2, 2).await.unwrap(), 4);
    assert_eq!(orders::create(1).await.unwrap(), 1);
}
