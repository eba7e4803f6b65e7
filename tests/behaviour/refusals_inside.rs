//! A refusal of a call inside a body is never the final answer of that body.

use idempotent_runtime::testing::scoped;
use idempotent_runtime::{AnswerPolicy, Attempt, Begin, Error, ErrorKind, Mode, idempotent};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Debug;
use support::{Bench, both, remote, while_time_passes};

#[idempotent(key = "id", mode = "strong", wait = 0, name = "refused.inner")]
async fn inner(id: u64) -> Result<u64, Error> {
    Ok(id)
}

/// Everything is final, as far as the functions here are concerned.
fn every<E>(_: &E) -> bool {
    true
}

/// Holds the key of `inner`, so that it is in progress.
async fn hold_inner(bench: &Bench) -> Attempt {
    match bench.idem.operation("refused.inner").key(1_u64).begin().await.unwrap() {
        Begin::Fresh(attempt) => attempt,
        other => panic!("{other:?}"),
    }
}

/// Calls `outer` while `inner` is refused and afterwards; it must have run both times.
async fn runs_again<E: Debug>(outer: impl AsyncFn(&Bench) -> Result<u64, E>) {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            let held = hold_inner(&bench).await;
            let error = outer(&bench).await.unwrap_err();
            held.fail().await.unwrap();
            assert_eq!(outer(&bench).await.unwrap(), 1, "{error:?} was kept");
        })
        .await;
        bench.at_rest().await;
    }
}

/// The second thing that people write.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum WithFrom {
    #[error("declined")]
    Declined,
    #[error(transparent)]
    Refused(#[from] Error),
}

#[idempotent(key = "id", mode = "strong", name = "refused.with_from", final_errors = every)]
async fn with_from(id: u64) -> Result<u64, WithFrom> {
    Ok(inner(id).await?)
}

#[tokio::test]
async fn a_refusal_that_an_enum_takes_over_with_from() {
    runs_again(async |_| with_from(1).await).await;
}

fn is_refused(error: &WithFrom) -> bool {
    matches!(error, WithFrom::Refused(_))
}

#[idempotent(key = "id", mode = "strong", name = "refused.asked_for", final_errors = is_refused)]
async fn asked_for(id: u64) -> Result<u64, WithFrom> {
    Ok(inner(id).await?)
}

#[tokio::test]
async fn a_refusal_that_the_function_asks_to_keep() {
    runs_again(async |_| asked_for(1).await).await;
}

#[idempotent(key = "id", mode = "strong", name = "refused.itself", final_errors = every)]
async fn itself(id: u64) -> Result<u64, Error> {
    inner(id).await
}

#[tokio::test]
async fn a_refusal_as_it_is() {
    runs_again(async |_| itself(1).await).await;
}

/// Only its sources show the refusal: it is not serialized.
#[derive(Debug, Default, thiserror::Error, Serialize, Deserialize)]
#[error("inner failed")]
struct WithSource {
    #[source]
    #[serde(skip)]
    cause: Option<Error>,
}

impl From<Error> for WithSource {
    fn from(error: Error) -> Self {
        Self { cause: Some(error) }
    }
}

#[idempotent(key = "id", mode = "strong", name = "refused.with_source", final_errors = every)]
async fn with_source(id: u64) -> Result<u64, WithSource> {
    Ok(inner(id).await?)
}

#[tokio::test]
async fn a_refusal_that_is_a_source() {
    runs_again(async |_| with_source(1).await).await;
}

/// Keeps the kind of the refusal alone.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("inner failed: {0}")]
struct WithKind(ErrorKind);

impl From<Error> for WithKind {
    fn from(error: Error) -> Self {
        Self(error.kind())
    }
}

#[idempotent(key = "id", mode = "strong", name = "refused.with_kind", final_errors = every)]
async fn with_kind(id: u64) -> Result<u64, WithKind> {
    Ok(inner(id).await?)
}

#[tokio::test]
async fn a_refusal_of_which_the_kind_is_left() {
    runs_again(async |_| with_kind(1).await).await;
}

/// A transparent variant starts its chain behind the refusal, and this one has no serialized form.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum NotSerialized {
    #[error("declined")]
    Declined,
    #[serde(skip)]
    #[error(transparent)]
    Refused(#[from] Error),
}

#[idempotent(key = "id", mode = "strong", name = "refused.not_serialized", final_errors = every)]
async fn not_serialized(id: u64) -> Result<u64, NotSerialized> {
    match id {
        0 => Err(NotSerialized::Declined),
        _ => Ok(inner(id).await?),
    }
}

#[tokio::test]
async fn a_refusal_that_cannot_be_serialized() {
    runs_again(async |_| not_serialized(1).await).await;
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("something failed")]
struct WithAnyhow(
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    #[source]
    anyhow::Error,
);

fn to_text<S: Serializer>(error: &anyhow::Error, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&error.to_string())
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<anyhow::Error, D::Error> {
    Ok(anyhow::Error::msg(String::deserialize(deserializer)?))
}

impl From<Error> for WithAnyhow {
    fn from(error: Error) -> Self {
        Self(error.into())
    }
}

#[idempotent(key = "id", mode = "strong", name = "refused.with_anyhow", final_errors = every)]
async fn with_anyhow(id: u64) -> Result<u64, WithAnyhow> {
    use anyhow::Context as _;
    inner(id).await.context("inner").context("outer").map_err(WithAnyhow)
}

