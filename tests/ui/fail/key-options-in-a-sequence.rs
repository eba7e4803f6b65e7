use idempotent_runtime::{Error, idempotent};

struct Reservation {
    seats: Vec<Option<u32>>,
}

#[idempotent(key = "reservation.seats")]
async fn reserve(reservation: Reservation) -> Result<usize, Error> {
    Ok(reservation.seats.len())
}

#[idempotent(key = "seats")]
async fn release(seats: &[Option<u32>]) -> Result<usize, Error> {
    Ok(seats.len())
}

fn main() {}
