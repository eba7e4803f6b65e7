//! A service in a process of its own, and a lightweight client.

use crate::worker::Worker;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The number of a call, as a client sends it. A body writes it into the journal.
pub const CALL: &str = "call";
/// Duration of the handler, in milliseconds.
pub const TAKES: &str = "takes";
/// How the handler ends: [`VALUE`] if not sent.
pub const ENDS: &str = "ends";
pub const VALUE: &str = "value";
pub const PANIC: &str = "panic";
pub const NEVER: &str = "never";
/// The number of the attempt that made an answer.
pub const ATTEMPT: &str = "attempt";

/// Settings of a service: its only argument, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    pub url: String,
    pub journal: PathBuf,
    /// Its number in the journal.
    pub process: u32,
    /// In milliseconds.
    pub lease: u64,
}

/// Statistics of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Resident memory, in bytes.
    pub resident: u64,
    /// Bytes that are allocated.
    pub allocated: u64,
    /// Tasks of its runtime.
    pub tasks: usize,
    pub in_flight: usize,
}

/// A service that ends with this value.
#[derive(Debug)]
pub struct Service {
    pub worker: Worker,
    pub address: SocketAddr,
}

impl Service {
    pub fn start(binary: &Path, orders: &Orders) -> Self {
        let orders_text = serde_json::to_string(orders).unwrap();
        let (worker, line) = Worker::start_talking(binary, &orders_text, orders.process);
        let address = line.trim().parse().expect("a service tells its address first");
        Self { worker, address }
    }

    pub async fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.address).await
    }

    /// Asked on a connection of its own, which is closed afterwards.
    pub async fn state(&self) -> State {
        let mut connection = self.connect().await.unwrap();
        let reply = connection.exchange(b"GET /state HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        serde_json::from_slice(&reply.body).unwrap()
    }
}

/// Resident memory of this process, in bytes. Linux only.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// A connection that is kept open for one request after the other.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// What was read.
    buffer: Vec<u8>,
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends a request and reads its answer, which has to announce its length.
    ///
    /// # Errors
    /// The connection breaks off.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<Reply> {
        self.write(request).await?;
        self.buffer.clear();
        let head = loop {
            self.read().await?;
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head]).map_err(io::Error::other)?.to_owned();
        let status = text.get(9..12).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("an answer has a status"))?;
        let mut reply = Reply { status, head: text, body: Vec::new() };
        let length = reply.header("content-length").and_then(|length| length.parse().ok());
        let length: usize = length.ok_or_else(|| io::Error::other("an answer has a length"))?;
        while self.buffer.len() < head + 4 + length {
            self.read().await?;
        }
        reply.body = self.buffer[head + 4..].to_vec();
        Ok(reply)
    }

    async fn read(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl Reply {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.split("\r\n").skip(1);
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}
