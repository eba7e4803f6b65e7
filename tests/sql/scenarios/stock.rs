//! Stock that many callers take from: nothing is sold that is not there.

use super::{Area, in_transaction, integers, number, run, together};
use idempotent_sql::client::{Param, SqlConnection};
use idempotent_sql::entity::{EntityError, Lock, Save, Versioned, VersionedTable, lock};
use std::sync::Arc;
use tokio::sync::Barrier;

/// Pieces in stock, for more callers than that.
const PIECES: i64 = 10;

const LEFT: &str = "SELECT value FROM counters WHERE name = 'lamp'";
const COUNTERS: VersionedTable = VersionedTable::new("counters", "name", "version");

async fn fill(area: &impl Area) {
    let text = format!("INSERT INTO counters VALUES ('lamp', {PIECES}, 1)");
    run(&mut area.connection().await, &text).await;
}

async fn set(connection: &mut impl SqlConnection, left: i64) -> Result<(), EntityError> {
    let text = format!("UPDATE counters SET value = {left} WHERE name = 'lamp'");
    super::try_run(connection, &text, &[]).await?;
    Ok(())
}

async fn all_are_sold_and_no_more(area: &impl Area, sold: Vec<bool>) {
    assert_eq!(sold.into_iter().filter(|sold| *sold).count() as i64, PIECES);
    assert_eq!(number(&mut area.connection().await, LEFT).await, 0);
}

pub(crate) async fn naive_callers_sell_too_much(area: impl Area, callers: usize) {
    fill(&area).await;
    let barrier = Arc::new(Barrier::new(callers));
    let sold = together(callers, |_| {
        let (area, barrier) = (area.clone(), barrier.clone());
        async move {
            let mut connection = area.connection().await;
            let left = number(&mut connection, LEFT).await;
            barrier.wait().await;
            set(&mut connection, left - 1).await.unwrap();
            left > 0
        }
    })
    .await;
    assert!(sold.iter().all(|sold| *sold), "{callers} pieces are sold of {PIECES}");
    assert_eq!(number(&mut area.connection().await, LEFT).await, PIECES - 1);
}

pub(crate) async fn locked_stock_is_sold_once(area: impl Area, callers: usize) {
    fill(&area).await;
    let sold = together(callers, |_| {
        let area = area.clone();
        async move {
            in_transaction!(area, |tx| {
                assert_eq!(lock(&mut tx, "counters", "name", "lamp").await?, Lock::Locked);
                let left = number(&mut tx, LEFT).await;
                if left > 0 {
                    set(&mut tx, left - 1).await?;
                }
                left > 0
            })
        }
    })
    .await;
    all_are_sold_and_no_more(&area, sold).await;
}

fn columns(left: &i64) -> Vec<(&'static str, Param<'_>)> {
    vec![("value", (*left).into())]
}

pub(crate) async fn versioned_stock_is_sold_once(area: impl Area, callers: usize) {
    fill(&area).await;
    let sold = together(callers, |_| {
        let area = area.clone();
        async move {
            loop {
                let mut connection = area.connection().await;
                let look = "SELECT value, version FROM counters WHERE name = 'lamp'";
                let [left, version] = integers(&mut connection, look).await;
                if left == 0 {
                    break false;
                }
                let mut stock = Versioned::new(left, version);
                *stock -= 1;
                match stock.save(&mut connection, &COUNTERS, "lamp", columns).await {
                    Ok(Save::Saved(_)) => break true,
                    Ok(Save::Stale) => {}
                    Err(error) => assert!(error.wants_new_transaction(), "{error}"),
                }
                drop(connection);
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    all_are_sold_and_no_more(&area, sold).await;
}
