//! A service with the HTTP layer against the same service without it, and with the layer of a peer.

use crate::servers::Server;
use crate::statistics::Summary;
use crate::subject::Phase;
use crate::workload::{Body, Order, VALUE_BYTES, bodies, fresh_ids};
use axum::routing::post;
use axum::{Json, Router};
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use fred::prelude::{Builder, Client, ClientLike as _, Config};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::Idempotency;
use idempotent_runtime::store::{MemoryStore, RedisStore};
use ruts::store::moka::MokaStore;
use ruts::{CookieOptions, SessionLayer};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower_cookies::CookieManagerLayer;

/// Connections that are kept open.
pub const CONNECTIONS: u64 = 64;

/// Requests of a connection in a turn.
const EACH: u64 = 100;

/// The service without a layer.
pub const BARE: &str = "bare";
/// The product's layer, with the memory store.
pub const MEMORY: &str = "`IdempotencyLayer`, memory";
/// The product's layer, on Redis.
pub const REDIS: &str = "`IdempotencyLayer`, Redis";
/// The peer's layer, with its memory store.
pub const PEER_MEMORY: &str = "axum-idempotent 0.6, memory";
/// The peer's layer, on Redis.
pub const PEER_REDIS: &str = "axum-idempotent 0.6, Redis";

/// Throughput of one service.
#[derive(Clone, Debug)]
pub struct Row {
    /// The service.
    pub name: &'static str,
    /// First executions, or replays.
    pub phase: Phase,
    /// Requests a second.
    pub rate: Summary,
    /// Throughput over that of the bare service.
    pub ratio: Summary,
}

/// A service and the connections to it.
struct Service {
    name: &'static str,
    connections: Vec<Connection>,
}

/// Measures in alternating rounds.
///
/// # Panics
/// A request is not answered as it has to be.
pub async fn measure(server: &Server, rounds: usize) -> Vec<Row> {
    let mut services = services(server).await;
    let mut rates = vec![[const { Vec::new() }; 2]; services.len()];
    for round in 0..=rounds {
        for turn in 0..services.len() {
            let index = (turn + round) % services.len();
            server.flush().await;
            let first = fresh_ids(CONNECTIONS * EACH);
            for (phase, rates) in Phase::ALL.into_iter().zip(&mut rates[index]) {
                let rate = crowd(&mut services[index], phase, first).await;
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
    }
    server.flush().await;
    let bare = rates[0].clone();
    let mut rows = Vec::new();
    for (service, rates) in services.iter().zip(&rates) {
        for ((phase, rates), bare) in Phase::ALL.into_iter().zip(rates).zip(&bare) {
            let (rate, ratio) = (Summary::of(rates.clone()), Summary::of_ratios(rates, bare));
            rows.push(Row { name: service.name, phase, rate, ratio });
        }
    }
    rows
}

async fn services(server: &Server) -> Vec<Service> {
    let layer = |idem: &Idempotency| IdempotencyLayer::new(idem, "shop");
    let memory = Idempotency::builder().store(MemoryStore::new()).build().expect("valid settings");
    let store = RedisStore::connect(&server.url()).await.expect("the server is up");
    let redis = Idempotency::builder().store(store).build().expect("valid settings");
    let moka = Arc::new(MokaStore::builder().build());
    let mut services = vec![
        Service::start(BARE, app()).await,
        Service::start(MEMORY, app().layer(layer(&memory))).await,
        Service::start(PEER_MEMORY, sessions(app().layer(peer::<MokaStore>()), moka)).await,
        Service::start(REDIS, app().layer(layer(&redis))).await,
    ];
    if server.expires_fields() {
        let store = Arc::new(peer_store(server).await);
        let app = sessions(app().layer(peer::<PeerStore>()), store);
        services.push(Service::start(PEER_REDIS, app).await);
    }
    services
}

type PeerStore = ruts::store::redis::RedisStore<Client>;

/// The peer's layer as it is fastest: it takes the key from the header, and does not read the request's body.
fn peer<T>() -> IdempotentLayer<T> {
    IdempotentLayer::new(IdempotentOptions::new(3600).use_idempotency_key_header(None, true))
}

/// The sessions that the peer keeps responses in.
fn sessions<T: ruts::store::SessionStore>(app: Router, store: Arc<T>) -> Router {
    let cookies = CookieOptions::build().name("session").max_age(3600).path("/");
    let layer = SessionLayer::new(store).with_cookie_options(cookies);
    app.layer(layer).layer(CookieManagerLayer::new())
}

async fn peer_store(server: &Server) -> PeerStore {
    let config = Config::from_url(&server.url()).expect("a URL of our own");
    let client = Builder::from_config(config).build().expect("a valid configuration");
    client.init().await.expect("the server is up");
    PeerStore::new(Arc::new(client)).await.expect("the server takes scripts")
}

fn app() -> Router {
    let body = Body::of_size(VALUE_BYTES);
    let create = async move |Json(order): Json<Order>| Json(body.run(order.id));
    Router::new().route("/orders", post(create))
}

impl Service {
    async fn start(name: &'static str, app: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, app).await });
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection::open(address).await.expect("the service is up"));
        }
        Self { name, connections }
    }
}

