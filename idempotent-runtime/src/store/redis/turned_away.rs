//! The error of a server that closes a connection as soon as it is made.
//!
//! A server that takes no more connections, or that is in protected mode, says so before it is
//! asked anything. The client takes that for an answer to nothing and reports no more than the end
//! of the connection. So the server is listened to once more.

use redis::{ConnectionAddr, RedisError};
use std::io::Read;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The time for which a server is listened to. One that turns connections away does so at once.
const PATIENCE: Duration = Duration::from_millis(200);

/// The error with which a server turns connections away, if it does.
pub(super) async fn turned_away(address: &ConnectionAddr) -> Option<RedisError> {
    let address = address.clone();
    tokio::task::spawn_blocking(move || listen(&address)).await.ok()?
}

fn listen(address: &ConnectionAddr) -> Option<RedisError> {
    match address {
        ConnectionAddr::Tcp(host, port) => {
            let address = (&**host, *port).to_socket_addrs().ok()?.next()?;
            let server = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
            server.set_read_timeout(Some(PATIENCE)).ok()?;
            first_words(server)
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let server = std::os::unix::net::UnixStream::connect(path).ok()?;
            server.set_read_timeout(Some(PATIENCE)).ok()?;
            first_words(server)
        }
        // What is said before a handshake is not heard.
        _ => None,
    }
}

fn first_words(mut server: impl Read) -> Option<RedisError> {
    let mut words = [0; 1024];
    let read = server.read(&mut words).ok()?;
    redis::parse_redis_value(&words[..read]).ok()?.extract_error().err()
}
