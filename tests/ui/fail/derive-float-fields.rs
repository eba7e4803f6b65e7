use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
struct Position {
    lat: f64,
    lon: f64,
}

fn main() {}
