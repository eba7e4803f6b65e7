//! A PostgreSQL store under test. Time passes for it when its records expire earlier.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{Store, StoreFuture};
use idempotent_runtime::testing::Subject;
use idempotent_sql::{PostgresBuilder, PostgresStore};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

pub(crate) struct PostgresSubject {
    store: Arc<PostgresStore>,
    client: Client,
}

impl PostgresSubject {
    pub(crate) async fn new(url: &str) -> Self {
        // The machine may be busy.
        let builder = PostgresStore::builder(url).timeout(Duration::from_secs(30));
        Self::with(url, builder).await
    }

    pub(crate) async fn with(url: &str, builder: PostgresBuilder) -> Self {
        let store = builder.connect().await.unwrap();
        store.migrate().await.unwrap();
        Self { store: Arc::new(store), client: connect(url).await }
    }
}

impl PostgresSubject {
    pub(crate) fn server_version(&self) -> u64 {
        self.store.server_version()
    }

    pub(crate) fn is_pooled(&self) -> bool {
        self.store.is_pooled()
    }
}

/// A connection of the test's own.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Subject for PostgresSubject {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    fn step<'a>(&'a self, keys: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        StoreFuture::new(async move {
            let micros = by.as_micros() as i64;
            for key in keys {
                let text = "UPDATE idempotent_records \
                            SET expires_at = expires_at - $2 * interval '1 microsecond' \
                            WHERE coalesce(long_key, key) = $1";
                let key = key.as_str().as_bytes();
                self.client.execute(text, &[&key, &(micros as f64)]).await.unwrap();
            }
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Runs futures at the same time.
pub(crate) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(|it| (Box::pin(it), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in &mut futures {
            if output.is_none()
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        match futures.iter().all(|(_, output)| output.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}
