use idempotent_runtime::idempotent;

unsafe extern "C" {
    #[idempotent(key = "id")]
    fn log(id: u64, ...);
}

fn main() {}