#[tokio::test]
async fn a_refusal_deep_in_anyhow() {
    runs_again(async |_| with_anyhow(1).await).await;
}

#[idempotent(key = "id", mode = "strong", name = "refused.text", final_errors = every)]
async fn text(id: u64) -> Result<u64, String> {
    inner(id).await.map_err(|error| format!("inner said: {}", error.message()))
}

#[tokio::test]
async fn a_refusal_that_became_a_text() {
    runs_again(async |_| text(1).await).await;
}

/// Has neither sources nor anything of the refusal.
#[derive(Debug, Serialize, Deserialize)]
struct Failed;

impl From<Error> for Failed {
    fn from(_: Error) -> Self {
        Self
    }
}

#[idempotent(key = "id", mode = "strong", name = "refused.failed", final_errors = every)]
async fn failed(id: u64) -> Result<u64, Failed> {
    Ok(inner(id).await?)
}

#[tokio::test]
async fn a_refusal_of_which_nothing_is_left() {
    runs_again(async |_| failed(1).await).await;
}

#[idempotent(key = "id", mode = "strong", name = "refused.two_levels", final_errors = every)]
async fn two_levels(id: u64) -> Result<u64, String> {
    text(id).await
}

#[tokio::test]
async fn a_refusal_two_levels_down() {
    runs_again(async |_| two_levels(1).await).await;
}

#[idempotent(key = "id", mode = "strong", name = "refused.moved", final_errors = every, detach)]
async fn moved(id: u64) -> Result<u64, String> {
    // Makes the body wait, so that it moves to a task of its own.
    tokio::task::yield_now().await;
    text(id).await
}

#[tokio::test]
async fn a_refusal_in_a_detached_body() {
    runs_again(async |_| moved(1).await).await;
}

#[tokio::test]
async fn a_refusal_in_an_operation_by_hand() {
    runs_again(async |bench| {
        let answers = AnswerPolicy::<u64, String>::kept().final_errors(every);
        let operation = bench.idem.operation("by_hand").key(1).mode(Mode::Strong);
        Ok::<_, String>(operation.run_as(answers, text(1)).await?.value)
    })
    .await;
}

#[tokio::test]
async fn a_refusal_in_a_batch() {
    runs_again(async |bench| {
        let answers = AnswerPolicy::<u64, String>::kept().final_errors(every);
        let operation = bench.idem.operation("around_batch").key(1).mode(Mode::Strong);
        let rows = async {
            let batch = bench.idem.operation("rows").mode(Mode::Strong);
            let row = |ids: Vec<u64>| async move { vec![inner(ids[0]).await] };
            let answers = batch.run_batch([(1_u64, 1_u64)], row).await;
            let values: Result<Vec<_>, Error> = answers.into_iter().collect();
            Ok(values?[0].value)
        };
        Ok::<_, String>(operation.run_as(answers, rows).await?.value)
    })
    .await;
}

#[idempotent(key = "id", mode = "strong", name = "refused.tolerant", final_errors = every)]
async fn tolerant(id: u64) -> Result<u64, WithFrom> {
    match inner(id).await {
        Ok(_) => Ok(id),
        Err(_) => Err(WithFrom::Declined),
    }
}

#[tokio::test]
async fn an_error_that_tells_its_sources_and_has_no_refusal_is_final() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            let held = hold_inner(&bench).await;
            assert!(matches!(tolerant(1).await, Err(WithFrom::Declined)));
            held.fail().await.unwrap();
            assert!(matches!(tolerant(1).await, Err(WithFrom::Declined)), "it ran again");
        })
        .await;
    }
}

#[idempotent(key = "id", mode = "reject", name = "refused.notify")]
async fn notify(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", name = "refused.after_notice", final_errors = every)]
async fn after_notice(id: u64, is_open: bool) -> Result<u64, String> {
    match (notify(id).await, is_open) {
        (Err(error), _) if error.kind() != ErrorKind::Duplicate => Err(error.to_string()),
        (_, true) => Ok(id),
        (_, false) => Err("closed".to_owned()),
    }
}

#[tokio::test]
async fn a_text_after_a_refusal_that_no_retry_changes_is_final() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            notify(1).await.unwrap();
            assert_eq!(after_notice(1, false).await.unwrap_err(), "closed");
            assert_eq!(after_notice(1, true).await.unwrap_err(), "closed");
        })
        .await;
    }
}

#[tokio::test]
async fn a_text_after_a_lost_store_is_not_final() {
    use idempotent_runtime::testing::Verb;
    let bench = remote();
    scoped(bench.idem.clone(), async {
        let answers = AnswerPolicy::<u64, String>::kept().final_errors(every);
        let outer = || bench.idem.operation("outer").key(1).mode(Mode::Strong);
        let first = outer().run_as(answers, async {
            bench.store.down(Verb::Begin);
            let answer = inner(1).await;
            bench.store.up(Verb::Begin);
            Ok(answer?)
        });
        let error = while_time_passes(|by| bench.clock.advance(by), first).await.unwrap_err();
        assert!(error.contains("unavailable"), "{error}");
        assert_eq!(outer().run_as(answers, async { Ok(7) }).await.unwrap().value, 7);
    })
    .await;
}
