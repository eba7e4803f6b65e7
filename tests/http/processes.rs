//! Services in processes of their own, on one Redis, and the journal that they write.

use std::path::Path;
use support::http::{CALL, Connection, ENDS, Orders, Reply, Service, TAKES};
use support::journal::{Event, Journal, LeaseSeen, Reader, Source, Step};
use support::redis::{RedisServer, TempDirectory};

/// A server, a journal outside of it, and the services that were started on them.
pub(crate) struct Scene {
    pub(crate) services: Vec<Service>,
    /// Of the test itself, which is process 0.
    pub(crate) journal: Journal,
    reader: Reader,
    _directory: TempDirectory,
    _server: RedisServer,
}

impl Scene {
    /// Services with a lease of so many milliseconds.
    pub(crate) fn new(services: u32, lease: u64) -> Self {
        let (server, directory) = (RedisServer::start(), TempDirectory::new());
        let path = directory.path().join("journal");
        let journal = Journal::open(&path, 0);
        let start = |process| {
            let orders = Orders { url: server.url(), journal: path.clone(), process, lease };
            Service::start(Path::new(env!("CARGO_BIN_EXE_http-worker")), &orders)
        };
        let services = (1..=services).map(start).collect();
        let reader = Reader::open(&path);
        Self { services, journal, reader, _directory: directory, _server: server }
    }

    /// What handlers wrote since the last look.
    pub(crate) fn read(&mut self) -> Vec<Event> {
        self.reader.read()
    }
}

/// A request to one of the services. What is sent under one key has one payload: the plan is in
/// headers.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) key: String,
    /// Which call it is, in the journal.
    pub(crate) call: u64,
    /// How long the handler takes, in milliseconds.
    pub(crate) takes: u64,
    pub(crate) ends: &'static str,
}

impl Order {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Self { key, call, takes, ends } = self;
        let length = key.len();
        format!(
            "POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: \"{key}\"\r\n\
             content-length: {length}\r\n{CALL}: {call}\r\n{TAKES}: {takes}\r\n{ENDS}: {ends}\r\n\
             \r\n{key}"
        )
        .into_bytes()
    }

    pub(crate) async fn send(&self, connection: &mut Connection) -> std::io::Result<Reply> {
        connection.exchange(&self.bytes()).await
    }
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    First {
        attempt: u32,
        value: String,
    },
    Replay {
        attempt: u32,
        value: String,
    },
    InProgress,
    /// The handler panicked.
    Failed,
}

impl Said {
    /// # Panics
    /// It is nothing that a service may say.
    pub(crate) fn by(reply: &Reply) -> Self {
        let problem = reply.header("idempotency-problem");
        match (reply.status, problem, reply.header("idempotent-replayed")) {
            (200, None, None) => Self::First { attempt: attempt(reply), value: text(reply) },
            (200, None, Some("true")) => {
                Self::Replay { attempt: attempt(reply), value: text(reply) }
            }
            (409, Some("in-progress"), None) => Self::InProgress,
            (500, Some("handler-failed"), None) => Self::Failed,
            _ => panic!("{reply:?}: {}", text(reply)),
        }
    }

    /// What it is in the journal.
    pub(crate) fn step(&self) -> Step {
        let lease = LeaseSeen::None;
        let value = |from, number: &u32, value: &String| {
            let (number, value) = (*number, value.clone());
            Step::Value { from, number, value, lease }
        };
        match self {
            Self::First { attempt, value: text } => value(Source::Ran, attempt, text),
            Self::Replay { attempt, value: text } => value(Source::Replayed, attempt, text),
            Self::InProgress => {
                Step::Refused { kind: "InProgress".to_owned(), body_ran: false, lease }
            }
            Self::Failed => Step::OwnError,
        }
    }
}

fn attempt(reply: &Reply) -> u32 {
    let attempt = reply.header(support::http::ATTEMPT).expect("an answer names its attempt");
    attempt.parse().unwrap()
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body.clone()).unwrap()
}
