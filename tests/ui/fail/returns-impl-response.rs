use idempotent_runtime::idempotent;

trait IntoResponse {}

struct Json<T>(T);

impl<T> IntoResponse for Json<T> {}

#[idempotent(key = "id")]
async fn create(Json(id): Json<u64>) -> impl IntoResponse {
    Json(id)
}

fn main() {}
