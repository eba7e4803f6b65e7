//! Futures of attributed functions: their size grows little, and they stay `Send`.

use idempotent_runtime::{Error, Idempotency, Operation, idempotent};

async fn bare(text: &str) -> Result<u64, Error> {
    tokio::task::yield_now().await;
    Ok(text.len() as u64)
}

#[idempotent(key = "text", mode = "strong", name = "size")]
async fn wrapped(text: &str) -> Result<u64, Error> {
    tokio::task::yield_now().await;
    Ok(text.len() as u64)
}

#[idempotent(key = "text", mode = "strong", name = "size of a large body")]
async fn wrapped_large(text: &str) -> Result<u64, Error> {
    let large = [1_u8; 10_000];
    tokio::task::yield_now().await;
    Ok(text.len() as u64 + u64::from(large[text.len()]))
}

#[idempotent(key = "id", mode = "strong", name = "size of a large argument")]
async fn wrapped_large_argument(id: u64, large: [u8; 10_000]) -> Result<u64, Error> {
    tokio::task::yield_now().await;
    Ok(id + u64::from(large[0]))
}

#[test]
fn the_future_grows_by_little_more_than_half_a_kilobyte_and_does_not_hold_the_body_twice() {
    let overhead = size_of_val(&wrapped("k")) - size_of_val(&bare("k"));
    assert!(overhead <= 576, "{overhead} bytes");
    assert!(size_of_val(&wrapped_large("k")) < 12_000);
    // An async function holds its arguments, and so does its body.
    assert!(size_of_val(&wrapped_large_argument(1, [0; 10_000])) < 22_000);
}

#[test]
fn the_future_of_an_operation_holds_the_operation_once() {
    let idem = Idempotency::in_memory().unwrap();
    let future = idem.operation("size of an operation").key("k").run(bare("k"));
    let overhead = size_of_val(&future) - 2 * size_of_val(&bare("k"));
    assert!(overhead <= size_of::<Operation<'_>>() + 576, "{overhead} bytes");
}

#[test]
fn the_future_is_send_when_the_body_is() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&wrapped("k"));
}
