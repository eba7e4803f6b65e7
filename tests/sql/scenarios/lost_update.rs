//! Counting up by reading, adding and writing: lost updates, and the two ways without any.

use super::{Area, in_transaction, integers, number, together};
use idempotent_sql::client::{Param, SqlConnection};
use idempotent_sql::entity::{
    EntityError, EntityErrorKind, Lock, Save, Versioned, VersionedTable, lock,
};
use std::sync::Arc;
use tokio::sync::Barrier;

const COUNTERS: VersionedTable = VersionedTable::new("counters", "name", "version");

fn columns(value: &i64) -> Vec<(&'static str, Param<'_>)> {
    vec![("value", (*value).into())]
}

fn wrong_columns(value: &i64) -> Vec<(&'static str, Param<'_>)> {
    vec![("value = 7; --", (*value).into())]
}

async fn read(connection: &mut impl SqlConnection) -> i64 {
    number(connection, "SELECT value FROM counters WHERE name = 'visits'").await
}

async fn write(connection: &mut impl SqlConnection, value: i64) -> Result<(), EntityError> {
    let text = format!("UPDATE counters SET value = {value} WHERE name = 'visits'");
    super::try_run(connection, &text, &[]).await?;
    Ok(())
}

async fn total(area: &impl Area) -> i64 {
    read(&mut area.connection().await).await
}

/// Every caller reads before the first one writes, which is what a busy day brings about.
pub(crate) async fn naive_increments_are_lost(area: impl Area, callers: usize) {
    let barrier = Arc::new(Barrier::new(callers));
    together(callers, |_| {
        let (area, barrier) = (area.clone(), barrier.clone());
        async move {
            let mut connection = area.connection().await;
            let value = read(&mut connection).await;
            barrier.wait().await;
            write(&mut connection, value + 1).await.unwrap();
        }
    })
    .await;
    assert_eq!(total(&area).await, 1);
}

pub(crate) async fn locked_increments_are_kept(area: impl Area, callers: usize) {
    together(callers, |_| {
        let area = area.clone();
        async move {
            in_transaction!(area, |tx| {
                let locked = lock(&mut tx, "counters", "name", "visits").await?;
                assert_eq!(locked, Lock::Locked);
                let value = read(&mut tx).await;
                tokio::task::yield_now().await;
                write(&mut tx, value + 1).await?;
            })
        }
    })
    .await;
    assert_eq!(total(&area).await, callers as i64);
}

pub(crate) async fn versioned_increments_are_kept(area: impl Area, callers: usize) {
    let stale: usize = together(callers, |_| {
        let area = area.clone();
        async move {
            let mut stale = 0;
            loop {
                let mut connection = area.connection().await;
                let look = "SELECT value, version FROM counters WHERE name = 'visits'";
                let [value, version] = integers(&mut connection, look).await;
                let mut counter = Versioned::new(value, version);
                *counter += 1;
                tokio::task::yield_now().await;
                match counter.save(&mut connection, &COUNTERS, "visits", columns).await {
                    Ok(Save::Saved(saved)) => {
                        assert_eq!(saved, version + 1);
                        break stale;
                    }
                    Ok(Save::Stale) => stale += 1,
                    Err(error) => assert!(error.wants_new_transaction(), "{error}"),
                }
                drop(connection);
                tokio::task::yield_now().await;
            }
        }
    })
    .await
    .into_iter()
    .sum();
    assert_eq!(total(&area).await, callers as i64, "{stale} times stale");
    let mut connection = area.connection().await;
    let version = number(&mut connection, "SELECT version FROM counters").await;
    assert_eq!(version, callers as i64 + 1);
}

/// A value is saved once, at the version at which it was read.
pub(crate) async fn stale_values_are_not_saved(area: impl Area) {
    let mut connection = area.connection().await;
    let at = |value, version| Versioned::new(value, version);
    let saved = at(5, 1).save(&mut connection, &COUNTERS, "visits", columns).await.unwrap();
    assert_eq!(saved, Save::Saved(2));
    // Also where nothing but the version would change.
    let saved = at(5, 2).save(&mut connection, &COUNTERS, "visits", columns).await.unwrap();
    assert_eq!(saved, Save::Saved(3));
    for version in [1, 2, 4] {
        let saved = at(6, version).save(&mut connection, &COUNTERS, "visits", columns).await;
        assert_eq!(saved.unwrap(), Save::Stale);
    }
    let saved = at(6, 3).save(&mut connection, &COUNTERS, "nobody", columns).await.unwrap();
    assert_eq!(saved, Save::Stale);
    drop(connection);
    assert_eq!(total(&area).await, 5);
    let mut connection = area.connection().await;
    let error =
        at(6, 3).save(&mut connection, &COUNTERS, "visits", wrong_columns).await.unwrap_err();
    assert_eq!(error.kind(), EntityErrorKind::Invalid);
}

/// A lock that ends with the statement is none.
pub(crate) async fn lock_needs_a_transaction_and_a_row(area: impl Area) {
    let mut connection = area.connection().await;
    let error = lock(&mut connection, "counters", "name", "visits").await.unwrap_err();
    assert_eq!(error.kind(), EntityErrorKind::NoTransaction, "{error}");
    drop(connection);
    let mut tx = area.begin().await.unwrap();
    assert_eq!(lock(&mut tx, "counters", "name", "visits").await.unwrap(), Lock::Locked);
    assert_eq!(lock(&mut tx, "counters", "name", "nobody").await.unwrap(), Lock::NotFound);
}
