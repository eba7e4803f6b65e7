//! Commands that a subject sends, as the server sees them.

use crate::servers::Server;
use std::future::Future;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A command: its name and its arguments.
pub type Command = Vec<Vec<u8>>;

/// Commands that reached a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Commands of clients, in their order.
    pub sent: Vec<Command>,
    /// The number of commands that scripts called.
    pub within_scripts: usize,
}

/// Awaits `calls`, and returns what the server was sent meanwhile.
///
/// # Panics
/// The server cannot be watched.
pub async fn capture(server: &Server, calls: impl Future<Output = ()>) -> Captured {
    let address = ("127.0.0.1", server.port());
    let mut stream = BufReader::new(TcpStream::connect(address).await.expect("the server is up"));
    stream.write_all(b"MONITOR\r\n").await.expect("the server reads");
    let mut line = String::new();
    stream.read_line(&mut line).await.expect("the server answers");
    assert_eq!(line.trim(), "+OK", "the server lets itself be watched");
    calls.await;
    let mut connection = server.connect().await;
    let () = redis::cmd("ECHO").arg(END).exec_async(&mut connection).await.expect("an echo");
    let mut captured = Captured::default();
    loop {
        let mut line = Vec::new();
        stream.read_until(b'\n', &mut line).await.expect("the server reports");
        let Some((origin, command)) = parse(&line) else { continue };
        match (origin, command[0].to_ascii_uppercase().as_slice()) {
            (Origin::Client, b"ECHO") if command[1] == END.as_bytes() => return captured,
            // The connection of the echo introduces itself.
            (Origin::Client, b"HELLO" | b"CLIENT" | b"INFO") => {}
            (Origin::Client, _) => captured.sent.push(command),
            (Origin::Script, _) => captured.within_scripts += 1,
        }
    }
}

/// Text that ends a capture.
const END: &str = "end of the capture";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Client,
    Script,
}

/// A line of `MONITOR`: a time, the origin in brackets, and the arguments in quotes.
fn parse(line: &[u8]) -> Option<(Origin, Command)> {
    let bracket = line.iter().position(|byte| *byte == b']')?;
    let origin = match line[..bracket].ends_with(b" lua") {
        true => Origin::Script,
        false => Origin::Client,
    };
    let mut command = Vec::new();
    let mut rest = line[bracket + 1..].iter().copied();
    while let Some(byte) = rest.next() {
        if byte == b'"' {
            command.push(unquote(&mut rest)?);
        }
    }
    (!command.is_empty()).then_some((origin, command))
}

/// An argument up to its closing quote, without its escapes.
fn unquote(rest: &mut impl Iterator<Item = u8>) -> Option<Vec<u8>> {
    let mut argument = Vec::new();
    loop {
        argument.push(match rest.next()? {
            b'"' => return Some(argument),
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                byte => byte,
            },
            byte => byte,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_without_their_escapes() {
        let line = br#"+1700000000.000001 [0 127.0.0.1:4242] "SET" "a\"b" "\x01\\\r\n]""#;
        let (origin, command) = parse(line).unwrap();
        assert_eq!(origin, Origin::Client);
        assert_eq!(command, [b"SET".to_vec(), b"a\"b".to_vec(), b"\x01\\\r\n]".to_vec()]);
    }

    #[test]
    fn commands_of_scripts_are_told_apart() {
        let (origin, _) = parse(br#"+1700000000.000001 [0 lua] "GET" "a""#).unwrap();
        assert_eq!(origin, Origin::Script);
    }

    #[test]
    fn a_line_that_is_cut_off_is_no_command() {
        assert_eq!(parse(br#"+1700000000.000001 [0 127.0.0.1:4242] "SET" "a"#), None);
    }
}
