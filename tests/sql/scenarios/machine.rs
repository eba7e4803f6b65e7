//! Promises of a state machine.

use super::{Area, ORDERS, OrderStatus, in_transaction, number, run, together};
use idempotent_sql::client::{Param, SqlConnection};
use idempotent_sql::entity::{EntityError, EntityErrorKind};
use idempotent_sql::transitions::{Transition, TransitionOutcome};
use std::collections::HashMap;

use OrderStatus::{Cancelled, Paid, Pending, Shipped};
use TransitionOutcome::{Again, Applied, Conflict, NotAllowed, NotFound};

async fn apply<A: Area>(
    area: &A,
    transition: Transition<OrderStatus>,
    id: &str,
) -> TransitionOutcome<OrderStatus> {
    in_transaction!(area, |tx| ORDERS.apply(&mut tx, 1, transition, id).await?)
}

/// Adds the effect of a transition to the transaction that applies it.
async fn effect(tx: &mut impl SqlConnection, what: &str) -> Result<(), EntityError> {
    super::run(tx, &format!("INSERT INTO effects VALUES (1, '{what}')")).await;
    Ok(())
}

/// Callers with two ids: one applies the event, the others learn by which of the two.
pub(crate) async fn one_of_many_applies(area: impl Area, callers: usize) {
    let answers = together(callers, |caller| {
        let area = area.clone();
        let id = if caller % 2 == 0 { "even" } else { "odd" };
        async move {
            let answer = in_transaction!(area, |tx| {
                let answer = ORDERS.apply(&mut tx, 1, OrderStatus::pay(), id).await?;
                if matches!(answer, Applied { .. }) {
                    effect(&mut tx, id).await?;
                }
                answer
            });
            (id, answer)
        }
    })
    .await;
    let (winner, _) =
        answers.iter().find(|(_, it)| matches!(it, Applied { .. })).expect("one applies");
    let count = |wanted: &TransitionOutcome<OrderStatus>| {
        answers.iter().filter(|(_, answer)| answer == wanted).count()
    };
    assert_eq!(count(&Applied { from: Pending, to: Paid }), 1, "{answers:?}");
    assert_eq!(count(&Again), callers / 2 - 1, "{answers:?}");
    assert_eq!(count(&Conflict { by: (*winner).to_owned() }), callers / 2, "{answers:?}");
    let mut connection = area.connection().await;
    assert_eq!(number(&mut connection, "SELECT count(*) FROM effects").await, 1);
    assert_eq!(ORDERS.history(&mut connection, 1).await.unwrap().len(), 1);
}

/// The same, by looking and then writing: every caller that looked in time has the effect.
pub(crate) async fn look_then_write_applies_many_times(area: impl Area, callers: usize) {
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(callers));
    together(callers, |_| {
        let (area, barrier) = (area.clone(), barrier.clone());
        async move {
            let mut connection = area.connection().await;
            let look = "SELECT count(*) FROM orders WHERE id = 1 AND status = 'pending'";
            let is_pending = number(&mut connection, look).await == 1;
            barrier.wait().await;
            if is_pending {
                run(&mut connection, "UPDATE orders SET status = 'paid' WHERE id = 1").await;
                run(&mut connection, "INSERT INTO effects VALUES (1, 'naive')").await;
            }
        }
    })
    .await;
    let mut connection = area.connection().await;
    let effects = number(&mut connection, "SELECT count(*) FROM effects").await;
    assert_eq!(effects, callers as i64, "every caller has charged the customer");
}

/// A repeat is a success without effect, in every later state; another id is not.
pub(crate) async fn repeats_are_recognised_after_later_transitions(area: impl Area) {
    assert_eq!(apply(&area, OrderStatus::pay(), "a").await, Applied { from: Pending, to: Paid });
    assert_eq!(apply(&area, OrderStatus::pay(), "a").await, Again);
    assert_eq!(apply(&area, OrderStatus::ship(), "s").await, Applied { from: Paid, to: Shipped });
    assert_eq!(apply(&area, OrderStatus::pay(), "a").await, Again);
    assert_eq!(apply(&area, OrderStatus::pay(), "A").await, Conflict { by: "a".to_owned() });
    assert_eq!(apply(&area, OrderStatus::pay(), "a ").await, Conflict { by: "a".to_owned() });
    assert_eq!(apply(&area, OrderStatus::cancel(), "c").await, NotAllowed { from: Shipped });
    let mut connection = area.connection().await;
    let history = ORDERS.history(&mut connection, 1).await.unwrap();
    let shown: Vec<_> =
        history.iter().map(|it| [&*it.event, &*it.id, &*it.from, &*it.to].join(" ")).collect();
    assert_eq!(shown, ["pay a pending paid", "ship s paid shipped"]);
}

