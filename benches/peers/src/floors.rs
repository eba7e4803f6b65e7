//! Commands that are sent by hand: what a call costs at the least.

use crate::capture::{Captured, Command};
use crate::packer::Packer;
use crate::subject::Subject;
use crate::workload::{Body, EXPIRE, check, from_json, json};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use std::sync::Arc;

/// `SET NX PX`, then `SET PX` with the value; a repeat call is one `SET NX GET`. Nothing protects the second write.
#[derive(Clone, Debug)]
pub struct Plain {
    /// The connection that all calls share.
    pub connection: MultiplexedConnection,
    /// The body.
    pub body: Body,
}

impl Plain {
    fn begin(id: u64) -> Cmd {
        let mut command = redis::cmd("SET");
        command.arg(format!("floor|orders.create|{id}")).arg(&[7_u8; 48][..]).arg("NX");
        command
    }
}

impl Subject for Plain {
    async fn first(&self, id: u64) {
        let millis = EXPIRE.as_millis() as u64;
        let mut connection = self.connection.clone();
        let mut begin = Self::begin(id);
        begin.arg("PX").arg(millis);
        let begun: Option<String> = begin.query_async(&mut connection).await.expect("SET NX");
        assert_eq!(begun.as_deref(), Some("OK"), "the key is new");
        let order = self.body.run(id);
        let mut complete = redis::cmd("SET");
        complete.arg(format!("floor|orders.create|{id}")).arg(json(&order)).arg("PX").arg(millis);
        let () = complete.query_async(&mut connection).await.expect("SET");
        check(&order, id);
    }

    async fn replay(&self, id: u64) {
        let mut command = Self::begin(id);
        command.arg("GET").arg("PX").arg(EXPIRE.as_millis() as u64);
        let value: Vec<u8> =
            command.query_async(&mut self.connection.clone()).await.expect("SET NX GET");
        check(&from_json(&value), id);
    }
}

/// The commands that the product sends, sent raw.
#[derive(Clone, Debug)]
pub struct Same {
    /// The body.
    pub body: Body,
    /// The way to the server.
    pub way: Way,
    /// The commands.
    pub commands: Arc<Commands>,
}

/// The way of a command to the server.
#[derive(Clone, Debug)]
pub enum Way {
    /// Each for itself, on a connection that all calls share.
    Alone(MultiplexedConnection),
    /// With those that others send at the same time.
    Packed(Packer),
}

impl Way {
    async fn send(&self, commands: Vec<Cmd>) -> Value {
        match self {
            Self::Alone(connection) if commands.len() == 1 => {
                let answer = commands[0].query_async(&mut connection.clone()).await;
                answer.expect("the server takes the command")
            }
            Self::Alone(connection) => {
                let mut pipeline = redis::pipe();
                for command in commands {
                    pipeline.add_command(command);
                }
                let answers: Vec<Value> = pipeline
                    .query_async(&mut connection.clone())
                    .await
                    .expect("the server takes the pipeline");
                answers.into_iter().next_back().expect("an answer for each command")
            }
            Self::Packed(packer) => packer.send(commands).await,
        }
    }
}

/// Commands of the product with gaps for the id and the value.
///
/// A record that is begun has the same bytes for every key here, token included. The server does not look at that.
#[derive(Clone, Debug)]
pub struct Commands {
    begin: Vec<Template>,
    complete: Vec<Template>,
    /// Bytes of a record before and after its value.
    around: (usize, usize),
}

impl Commands {
    /// The commands of a first execution that was watched.
    ///
    /// # Errors
    /// They are not those of a begin and a complete.
    pub fn of(captured: &Captured, id: u64, body: &Body) -> Result<Self, String> {
        let value = json(&body.run(id));
        let all = captured.sent.iter().map(|command| Template::of(command, id, &value));
        let mut begin: Vec<Template> = all.collect();
        // The last command, or a transaction.
        let multi = captured.sent.iter().position(|command| command[0] == b"MULTI");
        let complete = begin.split_off(multi.unwrap_or(begin.len().saturating_sub(1)));
        if complete.is_empty() {
            return Err("the product sent no command".to_owned());
        }
        if begin.is_empty() {
            return Err(format!("the product sent one command, not two: {captured:?}"));
        }
        let around = complete.iter().find_map(Template::around_value);
        let around = around.ok_or("no command that completes a call has a value in it")?;
        Ok(Self { begin, complete, around })
    }

