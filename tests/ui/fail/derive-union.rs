use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
union Bits {
    signed: i32,
    unsigned: u32,
}

fn main() {
    let _ = Bits { signed: 1 };
    let _ = Bits { unsigned: 1 };
}
