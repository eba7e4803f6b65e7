//! The messages of PostgreSQL.
//!
//! A statement is sent as text in one message, or prepared and executed in several, up to the one
//! that asks for an answer.

use super::Part;
use std::collections::HashMap;
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;

/// Requests before the login: for TLS, for GSS encryption.
const BEFORE_LOGIN: [u32; 2] = [80_877_103, 80_877_104];

/// A connection, as far as its client has told.
#[derive(Default)]
pub(super) struct Session {
    is_logged_in: bool,
    /// Statements by the names under which they were prepared.
    prepared: HashMap<String, String>,
    /// The statement since the last answer was asked for.
    current: String,
}

impl Session {
    /// Reads a message: a byte that says which, except before the login, its length, and the rest.
    pub(super) async fn read(&self, client: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
        let kind = usize::from(self.is_logged_in);
        let mut message = vec![0; kind + 4];
        client.read_exact(&mut message).await?;
        let length = number(&message[kind..]) as usize;
        message.resize(kind + length, 0);
        client.read_exact(&mut message[kind + 4..]).await?;
        Ok(message)
    }

    pub(super) fn understand(&mut self, message: &[u8]) -> Part {
        if !self.is_logged_in {
            self.is_logged_in = !BEFORE_LOGIN.contains(&number(&message[4..]));
            return Part::Other;
        }
        let (kind, mut rest) = (message[0], &message[5..]);
        match kind {
            b'Q' => Part::Whole(text(&mut rest)),
            b'P' => {
                let (name, statement) = (text(&mut rest), text(&mut rest));
                self.current = format!("prepare {statement}");
                self.prepared.insert(name, statement);
                Part::Other
            }
            b'B' => {
                let (_portal, name) = (text(&mut rest), text(&mut rest));
                self.current = self.prepared.get(&name).cloned().unwrap_or_default();
                Part::Order(self.current.clone())
            }
            b'S' => Part::End(std::mem::take(&mut self.current)),
            _ => Part::Other,
        }
    }
}

/// A message that the server answers with a syntax error.
pub(super) fn no_statement() -> Vec<u8> {
    b"Q\0\0\0\x0crefused\0"[..].to_vec()
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Takes a text off, which ends with a zero byte.
fn text(bytes: &mut &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    *bytes = bytes.get(end + 1..).unwrap_or_default();
    text
}
