use idempotent_runtime::Idempotency;

fn main() {
    Idempotency::builder().store("redis://127.0.0.1/").build().unwrap().install().unwrap();
}
