use idempotent_runtime::KeyPart;

type Seats = Vec<Option<u32>>;

#[derive(KeyPart)]
struct Reservation {
    seats: Vec<Option<u32>>,
}

#[derive(KeyPart)]
struct Release {
    id: u64,
    seats: Seats,
}

fn main() {}