/// An event with several sources and targets reports the states between which it led, and may
/// happen again under another id.
pub(crate) async fn events_may_happen_again_in_a_circle(area: impl Area) {
    assert_eq!(apply(&area, OrderStatus::pay(), "1").await, Applied { from: Pending, to: Paid });
    assert_eq!(apply(&area, OrderStatus::undo(), "2").await, Applied { from: Paid, to: Pending });
    assert_eq!(apply(&area, OrderStatus::pay(), "1").await, Again);
    assert_eq!(apply(&area, OrderStatus::pay(), "3").await, Applied { from: Pending, to: Paid });
    assert_eq!(apply(&area, OrderStatus::pay(), "4").await, Conflict { by: "3".to_owned() });
    assert_eq!(apply(&area, OrderStatus::ship(), "5").await, Applied { from: Paid, to: Shipped });
    assert_eq!(apply(&area, OrderStatus::undo(), "6").await, Applied { from: Shipped, to: Paid });
    let cancelled = Applied { from: Paid, to: Cancelled };
    assert_eq!(apply(&area, OrderStatus::cancel(), "7").await, cancelled);
    assert_eq!(apply(&area, OrderStatus::undo(), "6").await, Again);
}

/// Callers that go round in circles, each id several times: no id is applied twice, the log leads
/// from one state to the next, and its end is the state of the row.
pub(crate) async fn circles_keep_the_log(area: impl Area, callers: usize) {
    const ROUNDS: usize = 12;
    let answers = together(callers, |caller| {
        let area = area.clone();
        async move {
            let mut applied = Vec::new();
            for round in 0..ROUNDS {
                // Four callers share their ids.
                let id = format!("{}-{round}", caller / 4);
                let event = if round % 2 == 0 { OrderStatus::pay() } else { OrderStatus::undo() };
                if let Applied { .. } = apply(&area, event, &id).await {
                    applied.push((event.event(), id));
                }
            }
            applied
        }
    })
    .await;
    let mut times: HashMap<_, usize> = HashMap::new();
    for applied in answers.into_iter().flatten() {
        *times.entry(applied).or_default() += 1;
    }
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    let mut connection = area.connection().await;
    let history = ORDERS.history(&mut connection, 1).await.unwrap();
    assert_eq!(history.len(), times.len());
    let mut state = "pending".to_owned();
    for entry in &history {
        assert_eq!(entry.from, state);
        state.clone_from(&entry.to);
    }
    let look = format!("SELECT count(*) FROM orders WHERE id = 1 AND status = '{state}'");
    assert_eq!(number(&mut connection, &look).await, 1, "the log ends in {state}");
}

/// A transaction that is rolled back leaves neither the state nor the log.
pub(crate) async fn rollback_leaves_nothing(area: impl Area) {
    let mut tx = area.begin().await.unwrap();
    let answer = ORDERS.apply(&mut tx, 1, OrderStatus::pay(), "a").await.unwrap();
    assert_eq!(answer, Applied { from: Pending, to: Paid });
    // Inside, it is there.
    assert_eq!(ORDERS.apply(&mut tx, 1, OrderStatus::pay(), "a").await.unwrap(), Again);
    drop(tx);
    assert_eq!(apply(&area, OrderStatus::pay(), "b").await, Applied { from: Pending, to: Paid });
}

/// Rows that are missing, states that are unknown and keys that cannot be one are told apart.
pub(crate) async fn everything_else_is_told(area: impl Area) {
    let answer =
        in_transaction!(area, |tx| { ORDERS.apply(&mut tx, 99, OrderStatus::pay(), "a").await? });
    assert_eq!(answer, NotFound);
    assert_eq!(apply(&area, OrderStatus::ship(), "a").await, NotAllowed { from: Pending });

    let mut connection = area.connection().await;
    run(&mut connection, "INSERT INTO orders VALUES (2, 'lost')").await;
    let mut tx = area.begin().await.unwrap();
    let error = ORDERS.apply(&mut tx, 2, OrderStatus::pay(), "a").await.unwrap_err();
    assert_eq!(error.kind(), EntityErrorKind::UnknownState, "{error}");
    drop(tx);

    let mut tx = area.begin().await.unwrap();
    for id in ["", &"a".repeat(701), "a\0"] {
        let error = ORDERS.apply(&mut tx, 1, OrderStatus::pay(), id).await.unwrap_err();
        assert_eq!(error.kind(), EntityErrorKind::Invalid, "{error}");
    }
    let longest = "é".repeat(350);
    let answer = ORDERS.apply(&mut tx, 1, OrderStatus::pay(), &longest).await.unwrap();
    assert!(answer.has_happened());
    assert_eq!(ORDERS.apply(&mut tx, 1, OrderStatus::pay(), &longest).await.unwrap(), Again);
}

