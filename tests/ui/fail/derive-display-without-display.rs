use idempotent_runtime::KeyPart;

struct Point;

#[derive(KeyPart)]
struct Place {
    #[key_part(display)]
    point: Point,
}

fn main() {}
