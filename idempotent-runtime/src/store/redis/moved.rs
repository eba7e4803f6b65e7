//! Large records that replace others: written under a name of their own, and moved by the script that compares.
//!
//! A server turns the arguments of a script into strings of Lua, and hashes every byte of them: that takes ten times as long
//! as the write. So a large record is no argument. One transaction sets it under another name, runs the script, which renames
//! it if the record is the one that was seen, and deletes what is left. Nobody sees the other name: the server does
//! nothing else meanwhile, and what a transaction began it ends.
//!
//! A server that refuses `MULTI` runs each command by itself, and those of other callers in between. So the other name is of
//! one message: the script never finds there what another caller has set.
//!
//! If the server refuses any of that, nothing was replaced, and the script gets the record after all. A transaction whose
//! `EXEC` is refused is discarded, also by a server that lets a user begin and not end one. A connection on which `EXEC` is
//! unknown, or refused by a proxy, is not used again.

use super::answers::Written;
use super::error::{Failure, unexpected};
use super::links::{Failed, Transacted};
use super::name::Name;
use super::script;
use super::server::Server;
use super::swaps::{millis, set};
use crate::key::hex;
use crate::store::{Next, Swap, Token};
use redis::{Pipeline, Value};

/// Length of a value from which on its record is moved, in bytes. Below it, a transaction costs as much as it saves.
const LARGE: usize = 16 * 1024;

/// Follows the name of a record that is moved, before the number of the message. No name of a record ends like this.
const BESIDE: &str = "|~";

/// The name under which one message sets a record.
fn beside(name: &Name<'_>) -> String {
    format!("{}{BESIDE}{}", name.as_str(), hex(&Token::random().to_bytes()[..8]))
}

/// `true` for a name that [`beside`] gives. One may be left behind for the time of its record, by a process whose connection
/// was cut between the commands of a server that refuses `MULTI`.
pub(super) fn is_beside(name: &str) -> bool {
    let number = name.rsplit_once(BESIDE).map(|(_, number)| number);
    number.is_some_and(|it| it.len() == 16 && it.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// The name of the script in a message: its hash, or its text.
#[derive(Clone, Copy, Debug)]
enum By {
    Hash,
    Text,
}

/// The end of a transaction.
enum Ended {
    Answered(Value),
    /// Nothing was replaced.
    Refused(Failure),
}

impl Server {
    /// `true` if what the swap writes is to be moved.
    pub(super) fn is_moved(&self, swap: &Swap) -> bool {
        let Next::Put { value: Some(value), .. } = &swap.next else { return false };
        // In a cluster two names have two slots, and where a connection of the caller's own leads is not known. A `WAIT` is
        // for all that its connection wrote: each transaction would need one of its own, where a batch has one.
        value.as_bytes().len() >= LARGE
            && self.features.moves()
            && self.replication.is_none()
            && self.links.target().sends_once()
    }

    /// Replaces a record by a large one. `None` if the server refused: then nothing was replaced.
    pub(super) async fn move_in(
        &self,
        name: &Name<'_>,
        swap: &Swap,
    ) -> Result<Option<(Value, Written)>, Failed> {
        let mut ended = self.transaction(name, swap, By::Hash).await?;
        if matches!(ended, Ended::Refused(Failure::NoScript)) {
            ended = self.transaction(name, swap, By::Text).await?;
        }
        match ended {
            Ended::Answered(answer) => Ok(Some((answer, Written::Unasked))),
            Ended::Refused(_) => Ok(None),
        }
    }

    async fn transaction(&self, name: &Name<'_>, swap: &Swap, by: By) -> Result<Ended, Failed> {
        let beside = beside(name);
        let mut record = set(&beside, &swap.next, 0);
        record.arg("PX").arg(millis(&swap.next));
        let arguments = self.replacement(name, Some(&beside), swap);
        let mut pipeline = Pipeline::with_capacity(5);
        pipeline.cmd("MULTI").add_command(record);
        pipeline.add_command(match by {
            By::Hash => script::SWAP.by_hash(&arguments),
            By::Text => script::SWAP.by_text(&arguments),
        });
        pipeline.cmd("DEL").arg(&beside).cmd("EXEC");
        let Transacted { answers, made } = self.links.transaction(&pipeline).await?;
        let mut answers = answers.into_iter();
        let mut answer = || answers.next().unwrap_or(Ok(Value::Nil));
        let (begun, queued, ended) = (answer(), [answer(), answer(), answer()], answer());
        Ok(match (begun, ended) {
            (Ok(_), Ok(Value::Array(answers))) => match <[Value; 3]>::try_from(answers) {
                Ok([_, answer, _]) => Ended::Answered(answer),
                Err(_) => return Err(Failed::Answered(unexpected("EXEC"))),
            },
            (_, Ok(_)) => return Err(Failed::Answered(unexpected("EXEC"))),
            // One that was refused when it was queued says more than the end. One that failed later was the only one
            // to fail, or the script could not rename what was not there.
            (Ok(_), Err(ended)) => {
                let has_ended = ended.is_discarded()
                    || matches!(ended.failure(), Failure::NoScript | Failure::WrongType);
                if !has_ended {
                    // Without `EXEC`, a server goes on queueing all that comes on this connection.
                    self.features.without_moves();
                    self.links.leave(made);
                }
                let refused = queued.into_iter().find_map(Result::err).unwrap_or(ended);
                self.refused(&refused)
            }
            // Each of them ran by itself, and the script is a step of its own.
            (Err(begun), Err(_)) => {
                let [_, moved, _] = queued;
                match moved {
                    // Queued by the transaction of another message, which did not end.
                    Ok(Value::SimpleString(_)) => {
                        self.features.without_moves();
                        self.links.leave(made);
                        Ended::Refused(begun.failure())
                    }
                    Ok(answer) => {
                        self.features.without_moves();
                        Ended::Answered(answer)
                    }
                    Err(_) => self.refused(&begun),
                }
            }
        })
    }

    /// Does without moves from here on, if they will be refused again.
    fn refused(&self, refused: &Failed) -> Ended {
        if refused.is_for_good() {
            self.features.without_moves();
        }
        Ended::Refused(refused.failure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RecordKey;

    #[test]
    fn a_name_beside_a_record_is_told_from_those_of_records() {
        let key = RecordKey::from("p|orders|42");
        let name = Name::of(&key);
        assert_ne!(beside(&name), beside(&name), "of one message each");
        assert!(is_beside(&beside(&name)));
        for record in ["p|orders|42", "p|orders|\"|~\"", "p|orders|42|~0", "p|~|00112233445566778"]
        {
            assert!(!is_beside(record), "{record}");
        }
    }
}
