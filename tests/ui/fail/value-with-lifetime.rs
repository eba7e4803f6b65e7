use idempotent_runtime::{Error, idempotent};

#[derive(serde::Serialize, serde::Deserialize)]
struct Greeting<'a> {
    user: &'a str,
}

#[idempotent(key = "name", mode = "strong")]
async fn greet<'a>(name: &'a str) -> Result<Greeting<'a>, Error> {
    Ok(Greeting { user: name })
}

fn main() {}
