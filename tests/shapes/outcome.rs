//! Functions that tell whether their value is a replay.
#![deny(warnings)]

use idempotent_runtime::{Error, Idempotency, Mode, Outcome, Recorded, idempotent};

/// An alias: nothing depends on the name of the type.
type Told<T> = Result<Outcome<T>, Error>;

#[idempotent(key = "id", mode = "strong", name = "outcome.attached", with = idem)]
async fn attached(idem: &Idempotency, id: u64) -> Result<Outcome<String>, Error> {
    Ok(format!("order {id}").into())
}

#[idempotent(key = "id", mode = "strong", detach)]
async fn detached(id: u64) -> Told<u64> {
    tokio::task::yield_now().await;
    Ok(Outcome::new(id))
}

#[idempotent(key = "id", mode = "strong", on_replay = replayed, expire_with = retention)]
async fn with_hooks(id: u64) -> Told<u64> {
    Ok(id.into())
}

fn replayed(_: &Outcome<u64>) {}

fn retention(outcome: &Outcome<u64>) -> std::time::Duration {
    std::time::Duration::from_secs(outcome.value)
}

/// A value that is no value to keep: nothing is replayed in this mode.
#[idempotent(key = "id", mode = "reject")]
async fn reject(id: u64) -> Result<Outcome<std::time::Instant>, Error> {
    let _ = id;
    Ok(std::time::Instant::now().into())
}

/// A `Result` is a value if both of its types are.
#[idempotent(key = "id", mode = "strong")]
async fn result(id: u64) -> Told<Result<u64, String>> {
    Ok(Outcome::new(Ok(id)))
}

#[idempotent(key = "id", mode = "strong")]
async fn written_result<T>(id: u64, value: T) -> Result<Outcome<Result<Option<T>, String>>, Error>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let _ = id;
    Ok(Outcome::new(Ok(Some(value))))
}

/// Told apart by the type alone.
#[idempotent(key = "id", mode = "strong")]
async fn generic<T>(id: u64, value: T) -> Result<Outcome<T>, Error>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let _ = id;
    Ok(value.into())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let idem = Idempotency::in_memory().unwrap();
    let first = attached(&idem, 7).await.unwrap();
    assert_eq!((first.replayed, first.attempt, first.recorded), (false, 1, Recorded::Yes));
    let again = attached(&idem, 7).await.unwrap();
    assert_eq!((again.replayed, again.attempt, again.recorded), (true, 1, Recorded::Yes));
    assert_eq!(again.value, "order 7");
    // The value alone is stored.
    let by_hand = idem.operation("outcome.attached").key(7_u64).mode(Mode::Strong);
    let body = async { unreachable!("it is replayed") };
    assert_eq!(by_hand.run::<String, Error, _>(body).await.unwrap(), "order 7");

    for expected in [false, true] {
        assert_eq!(detached(1).await.unwrap().replayed, expected);
        assert_eq!(with_hooks(60).await.unwrap().replayed, expected);
        let told = generic(1, 9_u8).await.unwrap();
        assert_eq!((told.value, told.replayed), (9, expected));
    }
    assert_eq!(result(1).await.unwrap().value, Ok(1));
    assert_eq!(written_result(1, 9_u8).await.unwrap().value, Ok(Some(9)));
    assert!(!reject(1).await.unwrap().replayed);
}
