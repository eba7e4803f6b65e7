//! A proxy that loses requests and answers.

use crate::server::Server;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The fate of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Delivered,
    /// The server never hears of the request.
    RequestLost,
    /// The server answers, and nobody hears of it.
    ReplyLost,
    /// This many bytes of the answer arrive.
    ReplyCut(u64),
    /// The server answers, and the connection stays silent.
    Silent,
}

/// Forwards each connection to a server as a plan says.
pub(crate) struct Unreliable {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Unreliable {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Unreliable {
    /// A way to `server`. `plan` says what becomes of the n-th connection, counted from 0.
    pub(crate) async fn to(server: &Server, plan: impl Fn(usize) -> Fate + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (counter, server) = (Arc::clone(&connections), server.address);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let fate = plan(counter.fetch_add(1, SeqCst));
                tokio::spawn(forward(client, server, fate));
            }
        });
        Self { address, connections, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

async fn forward(client: TcpStream, server: SocketAddr, fate: Fate) {
    let (mut from_client, mut to_client) = client.into_split();
    if fate == Fate::RequestLost {
        // It is sent, and read by nobody who matters.
        drop(from_client.read(&mut [0; 1024]).await);
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (from_server, mut to_server) = server.into_split();
    let requests = tokio::spawn(async move {
        drop(copy(&mut from_client, &mut to_server).await);
        from_client
    });
    match fate {
        Fate::Delivered => pass(from_server, &mut to_client, u64::MAX).await,
        Fate::ReplyCut(bytes) => pass(from_server, &mut to_client, bytes).await,
        Fate::ReplyLost => pass(from_server, &mut to_client, 0).await,
        Fate::Silent => {
            // Until the client goes away.
            drop(requests.await);
            return;
        }
        Fate::RequestLost => unreachable!("it was lost above"),
    }
    requests.abort();
}

/// Hands this much of an answer on, once there is one.
async fn pass(mut from: OwnedReadHalf, to: &mut OwnedWriteHalf, mut bytes: u64) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let passed = bytes.min(read as u64);
        bytes -= passed;
        if to.write_all(&buffer[..passed as usize]).await.is_err() || bytes == 0 {
            return;
        }
    }
}
