//! A proxy that can hold back requests or replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The direction that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Everything,
    /// Nothing to the server.
    Replies,
    /// Nothing from the server.
    Requests,
}

/// Forwards connections to a server for as long as its runtime lives.
#[derive(Debug)]
pub struct Valve {
    port: u16,
    flow: watch::Sender<Flow>,
    /// The number of cuts so far.
    cuts: watch::Sender<usize>,
    held: Arc<AtomicUsize>,
}

impl Valve {
    /// A way to `address` on which everything passes.
    pub async fn open(address: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (flow, watched) = watch::channel(Flow::Everything);
        let (cuts, cut) = watch::channel(0);
        let held = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&held);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&address).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                for (from, to, stopped_by) in [
                    (from_client, to_server, Flow::Replies),
                    (from_server, to_client, Flow::Requests),
                ] {
                    let (watched, counter) = (watched.clone(), Arc::clone(&counter));
                    let mut cut = cut.clone();
                    cut.mark_unchanged();
                    tokio::spawn(async move {
                        tokio::select! {
                            // First: what is held back is lost, even if it may pass a moment later.
                            biased;
                            _ = cut.changed() => {}
                            () = pass(from, to, stopped_by, watched, counter) => {}
                        }
                    });
                }
            }
        });
        Self { port, flow, cuts, held }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lets this pass from here on. What was held back and may pass is sent.
    pub fn set(&self, flow: Flow) {
        self.flow.send_replace(flow);
    }

    /// Ends the connections of this moment. What is held back on them is lost.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Number of pieces held back so far.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    stopped_by: Flow,
    mut flow: watch::Receiver<Flow>,
    held: Arc<AtomicUsize>,
) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if *flow.borrow() == stopped_by {
            held.fetch_add(1, Relaxed);
        }
        if flow.wait_for(|flow| *flow != stopped_by).await.is_err() {
            return;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
