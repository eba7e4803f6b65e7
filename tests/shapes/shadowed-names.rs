#![deny(warnings)]
#![allow(dead_code, non_camel_case_types)]

use idempotent_runtime::{Error, idempotent};

mod core {}
mod std {}
mod alloc {}
mod idempotent_macros {}

struct Result;
struct Option;
struct String;
struct Vec;
struct Box;
struct Duration;
struct Pin;
struct Future;
struct Site;
struct Call;
struct Mode;
struct KeyPart;
struct Encoded;
struct Ok;
struct Err;
struct Some;
struct None;

fn key() {}
fn run() {}
fn replay() {}

macro_rules! concat {
    () => {};
}
macro_rules! module_path {
    () => {};
}
macro_rules! pin {
    () => {};
}

type Answer<T> = ::core::result::Result<T, Error>;

#[idempotent(key = "id", mode = "strong", expire = "5m", wait = "10ms")]
async fn create(id: u64) -> Answer<u64> {
    Answer::Ok(id)
}

#[derive(idempotent_runtime::KeyPart)]
enum Part {
    Ok(u64),
    None,
}

#[idempotent(key = "part", mode = "reject")]
async fn derived(part: Part) -> Answer<()> {
    match part {
        Part::Ok(_) | Part::None => Answer::Ok(()),
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    concat!();
    module_path!();
    pin!();
    assert_eq!(create(1).await.unwrap(), 1);
    derived(Part::Ok(1)).await.unwrap();
    derived(Part::None).await.unwrap();
}
