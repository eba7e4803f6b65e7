use idempotent_runtime::{Error, idempotent};

#[idempotent(key = "(user, form)", mode = "window", expire = "5s", message = "{key} was submitted already")]
async fn submit(user: u64, form: String) -> Result<String, Error> {
    Ok(format!("{user}: {form}"))
}

fn main() {}
