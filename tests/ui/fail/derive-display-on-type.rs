use std::fmt;

use idempotent_runtime::{Error, KeyPart, idempotent};

#[derive(KeyPart)]
#[key_part(display)]
struct Version {
    major: u32,
    minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[idempotent(key = "version", mode = "reject", expire = "1h")]
async fn release(version: Version) -> Result<(), Error> {
    Ok(())
}

fn main() {}
