use idempotent_runtime::{Error, idempotent};

#[idempotent(name = "voucher.once", key = "voucher", expire = "7d")]
#[idempotent(name = "voucher.per_user", key = "user", expire = "1m")]
async fn redeem(user: u64, voucher: String) -> Result<String, Error> {
    println!("{user}");
    Ok(voucher)
}

fn main() {}
