//! A proxy in front of a server that understands what passes, so that a test can choose the command
//! that something happens to.
//!
//! Nothing overtakes on a connection. What follows a lost message on its connection is lost as well,
//! and what follows a held one waits behind it; a client that goes on has to connect again. A held
//! message arrives when it is let go, also if its client has gone by then. While the server is down,
//! connections are neither refused nor answered.

mod lockstep;
mod resp;
mod rules;

pub use lockstep::{Lockstep, Traffic};
pub use rules::{Command, Fault, Gate, Twin, Which};

use self::rules::{Rule, When};
use std::collections::VecDeque;
use std::fmt;
use std::net::TcpListener as StdListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

/// A proxy that ends with this value, and all connections through it.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    _end: oneshot::Sender<()>,
}

struct Shared {
    server: String,
    rules: Mutex<Vec<Rule>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
}

struct Seen {
    command: Command,
    answered: Arc<AtomicBool>,
}

impl Proxy {
    /// A proxy before the server at this address, on a thread of its own: it works on while a test
    /// blocks, and outlives any runtime of the test.
    pub fn start(server: &str) -> Self {
        let listener = StdListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = server.to_owned();
        let (rules, seen, connections) = Default::default();
        let shared = Arc::new(Shared { server, rules, seen, connections });
        let (end, ended) = oneshot::channel::<()>();
        let serve = accept(listener, Arc::clone(&shared));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                tokio::select! {
                    () = serve => {}
                    _ = ended => {}
                }
            });
        });
        Self { port, shared, _end: end }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Something happens to the `nth` command of these from now on; the first is 1.
    pub fn fault_at(&self, nth: usize, which: impl Into<Which>, fault: Fault) {
        self.rule(which.into(), When::After(nth - 1), fault);
    }

    /// Something happens to each of these commands from now on.
    pub fn fault_always(&self, which: impl Into<Which>, fault: Fault) {
        self.rule(which.into(), When::Always, fault);
    }

    /// All goes well from now on. What is lost stays lost, and what is held stays held.
    pub fn heal(&self) {
        lock(&self.shared.rules).clear();
    }

    fn rule(&self, which: Which, when: When, fault: Fault) {
        lock(&self.shared.rules).push(Rule { which, when, fault });
    }

    /// What clients have sent, in order, without what only prepares a connection.
    pub fn commands(&self) -> Vec<Command> {
        self.sent(|_| true)
    }

    /// Those of them that are meant.
    pub fn sent(&self, is_meant: impl Fn(&Command) -> bool) -> Vec<Command> {
        let seen = lock(&self.shared.seen);
        let counted = seen.iter().map(|seen| &seen.command).filter(|it| !it.is_setup());
        counted.filter(|command| is_meant(command)).cloned().collect()
    }

    /// How many of these the server has answered, whether or not the answer went further.
    pub fn answered(&self, is_meant: impl Fn(&Command) -> bool) -> usize {
        let seen = lock(&self.shared.seen);
        let answered = seen.iter().filter(|seen| seen.answered.load(SeqCst));
        answered.filter(|seen| is_meant(&seen.command)).count()
    }

    /// The number of connections made through it.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(SeqCst)
    }

    /// Counts from here on.
    pub fn forget(&self) {
        lock(&self.shared.seen).clear();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Proxy({} to {})", self.port, self.shared.server)
    }
}

async fn accept(listener: StdListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        shared.connections.fetch_add(1, SeqCst);
        tokio::spawn(serve(client, Arc::clone(&shared)));
    }
}

/// Time limit for connecting to a server that is down.
const DOWN: Duration = Duration::from_secs(30);

