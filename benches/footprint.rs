//! Memory of a record in the memory store.
//!
//! `cargo bench -p idempotent-tests --bench footprint`. Resident memory of the process, so that the allocator's own
//! rounding counts; Linux only.
#![allow(missing_docs, clippy::print_stdout)]

use idempotent_runtime::{Error, Idempotency, Mode};
use support::http::resident;
use tokio::runtime::Builder;

const RECORDS: u64 = 1_000_000;

fn main() {
    let idem = Idempotency::in_memory().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let value = "x".repeat(62); // 64 bytes of JSON
    runtime.block_on(async {
        let fill = async |keys: std::ops::Range<u64>| {
            for key in keys {
                let op = idem.operation("orders.create").key(key).mode(Mode::Strong);
                op.run(async { Ok::<_, Error>(value.clone()) }).await.unwrap();
            }
        };
        fill(0..1_000).await;
        let before = resident();
        fill(1_000..RECORDS + 1_000).await;
        let each = (resident() - before) / RECORDS;
        let key = idem.operation("orders.create").key(RECORDS).record_key().unwrap();
        let length = key.as_str().len();
        println!("{each} bytes a record of 64 bytes under a key of {length}   (at most 320)");
        let counted = idem.store().usage().unwrap();
        println!("{} bytes by the store's own count", counted.bytes / counted.entries);
    });
}
