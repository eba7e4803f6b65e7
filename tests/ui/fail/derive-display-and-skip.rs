use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Place {
    id: u64,
    #[key_part(display, skip)]
    point: f64,
}

fn main() {}
