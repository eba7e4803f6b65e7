//! Connections that are made again after they have broken.

use super::channel::OwnedChannel;
use super::failure::Failure;
use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use lapin::protocol::{AMQPClass, connection, parse_class};
use lapin::tcp::{AMQPUriTcpExt as _, AsyncTcpStream};
use lapin::types::AMQPValue;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties};
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

/// The pause after a connection that was not taken, which doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

const WITHOUT_TLS: &str = "the URL asks for TLS, and the client is built without it; help: add \
    lapin = { version = \"4\", features = [\"rustls\"] } to your dependencies";

/// A broker's address, and the patience with it.
pub(super) struct Target {
    uri: AMQPUri,
    name: String,
    limit: Duration,
}

impl Target {
    pub(super) fn new(uri: AMQPUri, name: String, limit: Duration) -> Self {
        Self { uri, name, limit }
    }

    /// Waits for an answer of the broker, for as long as answers are waited for.
    pub(super) async fn in_time<T, E: Into<Failure>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        match timeout(self.limit, answer).await {
            Ok(answer) => answer.map_err(Into::into),
            Err(_) => Err(Failure::Silent { limit: self.limit }),
        }
    }

    fn address(&self) -> String {
        format!("{}:{}", self.uri.authority.host, self.uri.authority.port)
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let properties =
            ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let connects = async {
            let runtime = lapin::runtime::default_runtime()?;
            let open = async |uri: AMQPUri, runtime| {
                let stream = uri.connect_async(&runtime).await?;
                // Built without TLS, the client would send the password as it is.
                if uri.scheme == AMQPScheme::AMQPS && matches!(stream, AsyncTcpStream::Plain(_)) {
                    return Err(io::Error::other(WITHOUT_TLS).into());
                }
                Ok(stream)
            };
            Connection::connector(self.uri.clone(), runtime, open, properties).await
        };
        self.in_time(async {
            let connected = connects.await;
            connected.map_err(|error| Failure::Unreachable { address: self.address(), error })
        })
        .await
    }

    async fn open_channel(&self, connection: &Connection) -> Result<OwnedChannel, Failure> {
        let channel = self.in_time(connection.create_channel()).await?;
        Ok(OwnedChannel::new(channel, self.limit))
    }

    /// The first number of the server's version, which the client library does not tell: it is part of the
    /// server's greeting, for which a connection of its own is opened and closed again.
    pub(super) async fn major_version(&self) -> Option<u32> {
        let greeting = async { self.greeting().await.map_err(lapin::Error::from) };
        let properties = self.in_time(greeting).await.ok()??.server_properties;
        match properties.inner().get("version")? {
            AMQPValue::LongString(version) => {
                version.to_string().split('.').next()?.parse::<u32>().ok()
            }
            _ => None,
        }
    }

    async fn greeting(&self) -> io::Result<Option<connection::Start>> {
        /// The greeting has some hundred bytes.
        const LONGEST: usize = 64 * 1024;
        let runtime = lapin::runtime::default_runtime().map_err(io::Error::other)?;
        let mut stream = self.uri.connect_async(&runtime).await?;
        stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
        stream.flush().await?;
        // Type, channel, and the length of what follows.
        let mut header = [0; 7];
        stream.read_exact(&mut header).await?;
        let [_, _, _, length @ ..] = header;
        let length = u32::from_be_bytes(length) as usize;
        if length > LONGEST {
            return Ok(None);
        }
        let mut method = vec![0; length];
        stream.read_exact(&mut method).await?;
        Ok(match parse_class(&*method) {
            Ok((_, AMQPClass::Connection(connection::AMQPMethod::Start(start)))) => Some(start),
            _ => None,
        })
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address(), self.uri.vhost.trim_start_matches('/'))
    }
}

/// A connection, or the next attempt to make one.
pub(super) struct Link {
    target: Arc<Target>,
    // Held while a connection is made, so that there is one attempt at a time. A caller that goes away
    // leaves the attempt to the next one.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    failures: u32,
    retry_at: Option<Instant>,
}

impl Link {
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self { target, state: Mutex::default() }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// A new channel, on a new connection if the last one has broken. Makes one attempt, after the pause
    /// that the last failed one has left.
    pub(super) async fn channel(&self) -> Result<OwnedChannel, Failure> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection
            && connection.status().connected()
        {
            match self.target.open_channel(connection).await {
                // It broke at this moment.
                Err(Failure::Client(_)) if !connection.status().connected() => {}
                channel => return channel,
            }
        }
        state.connection = None;
        if let Some(at) = state.retry_at {
            sleep_until(at).await;
        }
        match self.target.connect().await {
            Ok(connection) => {
                (state.failures, state.retry_at) = (0, None);
                let connection = state.connection.insert(connection);
                self.target.open_channel(connection).await
            }
            Err(failure) => {
                state.retry_at = Some(Instant::now() + pause(state.failures));
                state.failures = state.failures.saturating_add(1);
                Err(failure)
            }
        }
    }

    /// Closes the connection, behind all that was sent on it.
    pub(super) async fn close(&self) -> Result<(), Failure> {
        let mut state = self.state.lock().await;
        match state.connection.take() {
            Some(connection) if connection.status().connected() => {
                self.target.in_time(connection.close(200, "closed by its user".into())).await
            }
            _ => Ok(()),
        }
    }
}

/// The pause after this many failures before, between a half and the whole of it: all clients of a broker
/// that starts again would otherwise come at the same moments.
fn pause(failures: u32) -> Duration {
    let whole = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
    // A hasher is seeded at random.
    let part = RandomState::new().hash_one(failures) % 1_000;
    whole / 2 + whole.mul_f64(part as f64 / 2_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        for failures in 0..100 {
            let whole = FIRST_PAUSE * 2_u32.pow(failures.min(20));
            let pause = pause(failures);
            assert!(pause >= whole.min(LONGEST_PAUSE) / 2, "{failures}: {pause:?}");
            assert!(pause <= whole.min(LONGEST_PAUSE), "{failures}: {pause:?}");
        }
    }
}
