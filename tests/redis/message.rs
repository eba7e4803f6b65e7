//! Meaning of a store's commands, recognised from their bytes.

use idempotent_runtime::store::State;
use support::proxy::Command;

/// A command of a store about one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Writes a record if there is none, and otherwise reads the one that is there.
    Begin,
    /// Replaces a record whose attempt has ended or lost its lease.
    TakeOver,
    /// Replaces a record by one that blocks.
    Arm,
    Renew,
    /// Reads a record and how long it lives.
    Look,
    /// Marks a record that somebody waits for.
    Mark,
    /// Replaces or writes a record that says how an attempt ended.
    End(State),
    /// Deletes a record whose body never ran.
    Delete,
}

impl Message {
    /// The message that a command is, and the record that it is about.
    fn of(command: &Command) -> Option<(Self, &[u8])> {
        let words = command.words();
        let (record, next) = match (&*command.name(), words) {
            ("SET", [_, record, next, ..]) => (record, next),
            ("DELEX" | "DELIFEQ", [_, record, ..]) => return Some((Self::Delete, record)),
            ("EVALSHA", [_, hash, _, record]) => {
                return Self::by_hash(hash).map(|it| (it, &**record));
            }
            ("EVAL" | "EVALSHA", [_, _, _, record, _, _, _]) => {
                return Some((Self::Renew, record));
            }
            ("EVAL" | "EVALSHA", [_, _, _, record, _, next, _, _, _, _, _]) => (record, next),
            _ => return None,
        };
        let message = match state(next) {
            None => Self::Delete,
            Some(State::Processing | State::Taken) if command.has("NX") => Self::Begin,
            Some(State::Processing) if blocks(next) => Self::Arm,
            Some(State::Processing | State::Taken) => Self::TakeOver,
            Some(state) => Self::End(state),
        };
        Some((message, record))
    }

    /// The message that a script without arguments is.
    fn by_hash(hash: &[u8]) -> Option<Self> {
        let scripts = [
            (Self::Look, include_str!("../../idempotent-runtime/src/store/redis/scripts/look.lua")),
            (Self::Mark, include_str!("../../idempotent-runtime/src/store/redis/scripts/mark.lua")),
        ];
        let found =
            scripts.iter().find(|(_, text)| redis::Script::new(text).get_hash().as_bytes() == hash);
        found.map(|(message, _)| *message)
    }

    /// Whether a command is this message about this record.
    pub(crate) fn about(self, record: &str) -> impl Fn(&Command) -> bool + Clone + Send + 'static {
        let record = record.to_owned();
        move |command| Self::of(command) == Some((self, record.as_bytes()))
    }
}

/// `true` if a record blocks its key if its attempt does not end, from its bytes.
fn blocks(bytes: &[u8]) -> bool {
    bytes.get(3).is_some_and(|flags| flags & 1 == 1)
}

/// The state of a record, from its bytes.
pub(crate) fn state(bytes: &[u8]) -> Option<State> {
    Some(match bytes.get(1)? {
        b'P' => State::Processing,
        b'A' => State::Abandoned,
        b'F' => State::FailedFree,
        b'E' => State::FailedFinal,
        b'S' => State::Succeeded,
        b'T' => State::Taken,
        letter => panic!("no state has the letter {letter}"),
    })
}