/// Sends requests on all connections at once, and returns how many were answered a second.
async fn crowd(service: &mut Service, phase: Phase, first: u64) -> f64 {
    let before = bodies();
    let prepare = |(mut connection, index): (Connection, u64)| {
        let first = first + index * EACH;
        let requests: Vec<_> = (first..first + EACH).map(|id| request(id, index)).collect();
        async move {
            for request in &requests {
                connection.exchange(request).await.expect("the request is answered");
            }
            connection
        }
    };
    let work: Vec<_> = service.connections.drain(..).zip(0..).map(prepare).collect();
    let started = Instant::now();
    let tasks: Vec<_> = work.into_iter().map(tokio::spawn).collect();
    for task in tasks {
        service.connections.push(task.await.expect("the request is answered"));
    }
    let elapsed: Duration = started.elapsed();
    let expected = match (phase, service.name) {
        (Phase::Replay, name) if name != BARE => 0,
        _ => CONNECTIONS * EACH,
    };
    assert_eq!(bodies() - before, expected, "handlers of `{}`, {}", service.name, phase.name());
    (CONNECTIONS * EACH) as f64 / elapsed.as_secs_f64()
}

/// A request. Every connection has a session of its own, which only the peer looks at.
fn request(id: u64, connection: u64) -> Vec<u8> {
    let body = format!(r#"{{"id":{id},"item":"a lamp","cents":1299}}"#);
    let length = body.len();
    format!(
        "POST /orders HTTP/1.1\r\nhost: localhost\r\nuser-agent: bench\r\naccept: */*\r\n\
         content-type: application/json\r\ncookie: session={connection:0>21}A\r\n\
         idempotency-key: \"0a1b2c3d-{id:016x}\"\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A connection that is kept open for one request after the other.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Sends a request and reads its answer.
    async fn exchange(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if whole(&self.buffer)? {
                return Ok(());
            }
        }
    }
}

/// `true` if an answer has been read to its end.
fn whole(answer: &[u8]) -> io::Result<bool> {
    let Some(head) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(false);
    };
    let text = std::str::from_utf8(&answer[..head]).map_err(io::Error::other)?;
    if !text.starts_with("HTTP/1.1 200") {
        return Err(io::Error::other(String::from_utf8_lossy(answer).into_owned()));
    }
    let mut lines = text.split("\r\n");
    let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let length: usize = length.ok_or_else(|| io::Error::other("an answer has a length"))?;
    Ok(answer.len() >= head + 4 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_to_its_end() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        assert!(whole(answer).unwrap());
        assert!((1..answer.len()).all(|end| !whole(&answer[..end]).unwrap_or(false)));
    }

    #[test]
    fn a_refusal_is_an_error() {
        assert!(whole(b"HTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n").is_err());
    }
}
