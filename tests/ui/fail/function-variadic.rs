use idempotent_runtime::idempotent;

#[idempotent(key = "id")]
unsafe extern "C" fn log(id: u64, mut _rest: ...) {
    let _ = id;
}

fn main() {}
