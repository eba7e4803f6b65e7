#![deny(warnings)]

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::State;
use idempotent_runtime::store::{MemoryStore, Store};
use idempotent_runtime::{Error, Idempotency, idempotent};

struct Orders {
    idem: Idempotency,
}

impl Orders {
    #[idempotent(name = "orders.field", key = "id", mode = "strong", with = self.idem)]
    async fn field(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    #[idempotent(name = "orders.method", key = "id", mode = "strong", with = self.idem())]
    async fn method(&mut self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    fn idem(&self) -> &Idempotency {
        &self.idem
    }
}

#[idempotent(key = "id", mode = "strong", with = idem)]
async fn shared(id: u64, idem: Arc<Idempotency>) -> Result<usize, Error> {
    Ok(id as usize + Arc::strong_count(&idem))
}

static INSTANCE: std::sync::LazyLock<Idempotency> =
    std::sync::LazyLock::new(|| Idempotency::in_memory().unwrap());

#[idempotent(key = "id", mode = "strong", with = INSTANCE)]
async fn in_a_static(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", detach, with = crate::with::INSTANCE)]
async fn by_its_path(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = self::INSTANCE)]
async fn by_a_relative_path(id: u64) -> Result<u64, Error> {
    Ok(id)
}

/// Built for each call, with the records of all.
#[idempotent(
    key = "id",
    mode = "strong",
    with = Idempotency::builder().shared_store(Arc::clone(store)).build().expect("valid settings")
)]
async fn of_a_store(store: &Arc<dyn Store>, id: u64) -> Result<usize, Error> {
    Ok(Arc::strong_count(store) + id as usize)
}

#[idempotent(key = "id", mode = "strong", with = Idempotency::builder().disabled().build().unwrap())]
async fn unprotected(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = *idem)]
async fn dereferenced(id: u64, idem: &Idempotency) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = idem)]
async fn borrowed(id: u64, idem: &Idempotency) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = idem)]
async fn shared_and_borrowed(id: u64, idem: &Arc<Idempotency>) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = idem)]
async fn in_state(State(idem): State<Idempotency>, id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = state)]
async fn state(state: State<Idempotency>, id: u64) -> Result<u64, Error> {
    drop(state);
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = state)]
async fn state_around_arc(state: State<Arc<Idempotency>>, id: u64) -> Result<u64, Error> {
    drop(state);
    Ok(id)
}

/// As `web::Data` of actix.
struct Data<T: ?Sized>(Arc<T>);

impl<T: ?Sized> Deref for Data<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

#[idempotent(key = "id", mode = "strong", with = data)]
async fn data(data: Data<Idempotency>, id: u64) -> Result<u64, Error> {
    drop(data);
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = data.idem)]
async fn field_of_data(data: Data<Orders>, id: u64) -> Result<u64, Error> {
    drop(data);
    Ok(id)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!((in_a_static(1).await.unwrap(), by_its_path(1).await.unwrap()), (1, 1));
    assert_eq!((by_a_relative_path(1).await.unwrap(), unprotected(1).await.unwrap()), (1, 1));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = of_a_store(&store, 1).await.unwrap();
    assert_eq!(of_a_store(&store, 1).await.unwrap(), first);
    let idem = Idempotency::builder().build().unwrap();
    let mut orders = Orders { idem: idem.clone() };
    assert_eq!(orders.field(1).await.unwrap(), 1);
    assert_eq!(orders.method(1).await.unwrap(), 1);
    assert_eq!(dereferenced(1, &idem).await.unwrap(), 1);
    assert_eq!(borrowed(1, &idem).await.unwrap(), 1);
    let arc = Arc::new(idem.clone());
    assert_eq!(shared_and_borrowed(1, &arc).await.unwrap(), 1);
    assert_eq!(in_state(State(idem.clone()), 1).await.unwrap(), 1);
    assert_eq!(state(State(idem.clone()), 1).await.unwrap(), 1);
    assert_eq!(state_around_arc(State(Arc::clone(&arc)), 1).await.unwrap(), 1);
    assert_eq!(data(Data(arc), 1).await.unwrap(), 1);
    assert_eq!(field_of_data(Data(Arc::new(orders)), 1).await.unwrap(), 1);
    assert_eq!(shared(1, Arc::new(idem)).await.unwrap(), 2);
}
