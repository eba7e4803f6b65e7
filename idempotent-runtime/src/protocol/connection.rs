//! Connections to records, and the execution of requests on them.

use super::exchange::{Action, Exchange};
use super::request::Request;
use crate::key::RecordKey;
use crate::store::{Record, Store, StoreError, Swap, Swapped};
use std::future::Future;

/// Access to records: a store, or a borrowed transaction of the database that has them.
///
/// An implementation MUST do in each method what [`Store`] asks of the method with the same name.
pub trait Connection: Send {
    /// Reads the record and its remaining time to live, as of one moment. See [`Store::load`].
    fn load(
        &mut self,
        key: &RecordKey,
    ) -> impl Future<Output = Result<Option<Record>, StoreError>> + Send;

    /// Replaces a record on a condition. See [`Store::swap`].
    fn swap(
        &mut self,
        key: &RecordKey,
        swap: Swap,
    ) -> impl Future<Output = Result<Swapped, StoreError>> + Send;

    /// Makes sure that earlier writes to the key cannot be lost. See [`Store::confirm`].
    fn confirm(&mut self, key: &RecordKey) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = key;
        async { Ok(()) }
    }
}

impl<S: Store + ?Sized> Connection for &S {
    async fn load(&mut self, key: &RecordKey) -> Result<Option<Record>, StoreError> {
        Store::load(*self, key).await
    }

    async fn swap(&mut self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        Store::swap(*self, key, swap).await
    }

    async fn confirm(&mut self, key: &RecordKey) -> Result<(), StoreError> {
        Store::confirm(*self, key).await
    }
}

/// Executes a request on a connection.
///
/// # Errors
/// Those of the connection, or [`Contended`](crate::store::StoreErrorKind::Contended) if the record
/// changed each time it was read.
pub async fn execute<R: Request>(
    connection: &mut impl Connection,
    key: &RecordKey,
    request: R,
) -> Result<R::Answer, StoreError> {
    let mut exchange = Exchange::new(request);
    let action = exchange.action()?;
    go_on(connection, key, exchange, action).await
}

/// Drives an exchange to its end, beginning with this action.
pub(super) async fn go_on<R: Request>(
    connection: &mut impl Connection,
    key: &RecordKey,
    mut exchange: Exchange<R>,
    mut action: Action<R::Answer>,
) -> Result<R::Answer, StoreError> {
    loop {
        match action {
            Action::Load => {
                let loaded = connection.load(key).await?;
                exchange.loaded(loaded);
            }
            Action::Swap(swap) => {
                let swapped = connection.swap(key, swap).await?;
                if let Some(answer) = exchange.swapped(swapped) {
                    return Ok(answer);
                }
            }
            Action::Confirm(answer) => {
                connection.confirm(key).await?;
                return Ok(answer);
            }
            Action::Answer(answer) => return Ok(answer),
        }
        action = exchange.action()?;
    }
}
