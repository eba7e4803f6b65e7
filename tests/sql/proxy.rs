//! A proxy before a database server: it counts the messages of clients, and does things to some of them.

mod mysql;
mod postgres;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// A fault of a message, and of the connection that it was sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It never reaches the server, and nothing after it does.
    LoseRequest,
    /// It is executed, and its reply is lost.
    LoseReply,
    /// The connection is closed, and it never reaches the server.
    CutBefore,
    /// The connection is closed when the reply begins.
    CutAfter,
    /// It is not executed, and the server replies with an error. For statements of PostgreSQL that are
    /// sent as text.
    Refuse,
}

impl Fault {
    /// Those that leave open what came of the message, and end its connection.
    pub(crate) const ALL: [Self; 4] =
        [Self::LoseRequest, Self::LoseReply, Self::CutBefore, Self::CutAfter];
}

type IsMeant = Box<dyn Fn(&str) -> bool + Send>;

/// The protocol that clients and the server speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    MySql,
    Postgres,
}

struct Shared {
    address: String,
    protocol: Protocol,
    is_down: AtomicBool,
    seen: Mutex<Vec<String>>,
    rules: Mutex<Vec<(IsMeant, Fault)>>,
    replaced: Mutex<Vec<(String, String)>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    cut: Notify,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(address: &str, protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            address: address.to_owned(),
            protocol,
            is_down: AtomicBool::new(false),
            seen: Mutex::default(),
            rules: Mutex::default(),
            replaced: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            cut: Notify::new(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { port, shared, accepting }
    }

    /// The fault happens to the next message whose text this is true of.
    pub(crate) fn strike(&self, is_meant: impl Fn(&str) -> bool + Send + 'static, fault: Fault) {
        self.shared.rules.lock().unwrap().push((Box::new(is_meant), fault));
    }

    /// Replaces a part of statements from now on. The other text is not longer, since messages keep
    /// their length.
    pub(crate) fn replace(&self, part: &str, other: &str) {
        let other = format!("{other:<width$}", width = part.len());
        assert_eq!(other.len(), part.len(), "{other} is longer than {part}");
        self.shared.replaced.lock().unwrap().push((part.to_owned(), other));
    }

    /// `true` if every fault has met its message.
    pub(crate) fn has_struck(&self) -> bool {
        self.shared.rules.lock().unwrap().is_empty()
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.shared.cut.notify_waiters();
    }

    /// Closes all connections, and new ones at once until [`come_up`](Self::come_up).
    pub(crate) fn go_down(&self) {
        self.shared.is_down.store(true, SeqCst);
        self.cut();
    }

    /// Lets connections through again.
    pub(crate) fn come_up(&self) {
        self.shared.is_down.store(false, SeqCst);
    }

    /// The messages since the last call of this, without those that prepare a connection. One that
    /// only prepares a statement begins with `prepare `.
    pub(crate) fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.seen.lock().unwrap())
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(SeqCst)
    }

    /// The connections that their clients have not closed.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        if shared.is_down.load(SeqCst) {
            continue;
        }
        shared.connections.fetch_add(1, SeqCst);
        shared.open.fetch_add(1, SeqCst);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            tokio::select! {
                () = serve(client, &shared) => {}
                () = shared.cut.notified() => {}
            }
            shared.open.fetch_sub(1, SeqCst);
        });
    }
}

/// The fate of what the server sends.
#[derive(Clone, Copy, PartialEq)]
enum Replies {
    Pass,
    Lose,
    Cut,
}

async fn serve(client: TcpStream, shared: &Shared) {
    let Ok(server) = TcpStream::connect(&shared.address).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (fate, replies) = watch::channel(Replies::Pass);
    tokio::select! {
        () = pass_requests(from_client, to_server, shared, fate) => {}
        () = pass_replies(from_server, to_client, replies) => {}
    }
}

async fn pass_requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    shared: &Shared,
    fate: watch::Sender<Replies>,
) {
    let mut lost = false;
    let mut framing = match shared.protocol {
        Protocol::MySql => Framing::MySql,
        Protocol::Postgres => Framing::Postgres(postgres::Session::default()),
    };
    while let Ok(mut bytes) = framing.read(&mut client).await {
        shared.replace_in(&mut bytes);
        let fault = match framing.understand(&bytes) {
            Part::Other => None,
            Part::Order(text) => shared.fault_of(&text),
            Part::Whole(text) => {
                let fault = shared.fault_of(&text);
                shared.seen.lock().unwrap().push(text);
                fault
            }
            Part::End(text) => {
                shared.seen.lock().unwrap().push(text);
                None
            }
        };
        match fault {
            None => {}
            Some(Fault::LoseRequest) => lost = true,
            Some(Fault::LoseReply) => _ = fate.send(Replies::Lose),
            Some(Fault::CutBefore) => return,
            Some(Fault::CutAfter) => _ = fate.send(Replies::Cut),
            Some(Fault::Refuse) => bytes = postgres::no_statement(),
        }
        if !lost && server.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// The meaning of some bytes that a client has sent.
enum Part {
    /// Of no interest.
    Other,
    /// A message that the server answers, whole.
    Whole(String),
    /// The part of a message that has the server do something.
    Order(String),
    /// The end of a message that the server answers.
    End(String),
}

/// The way in which a connection is read.
enum Framing {
    MySql,
    Postgres(postgres::Session),
}

impl Framing {
    async fn read(&self, client: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
        match self {
            Self::MySql => mysql::read(client).await,
            Self::Postgres(session) => session.read(client).await,
        }
    }

    fn understand(&mut self, bytes: &[u8]) -> Part {
        match self {
            Self::MySql => mysql::understand(bytes),
            Self::Postgres(session) => session.understand(bytes),
        }
    }
}

async fn pass_replies(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    fate: watch::Receiver<Replies>,
) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let Ok(read @ 1..) = server.read(&mut bytes).await else { return };
        let fate = *fate.borrow();
        match fate {
            // A client that has gone hears nothing.
            Replies::Pass => _ = client.write_all(&bytes[..read]).await,
            Replies::Lose => {}
            Replies::Cut => return,
        }
    }
}

impl Shared {
    fn replace_in(&self, bytes: &mut [u8]) {
        for (part, other) in &*self.replaced.lock().unwrap() {
            let mut parts = bytes.windows(part.len());
            if let Some(at) = parts.position(|it| it == part.as_bytes()) {
                bytes[at..at + other.len()].copy_from_slice(other.as_bytes());
            }
        }
    }

    /// The fault that is to happen to a message, once.
    fn fault_of(&self, text: &str) -> Option<Fault> {
        let mut rules = self.rules.lock().unwrap();
        let at = rules.iter().position(|(is_meant, _)| is_meant(text));
        at.map(|at| rules.remove(at).1)
    }
}