    /// The commands that begin a call, in one round trip.
    pub fn begin(&self, id: u64) -> Vec<Cmd> {
        self.begin.iter().map(|template| template.fill(id, b"")).collect()
    }

    /// The commands that complete a call, in one round trip.
    pub fn complete(&self, id: u64, value: &[u8]) -> Vec<Cmd> {
        self.complete.iter().map(|template| template.fill(id, value)).collect()
    }
}

impl Subject for Same {
    async fn first(&self, id: u64) {
        self.way.send(self.commands.begin(id)).await;
        let order = self.body.run(id);
        let complete = self.commands.complete(id, &json(&order));
        self.way.send(complete).await;
        check(&order, id);
    }

    async fn replay(&self, id: u64) {
        let Value::BulkString(record) = self.way.send(self.commands.begin(id)).await else {
            panic!("there is no record for a key that was called with");
        };
        let (before, after) = self.commands.around;
        check(&from_json(&record[before..record.len() - after]), id);
    }
}

/// A command with gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Template(Vec<Vec<Piece>>);

/// A part of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Id,
    Value,
}

impl Template {
    /// A command whose id and value are gaps.
    fn of(command: &Command, id: u64, value: &[u8]) -> Self {
        let id = id.to_string();
        let argument = |argument: &Vec<u8>| {
            let mut pieces = Vec::new();
            let mut text = Vec::new();
            let mut rest = argument.as_slice();
            while let Some(byte) = rest.first() {
                let gaps = [(value, Piece::Value), (id.as_bytes(), Piece::Id)];
                match gaps.into_iter().find(|(gap, _)| rest.starts_with(gap)) {
                    Some((gap, piece)) => {
                        pieces.extend([Piece::Text(std::mem::take(&mut text)), piece]);
                        rest = &rest[gap.len()..];
                    }
                    None => {
                        text.push(*byte);
                        rest = &rest[1..];
                    }
                }
            }
            pieces.push(Piece::Text(text));
            pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
            pieces
        };
        Self(command.iter().map(argument).collect())
    }

    fn fill(&self, id: u64, value: &[u8]) -> Cmd {
        let mut command = Cmd::new();
        for pieces in &self.0 {
            match pieces.as_slice() {
                [Piece::Text(text)] => command.arg(text.as_slice()),
                pieces => {
                    let mut argument = Vec::with_capacity(value.len() + 64);
                    for piece in pieces {
                        match piece {
                            Piece::Text(text) => argument.extend_from_slice(text),
                            Piece::Id => argument.extend_from_slice(id.to_string().as_bytes()),
                            Piece::Value => argument.extend_from_slice(value),
                        }
                    }
                    command.arg(argument)
                }
            };
        }
        command
    }

    /// The length of what stands before and after the value in its argument.
    fn around_value(&self) -> Option<(usize, usize)> {
        let has_value = |pieces: &&Vec<Piece>| pieces.contains(&Piece::Value);
        let length = |pieces: &[Piece]| {
            let each = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => text.len(),
                Piece::Id => crate::workload::FIRST_ID.to_string().len(),
                Piece::Value => 0,
            });
            each.sum()
        };
        let pieces = self.0.iter().find(has_value)?;
        let at = pieces.iter().position(|piece| *piece == Piece::Value)?;
        Some((length(&pieces[..at]), length(&pieces[at + 1..])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(arguments: &[&str]) -> Command {
        arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_template_is_filled_with_another_id_and_value() {
        let seen = command(&["SET", "p|orders|42", "head{\"id\":42}tail", "PX", "1000"]);
        let template = Template::of(&seen, 42, b"{\"id\":42}");
        assert_eq!(template.around_value(), Some((4, 4)));
        let filled = template.fill(43, b"{\"id\":43}");
        let expected = command(&["SET", "p|orders|43", "head{\"id\":43}tail", "PX", "1000"]);
        let mut packed = redis::Cmd::new();
        packed.arg(expected);
        assert_eq!(filled.get_packed_command(), packed.get_packed_command());
    }

    #[test]
    fn a_call_that_sends_one_command_has_no_floor_of_two() {
        let captured = Captured { sent: vec![command(&["SET", "a"])], within_scripts: 0 };
        let error = Commands::of(&captured, 42, &Body::of_size(64)).unwrap_err();
        assert!(error.contains("one command"), "{error}");
    }
}
