//! The mark of a waiter: the one byte of a record that others than its holder set.
//!
//! It stands in the byte that the format leaves to the store. A record that is marked is compared as
//! if it were not, and whoever ends it publishes its name.

use super::links::Failed;
use crate::store::{Found, wire};
use std::time::Duration;

const MARKED: u8 = 1;

/// The same record, without its mark.
pub(super) fn unmarked(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(mark) = bytes.get_mut(wire::RESERVED)
        && *mark == MARKED
    {
        *mark = 0;
    }
    bytes
}

/// Reads a record, marked or not.
pub(super) fn decode(bytes: Vec<u8>, ttl: Option<Duration>) -> Result<Found, Failed> {
    let (head, value) = wire::decode(&unmarked(bytes)).map_err(Failed::Answered)?;
    Ok(Found { head, value, ttl })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Abandon;
    use crate::store::{AttemptId, Claim, Head, Token};

    #[test]
    fn a_marked_record_is_read_as_if_it_were_not() {
        let second = Duration::from_secs(1);
        let claim = Claim::Lease { lease: second, linger: second, abandon: Abandon::Retry };
        let token = Token::random();
        let attempt = AttemptId { token, number: 1, fence: 1, fingerprint: None, claim };
        let head = Head::held_by(attempt);
        let bare = wire::encode(&head, None);
        let mut bytes = bare.clone();
        bytes[wire::RESERVED] = MARKED;
        assert_eq!(unmarked(bytes.clone()), bare);
        assert_eq!(decode(bytes.clone(), None).unwrap().head, head);
        bytes[wire::RESERVED] = 2;
        assert!(decode(bytes, None).is_err());
    }
}
