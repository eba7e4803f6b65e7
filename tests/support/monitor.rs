//! Commands that a server executes, from its `MONITOR` output, with the times of its own clock.

use super::redis::RedisServer;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A command that a client sent and the server executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Since the epoch, by the machine's clock.
    pub at: Duration,
    pub name: String,
    /// The key of a record, for the commands with which stores write.
    pub key: Option<String>,
}

/// Listens to a server until its connection ends.
#[derive(Debug)]
pub struct Monitor(Arc<Mutex<Vec<Executed>>>);

impl Monitor {
    /// Returns when everything is heard that is executed from then on.
    pub async fn start(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(b"MONITOR\r\n").await.unwrap();
        let mut lines = BufReader::new(stream).split(b'\n');
        let first = lines.next_segment().await.unwrap();
        assert_eq!(first.as_deref(), Some(&b"+OK\r"[..]));
        let executed = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&executed);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_segment().await {
                if let Some(command) = parse(&String::from_utf8_lossy(&line)) {
                    heard.lock().unwrap().push(command);
                }
            }
        });
        Self(executed)
    }

    /// Commands with which stores have written so far: grants, and changes of records.
    pub fn written(&self) -> Vec<Executed> {
        let executed = self.0.lock().unwrap();
        executed.iter().filter(|executed| executed.key.is_some()).cloned().collect()
    }
}

/// `+1700000000.123456 [0 127.0.0.1:1234] "SET" "name" ..`; what scripts do has `lua` for a client.
fn parse(line: &str) -> Option<Executed> {
    let (at, rest) = line.strip_prefix('+')?.split_once(' ')?;
    let (seconds, micros) = at.split_once('.')?;
    let at =
        Duration::from_secs(seconds.parse().ok()?) + Duration::from_micros(micros.parse().ok()?);
    let (client, command) = rest.split_once("] ")?;
    if client.ends_with(" lua") {
        return None;
    }
    // Binary is escaped, and so are quotes.
    let mut words = command.trim_end().trim_matches('"').split("\" \"");
    let name = words.next()?.to_uppercase();
    let key = match &*name {
        "SET" | "DELEX" | "DELIFEQ" => words.next(),
        "EVALSHA" | "EVAL" => words.nth(2),
        _ => None,
    };
    let key = key.map(|key| key.replace("\\\"", "\""));
    Some(Executed { at, key, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_time_command_and_record() {
        let at = Duration::from_micros(1_700_000_000_000_123);
        let executed = |name: &str, key: Option<&str>| {
            Some(Executed { at, name: name.to_owned(), key: key.map(str::to_owned) })
        };
        let line = |rest| parse(&format!("+1700000000.000123 {rest}\r"));
        let set = r#"[0 127.0.0.1:1] "SET" "load|\"k\"" "\x01\" \"a" "NX" "GET" "PX" "300""#;
        assert_eq!(line(set), executed("SET", Some("load|\"k\"")));
        let script = r#"[0 unix:/s] "EVALSHA" "abc" "1" "load|k" "" """#;
        assert_eq!(line(script), executed("EVALSHA", Some("load|k")));
        assert_eq!(line(r#"[0 127.0.0.1:1] "PING""#), executed("PING", None));
        assert_eq!(line(r#"[0 lua] "GET" "load|k""#), None);
    }
}
