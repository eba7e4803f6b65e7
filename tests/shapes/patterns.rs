#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

struct Json<T>(T);

struct Request {
    id: u64,
    note: String,
}

#[idempotent(key = "req.id", mode = "strong")]
async fn extractor(Json(req): Json<Request>) -> Result<String, Error> {
    Ok(req.note)
}

#[idempotent(key = "id", mode = "strong")]
async fn fields(Request { id, note: text }: Request, _: bool) -> Result<String, Error> {
    Ok(format!("{id}{text}"))
}

#[idempotent(key = "(a, b)", mode = "strong")]
async fn tuple((a, mut b): (u64, u64), [first, ..]: [u64; 3]) -> Result<u64, Error> {
    b += 1;
    Ok(a + b + first)
}

#[idempotent(key = "whole.0", mode = "strong")]
async fn at(whole @ Json(_): Json<u64>, mut count: u64) -> Result<u64, Error> {
    count += whole.0;
    Ok(count)
}

#[idempotent(key = "r#type", mode = "strong")]
async fn raw(r#type: String) -> Result<String, Error> {
    Ok(r#type)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    let request = || Request { id: 1, note: "note".to_owned() };
    assert_eq!(extractor(Json(request())).await.unwrap(), "note");
    assert_eq!(fields(request(), true).await.unwrap(), "1note");
    assert_eq!(tuple((1, 2), [3, 4, 5]).await.unwrap(), 7);
    assert_eq!(at(Json(1), 2).await.unwrap(), 3);
    assert_eq!(raw("a".to_owned()).await.unwrap(), "a");
}
