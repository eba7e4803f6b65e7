//! A proxy that makes commands of many tasks travel in step, so that what a client does for them is the same in every run.

use super::resp;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Room for the messages of a step.
const ROOM: usize = 1 << 20;

/// Time after which commands pass although some of their step are missing, and from then on each by itself.
const STALLED: Duration = Duration::from_secs(1);

/// A proxy that holds commands until as many as a step has are there, and answers until all are there: the number of
/// commands that a client sends or receives at a time does not depend on how fast the server is.
///
/// It allocates nothing while commands pass, so that a test can count what the client allocates. It ends with the process.
#[derive(Debug)]
pub struct Lockstep {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: String,
    step: AtomicUsize,
    commands: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// Traffic of clients since the proxy started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Commands that they sent.
    pub commands: u64,
    /// Bytes that they sent.
    pub sent: u64,
    /// Bytes that they received.
    pub received: u64,
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            commands: self.commands - before.commands,
            sent: self.sent - before.sent,
            received: self.received - before.received,
        }
    }
}

impl Lockstep {
    /// A proxy before the server at this address, with steps of one command.
    pub fn start(server: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (commands, sent, received) = Default::default();
        let (server, step) = (server.to_owned(), AtomicUsize::new(1));
        let shared = Arc::new(Shared { server, step, commands, sent, received });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || serve(client.unwrap(), &shared));
            }
        });
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Sets the number of commands of a step. For when none are under way.
    pub fn step(&self, commands: usize) {
        self.shared.step.store(commands, SeqCst);
    }

    pub fn traffic(&self) -> Traffic {
        let of = |counter: &AtomicU64| counter.load(SeqCst);
        let Shared { commands, sent, received, .. } = &*self.shared;
        Traffic { commands: of(commands), sent: of(sent), received: of(received) }
    }
}

/// Passes steps on until one side ends the connection.
fn serve(client: TcpStream, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(&shared.server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut requests, mut replies) = (Messages::of(&client), Messages::of(&server));
    loop {
        requests.read(|| shared.step.load(SeqCst))?;
        let commands = requests.complete;
        if commands < shared.step.load(SeqCst) {
            // The others are not sent before these are answered, so the client does not go in step.
            shared.step.store(1, SeqCst);
        }
        shared.commands.fetch_add(commands as u64, SeqCst);
        shared.sent.fetch_add(requests.end as u64, SeqCst);
        requests.pass_to(&server)?;
        replies.read(|| commands)?;
        // Before the client can go on and look at it.
        shared.received.fetch_add(replies.end as u64, SeqCst);
        replies.pass_to(&client)?;
    }
}

/// Messages that have arrived on a connection and were not passed on.
struct Messages<'a> {
    connection: &'a TcpStream,
    bytes: Vec<u8>,
    filled: usize,
    /// The number of complete messages, and the end of the last one.
    complete: usize,
    end: usize,
}

impl<'a> Messages<'a> {
    fn of(connection: &'a TcpStream) -> Self {
        Self { connection, bytes: vec![0; ROOM], filled: 0, complete: 0, end: 0 }
    }

    /// Reads until `enough` messages are complete, or no more come after the first.
    fn read(&mut self, enough: impl Fn() -> usize) -> io::Result<()> {
        self.measure();
        while self.complete == 0 || self.complete < enough() {
            self.connection.set_read_timeout((self.complete > 0).then_some(STALLED))?;
            match self.connection.read(&mut self.bytes[self.filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            self.measure();
        }
        Ok(())
    }

    fn measure(&mut self) {
        while let Some(length) = resp::message_length(&self.bytes[self.end..self.filled])
            .expect("messages are well-formed")
        {
            self.complete += 1;
            self.end += length;
        }
    }

    /// Writes all complete messages at once.
    fn pass_to(&mut self, mut connection: &TcpStream) -> io::Result<()> {
        connection.write_all(&self.bytes[..self.end])?;
        self.bytes.copy_within(self.end..self.filled, 0);
        self.filled -= self.end;
        (self.complete, self.end) = (0, 0);
        Ok(())
    }
}
