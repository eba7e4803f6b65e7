use idempotent_runtime::idempotent;

#[idempotent(key = "id", mode = "strong")]
async fn hook(id: u64) -> Box<dyn Fn() + Send> {
    Box::new(|| {})
}

fn main() {}