async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let connect = async {
        loop {
            match TcpStream::connect(&shared.server).await {
                Ok(server) => return server,
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    let Ok(server) = tokio::time::timeout(DOWN, connect).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (expect, expected) = mpsc::unbounded_channel();
    let requests = pass_requests(Messages::of(from_client), to_server, expect, &shared);
    let replies = pass_replies(Messages::of(from_server), to_client, expected);
    tokio::pin!(replies);
    tokio::select! {
        end = requests => match end {
            End::Cut => {}
            // The server still answers what it was sent.
            End::Left => replies.await,
        },
        () = &mut replies => {}
    }
}

/// End of the client's side of a connection.
enum End {
    Cut,
    /// The client has gone.
    Left,
}

/// The fate of a reply.
struct Reply {
    fate: Fate,
    answered: Arc<AtomicBool>,
}

enum Fate {
    Pass,
    /// This one does not go further. Later ones do.
    Swallow,
    /// Neither this one nor a later one goes further.
    Lose,
    Hold(Gate),
    /// Another reply goes further in its place.
    Replace(Vec<u8>),
    Cut,
}

/// A command that every server takes, in place of one that is not to reach it.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

async fn pass_requests(
    mut client: Messages,
    mut server: OwnedWriteHalf,
    expect: mpsc::UnboundedSender<Reply>,
    shared: &Shared,
) -> End {
    let mut lost = false;
    while let Some(mut message) = client.next().await {
        let command = Command(resp::command_words(&message).unwrap());
        let (fault, answered) = shared.note(&command);
        if lost {
            continue;
        }
        let fates = match fault {
            None => vec![Fate::Pass],
            Some(Fault::LoseRequest) => {
                lost = true;
                continue;
            }
            Some(Fault::CutBefore) => return End::Cut,
            Some(Fault::HoldRequest(gate)) => {
                gate.pass().await;
                vec![Fate::Pass]
            }
            Some(Fault::LoseReply) => vec![Fate::Lose],
            Some(Fault::HoldReply(gate)) => vec![Fate::Hold(gate)],
            Some(Fault::Duplicate(Twin::First)) => vec![Fate::Pass, Fate::Swallow],
            Some(Fault::Duplicate(Twin::Second)) => vec![Fate::Swallow, Fate::Pass],
            Some(Fault::CutAfter) => vec![Fate::Cut],
            Some(Fault::Refuse(error)) => {
                message = PING.to_vec();
                vec![Fate::Replace(format!("-{error}\r\n").into_bytes())]
            }
        };
        let bytes = message.repeat(fates.len());
        if !command.is_answered_by_pushes() {
            for fate in fates {
                let _ = expect.send(Reply { fate, answered: Arc::clone(&answered) });
            }
        }
        if server.write_all(&bytes).await.is_err() {
            return End::Cut;
        }
    }
    let _ = server.shutdown().await;
    End::Left
}

async fn pass_replies(
    mut server: Messages,
    mut client: OwnedWriteHalf,
    mut expected: mpsc::UnboundedReceiver<Reply>,
) {
    let mut lost = false;
    while let Some(mut message) = server.next().await {
        // What nobody asked for belongs to no command.
        let reply = if resp::is_push(&message) { None } else { expected.try_recv().ok() };
        if let Some(Reply { fate, answered }) = reply {
            answered.store(true, SeqCst);
            match fate {
                Fate::Pass => {}
                Fate::Swallow => continue,
                Fate::Lose => lost = true,
                Fate::Hold(gate) => gate.pass().await,
                Fate::Replace(other) => message = other,
                Fate::Cut => return,
            }
        }
        if !lost {
            // A client that has gone hears nothing; what it sent is executed all the same.
            let _ = client.write_all(&message).await;
        }
    }
}

impl Shared {
    /// What is to happen to a command, and where its answer is noted.
    fn note(&self, command: &Command) -> (Option<Fault>, Arc<AtomicBool>) {
        let answered = Arc::new(AtomicBool::new(false));
        let seen = Seen { command: command.clone(), answered: Arc::clone(&answered) };
        lock(&self.seen).push(seen);
        let mut rules = lock(&self.rules);
        // Every rule counts; the first one decides.
        let mut applying = rules.iter_mut().filter_map(|rule| rule.applies(command));
        let fault = applying.next();
        applying.for_each(drop);
        (fault, answered)
    }
}

/// The messages that arrive on a connection.
struct Messages {
    connection: OwnedReadHalf,
    bytes: VecDeque<u8>,
}

impl Messages {
    fn of(connection: OwnedReadHalf) -> Self {
        Self { connection, bytes: VecDeque::new() }
    }

    /// The next message; `None` at the end of the connection.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(length) = resp::message_length(self.bytes.make_contiguous()).unwrap() {
                return Some(self.bytes.drain(..length).collect());
            }
            let mut more = [0; 16 * 1024];
            match self.connection.read(&mut more).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.bytes.extend(&more[..read]),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
