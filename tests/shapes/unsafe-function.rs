#![deny(warnings)]

use idempotent_runtime::{Error, idempotent};

/// # Safety
///
/// `value` is valid for reads.
#[idempotent(key = "id", mode = "strong")]
async unsafe fn read(id: u64, value: &u64) -> Result<u64, Error> {
    let pointer: *const u64 = value;
    Ok(id + unsafe { *pointer })
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(unsafe { read(1, &2) }.await.unwrap(), 3);
}
