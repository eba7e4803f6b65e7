#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

macro_rules! operation {
    ($name:ident, $operation:literal, $key:literal, $expire:expr, $returns:ty) => {
        #[idempotent(name = $operation, key = $key, expire = $expire, mode = "strong")]
        async fn $name(id: u64, text: String) -> $returns {
            Ok(format!("{id}{text}"))
        }
    };
}

operation!(first, "ops.first", "id", 300, Result<String, Error>);
operation!(second, "ops.second", "{id}:{text}", "5m", Result<String, Error>);

macro_rules! parameter_from_outside {
    ($name:ident, $parameter:ident, $ty:ty, $body:expr) => {
        #[idempotent(key = $parameter, mode = "strong")]
        async fn $name($parameter: $ty) -> Result<$ty, Error> {
            Ok($body)
        }
    };
}

parameter_from_outside!(bare, id, u64, id + 1);

macro_rules! quoted_key_from_inside {
    ($name:ident, $id:ident, $body:expr) => {
        #[idempotent(key = "id", mode = "strong")]
        async fn $name($id: u64) -> Result<u64, Error> {
            Ok($body)
        }
    };
}

quoted_key_from_inside!(mixed, id, id + 2);

macro_rules! key_from_outside {
    ($name:ident, $key:expr) => {
        #[idempotent(key = $key, mode = "strong")]
        async fn $name(id: u64, user: u64) -> Result<u64, Error> {
            Ok(id + user)
        }
    };
}

key_from_outside!(outside, (id, user));

macro_rules! one_name_for_two {
    ($name:ident, $id:ident) => {
        #[idempotent(key = $id, mode = "strong")]
        async fn $name($id: u64, id: u64) -> Result<u64, Error> {
            Ok(id)
        }
    };
}

one_name_for_two!(two, id);

struct Orders {
    tenant: String,
}

macro_rules! method {
    ($name:ident, $key:literal) => {
        impl Orders {
            #[idempotent(name = "orders.macro", key = $key, mode = "strong")]
            async fn $name(&self, id: u64) -> Result<String, Error> {
                Ok(format!("{}{id}", self.tenant))
            }
        }
    };
}

method!(look, "(self.tenant, id)");

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(first(1, "a".to_owned()).await.unwrap(), "1a");
    assert_eq!(second(1, "a".to_owned()).await.unwrap(), "1a");
    assert_eq!(bare(1).await.unwrap(), 2);
    assert_eq!(outside(1, 2).await.unwrap(), 3);
    assert_eq!(outside(1, 3).await.unwrap(), 4);
    assert_eq!(two(1, 5).await.unwrap(), 5);
    assert_eq!(two(1, 6).await.unwrap(), 5);
    assert_eq!(two(2, 6).await.unwrap(), 6);
    assert_eq!(mixed(1).await.unwrap(), 3);
    assert_eq!(Orders { tenant: "acme".to_owned() }.look(1).await.unwrap(), "acme1");
}
