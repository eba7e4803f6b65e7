//! Attributed functions are handlers of axum, which asks for `Send` futures.
#![deny(warnings)]

use std::borrow::Cow;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use idempotent_runtime::{Error, Idempotency, idempotent};

struct Refused(Error);

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (StatusCode::CONFLICT, self.0.to_string()).into_response()
    }
}

#[idempotent(key = "id", mode = "reject")]
async fn opaque(Path(id): Path<u64>) -> Result<impl IntoResponse, Refused> {
    Ok((StatusCode::CREATED, id.to_string()))
}

#[idempotent(key = "id", mode = "strong")]
async fn cow(Path(id): Path<u64>) -> Result<Cow<'static, str>, Refused> {
    Ok(id.to_string().into())
}

#[idempotent(key = "id", mode = "reject")]
async fn text(Path(id): Path<u64>) -> Result<&'static str, Refused> {
    let _ = id;
    Ok("text")
}

#[idempotent(key = "id", mode = "strong", with = idem)]
async fn with(
    State(idem): State<Idempotency>,
    Path(id): Path<u64>,
) -> Result<Cow<'static, str>, Refused> {
    tokio::task::yield_now().await;
    Ok(id.to_string().into())
}

#[idempotent(key = "id", mode = "strong", detach)]
async fn detached(Path(id): Path<u64>) -> Result<Cow<'static, str>, Refused> {
    Ok(id.to_string().into())
}

pub(crate) fn main() {
    let _router: Router = Router::new()
        .route("/opaque/{id}", get(opaque))
        .route("/cow/{id}", get(cow))
        .route("/text/{id}", get(text))
        .route("/with/{id}", get(with))
        .route("/detached/{id}", get(detached))
        .with_state(Idempotency::in_memory().unwrap());
}