/// An entity that was removed with its log can be created again.
pub(crate) async fn forgotten_entities_begin_again(area: impl Area) {
    assert!(apply(&area, OrderStatus::pay(), "a").await.has_happened());
    in_transaction!(area, |tx| {
        run(&mut tx, "DELETE FROM orders WHERE id = 1").await;
        ORDERS.forget(&mut tx, 1).await?;
        run(&mut tx, "INSERT INTO orders VALUES (1, 'pending')").await;
    });
    assert_eq!(apply(&area, OrderStatus::pay(), "a").await, Applied { from: Pending, to: Paid });
}

/// Without a transaction the statements could be separated; nothing is changed.
pub(crate) async fn several_statements_need_a_transaction(area: impl Area) {
    let mut connection = area.connection().await;
    let error = ORDERS.apply(&mut connection, 1, OrderStatus::pay(), "a").await.unwrap_err();
    assert_eq!(error.kind(), EntityErrorKind::NoTransaction, "{error}");
    let look = "SELECT count(*) FROM orders WHERE status = 'pending'";
    assert_eq!(number(&mut connection, look).await, 1);
    assert!(ORDERS.history(&mut connection, 1).await.unwrap().is_empty());
    // The connection is as it was.
    run(&mut connection, "INSERT INTO effects VALUES (1, 'after')").await;
    drop(connection);
    let mut connection = area.connection().await;
    assert_eq!(number(&mut connection, "SELECT count(*) FROM effects").await, 1);
}

/// Keys of texts and byte strings.
pub(crate) async fn keys_are_texts_and_bytes(area: impl Area, bytes: &str) {
    use idempotent_sql::StateMachine;
    const TEXTS: StateMachine<OrderStatus> = StateMachine::new("texts", "order", "group");
    const BYTES: StateMachine<OrderStatus> =
        StateMachine::new("bytes", "id", "status").log_table("transitions_of_bytes");
    let mut connection = area.connection().await;
    let quote = match connection.database() {
        idempotent_sql::client::Database::MySql => '`',
        _ => '"',
    };
    let texts = "CREATE TABLE texts (\"order\" VARCHAR(64) PRIMARY KEY, \"group\" VARCHAR(32))";
    run(&mut connection, &texts.replace('"', &quote.to_string())).await;
    run(&mut connection, "INSERT INTO texts VALUES ('it''s', 'pending')").await;
    run(
        &mut connection,
        &format!("CREATE TABLE bytes (id {bytes} PRIMARY KEY, status VARCHAR(9))"),
    )
    .await;
    BYTES.migrate(&mut connection).await.unwrap();
    let insert = match connection.database() {
        idempotent_sql::client::Database::Postgres => "INSERT INTO bytes VALUES ($1, 'pending')",
        _ => "INSERT INTO bytes VALUES (?, 'pending')",
    };
    let key = [0, 255, 39];
    super::try_run(&mut connection, insert, &[Param::from(&key[..])]).await.unwrap();
    for expected in [Applied { from: Pending, to: Paid }, Again] {
        let answer = in_transaction!(area, |tx| {
            TEXTS.apply(&mut tx, "it's", OrderStatus::pay(), 7).await?
        });
        assert_eq!(answer, expected);
        let answer = in_transaction!(area, |tx| {
            BYTES.apply(&mut tx, &key[..], OrderStatus::pay(), 7).await?
        });
        assert_eq!(answer, expected);
    }
}

/// A column that has a key twice is refused, whatever is found first.
pub(crate) async fn ambiguous_keys_are_refused(area: impl Area) {
    use idempotent_sql::StateMachine;
    const TWINS: StateMachine<OrderStatus> = StateMachine::new("twins", "id", "status");
    let mut connection = area.connection().await;
    run(&mut connection, "CREATE TABLE twins (id BIGINT, status VARCHAR(32))").await;
    run(&mut connection, "INSERT INTO twins VALUES (1, 'pending'), (1, 'pending')").await;
    let mut tx = area.begin().await.unwrap();
    let error = TWINS.apply(&mut tx, 1, OrderStatus::pay(), "a").await.unwrap_err();
    assert_eq!(error.kind(), EntityErrorKind::NotUnique, "{error}");
}

/// A missing log names the call that creates it.
pub(crate) async fn missing_log_is_explained(area: impl Area) {
    let mut connection = area.connection().await;
    run(&mut connection, "DROP TABLE idempotent_transitions").await;
    let mut tx = area.begin().await.unwrap();
    let error = ORDERS.apply(&mut tx, 1, OrderStatus::pay(), "a").await.unwrap_err();
    assert!(error.to_string().contains("StateMachine::migrate"), "{error}");
}
