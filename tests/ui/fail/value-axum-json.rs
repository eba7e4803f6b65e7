use idempotent_runtime::{Error, idempotent};

/// As in axum.
struct Json<T>(T);

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    id: u64,
}

#[idempotent(key = "id", mode = "strong")]
async fn create(id: u64) -> Result<Json<Order>, Error> {
    Ok(Json(Order { id }))
}

fn main() {}
