use idempotent_runtime::KeyPart;

struct UserId(u64);

#[derive(KeyPart)]
struct Order {
    id: u64,
    user: UserId,
}

fn main() {}
