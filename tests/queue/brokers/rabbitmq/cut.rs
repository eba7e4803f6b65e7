//! A way to a server whose connections can be cut.

use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Forwards connections to a server for as long as its runtime lives.
#[derive(Debug)]
pub(super) struct Cut {
    port: u16,
    cut: Arc<Notify>,
}

impl Cut {
    /// A way to the server of a URL.
    pub(super) async fn before(url: &str) -> Self {
        let server = url.rsplit(['@', '/']).next().unwrap().to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(Notify::new());
        let notified = Arc::clone(&cut);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let Ok(mut server) = TcpStream::connect(&server).await else { continue };
                let cut = Arc::clone(&notified);
                tokio::spawn(async move {
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        () = cut.notified() => {}
                    }
                });
            }
        });
        Self { port, cut }
    }

    pub(super) fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}", self.port)
    }

    /// Cuts all connections, without a word to either side.
    pub(super) fn all(&self) {
        self.cut.notify_waiters();
    }
}
