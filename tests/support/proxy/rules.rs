//! Rules that map commands to faults.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::watch;

/// A fault of a command.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The command never reaches the server.
    LoseRequest,
    /// The command is executed, and its reply is lost.
    LoseReply,
    /// The command reaches the server when the gate is opened.
    HoldRequest(Gate),
    /// The command is executed; its reply reaches the client when the gate is opened.
    HoldReply(Gate),
    /// The command is executed twice, and one of the replies reaches the client.
    Duplicate(Twin),
    /// The connection is closed, and the command never reaches the server.
    CutBefore,
    /// The command is executed, and the connection is closed in place of the reply.
    CutAfter,
    /// The command never reaches the server, and is answered with this error.
    Refuse(String),
}

/// One of two replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    First,
    Second,
}

/// Holds messages until it is opened. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    open: watch::Sender<bool>,
    held: Arc<AtomicUsize>,
}

impl Gate {
    pub fn new() -> Self {
        Self { open: watch::Sender::new(false), held: Arc::default() }
    }

    /// Releases held messages, and lets later ones pass.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Number of messages held so far.
    pub fn held(&self) -> usize {
        self.held.load(SeqCst)
    }

    pub(super) async fn pass(&self) {
        self.held.fetch_add(1, SeqCst);
        // The sender is part of this gate.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// A command as a client sent it.
#[derive(Clone, PartialEq, Eq)]
pub struct Command(pub(super) Vec<Vec<u8>>);

impl Command {
    /// The name of the command, in upper case.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.0[0]).to_uppercase()
    }

    /// Its words, the name included.
    pub fn words(&self) -> &[Vec<u8>] {
        &self.0
    }

    pub fn has(&self, word: &str) -> bool {
        self.0.iter().any(|it| it == word.as_bytes())
    }

    /// Returns `true` if the command only sets up a connection.
    pub(super) fn is_setup(&self) -> bool {
        ["HELLO", "AUTH", "CLIENT", "SELECT", "INFO", "CONFIG"].contains(&&*self.name())
    }

    /// With the third version of the protocol these are answered by pushes.
    pub(super) fn is_answered_by_pushes(&self) -> bool {
        self.name().ends_with("SUBSCRIBE")
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|word| word.escape_ascii().to_string()).collect();
        formatter.write_str(&words.join(" "))
    }
}

type Predicate = Box<dyn Fn(&Command) -> bool + Send>;

/// The commands that a rule applies to.
pub struct Which {
    is_meant: Predicate,
    setup: bool,
}

impl Which {
    /// Every command, also those that only prepare a connection.
    pub fn everything() -> Self {
        Self { is_meant: Box::new(|_| true), setup: true }
    }

    fn takes(&self, command: &Command) -> bool {
        (self.setup || !command.is_setup()) && (self.is_meant)(command)
    }
}

impl fmt::Debug for Which {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Which").field("setup", &self.setup).finish_non_exhaustive()
    }
}

/// Commands that only prepare a connection are not meant.
impl<F: Fn(&Command) -> bool + Send + 'static> From<F> for Which {
    fn from(is_meant: F) -> Self {
        Self { is_meant: Box::new(is_meant), setup: false }
    }
}

/// Something that happens to some commands.
pub(super) struct Rule {
    pub(super) which: Which,
    pub(super) when: When,
    pub(super) fault: Fault,
}

pub(super) enum When {
    Always,
    /// After so many others that the rule takes.
    After(usize),
    Done,
}

impl Rule {
    /// The fault of the next command under this rule, if any.
    pub(super) fn applies(&mut self, command: &Command) -> Option<Fault> {
        if !self.which.takes(command) {
            return None;
        }
        match self.when {
            When::Done => return None,
            When::After(others @ 1..) => {
                self.when = When::After(others - 1);
                return None;
            }
            When::After(0) => self.when = When::Done,
            When::Always => {}
        }
        Some(self.fault.clone())
    }
}
