//! Servers: found, started on free ports, and ended with the value that stands for them.

use crate::goals::Swaps;
use crate::usage::number;
use crate::workload::EXPIRE;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use std::collections::HashMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names more server binaries, separated by white space. Tests read it too.
pub const MORE_SERVERS: &str = "REDIS_SERVERS_UNDER_TEST";

/// Records of one pipeline.
const FILL: u64 = 1_000;

/// Time limit for the start of a server.
const START: Duration = Duration::from_secs(30);

/// The machine's `redis-server`, those of [`MORE_SERVERS`], and every `*-server` of a directory.
///
/// # Errors
/// One that was named is missing, or there is none.
pub fn find(directory: Option<&Path>) -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    all.extend(
        std::env::split_paths(&path).map(|it| it.join("redis-server")).find(|it| it.is_file()),
    );
    for named in std::env::var(MORE_SERVERS).unwrap_or_default().split_whitespace() {
        let path = PathBuf::from(named);
        if !path.is_file() {
            return Err(format!("{MORE_SERVERS} names `{named}`, which is missing"));
        }
        all.push(path);
    }
    if let Some(directory) = directory {
        let entries = std::fs::read_dir(directory)
            .map_err(|error| format!("`{}` cannot be read: {error}", directory.display()))?;
        let is_server = |path: &PathBuf| {
            path.is_file()
                && path.file_name().is_some_and(|it| it.to_string_lossy().ends_with("-server"))
        };
        let mut found: Vec<_> =
            entries.flatten().map(|entry| entry.path()).filter(is_server).collect();
        if found.is_empty() {
            return Err(format!(
                "`{}` has no file whose name ends in `-server`",
                directory.display()
            ));
        }
        found.sort();
        all.extend(found);
    }
    if all.is_empty() {
        return Err("there is no redis-server\nhelp: apt-get install redis-server".to_owned());
    }
    Ok(all)
}

/// A server that is killed when this value is dropped. It keeps nothing on disk.
#[derive(Debug)]
pub struct Server {
    _process: Process,
    port: u16,
    connection: MultiplexedConnection,
    label: String,
    swaps: Swaps,
    expires_fields: bool,
}

/// A process that is killed when this value is dropped.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(binary: &Path) -> Result<Self, String> {
        let failed = |why: &str| format!("`{}` does not start: {why}", binary.display());
        let port = TcpListener::bind(("127.0.0.1", 0))
            .and_then(|listener| listener.local_addr())
            .map_err(|error| failed(&error.to_string()))?
            .port();
        let child = Command::new(binary)
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| failed(&error.to_string()))?;
        let mut process = Process(child);
        let client = redis::Client::open(url(port)).map_err(|error| failed(&error.to_string()))?;
        let started = Instant::now();
        let connection = loop {
            // To remove a million records takes longer than answers to calls may take.
            let patient = AsyncConnectionConfig::new().set_response_timeout(Some(START));
            match client.get_multiplexed_async_connection_with_config(&patient).await {
                Ok(connection) => break connection,
                Err(error) if started.elapsed() > START => return Err(failed(&error.to_string())),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
            if let Ok(Some(status)) = process.0.try_wait() {
                return Err(failed(&status.to_string()));
            }
        };
        let info = info(&connection, "server").await;
        let (label, swaps) = (label(&info), swaps(&connection, &info).await);
        let expires_fields = expires_fields(&connection).await;
        Ok(Self { _process: process, port, connection, label, swaps, expires_fields })
    }

    /// Its name and version.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The way in which it swaps records.
    pub fn swaps(&self) -> Swaps {
        self.swaps
    }

    /// `true` if it has `HEXPIRE`, which a peer needs.
    pub fn expires_fields(&self) -> bool {
        self.expires_fields
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A connection that nobody else has.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn connect(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url()).expect("a URL of our own");
        client.get_multiplexed_async_connection().await.expect("the server is up")
    }

    /// The fields of a section of `INFO`.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn info(&self, section: &str) -> HashMap<String, String> {
        info(&self.connection, section).await
    }

    /// Writes so many records that nobody asks for.
    ///
    /// # Panics
    /// The server does not take them.
    pub async fn fill(&self, count: u64) {
        let mut connection = self.connection.clone();
        for first in (0..count).step_by(FILL as usize) {
            let mut pipeline = redis::pipe();
            for id in first..count.min(first + FILL) {
                pipeline.cmd("SET").arg(format!("other|orders.create|{id}")).arg(&[7_u8; 128][..]);
                pipeline.arg("EX").arg(EXPIRE.as_secs()).ignore();
            }
            let () = pipeline.exec_async(&mut connection).await.expect("the server takes records");
        }
    }

    /// Bytes that the server has allocated.
    pub async fn memory(&self) -> f64 {
        number(&self.info("memory").await, "used_memory")
    }

    /// Removes every record, and returns when they are gone.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn flush(&self) {
        let mut command = redis::cmd("FLUSHALL");
        let () = command
            .arg("SYNC")
            .query_async(&mut self.connection.clone())
            .await
            .expect("the server answers FLUSHALL");
    }
}

async fn info(connection: &MultiplexedConnection, section: &str) -> HashMap<String, String> {
    let mut command = redis::cmd("INFO");
    let text: String = command
        .arg(section)
        .query_async(&mut connection.clone())
        .await
        .expect("the server answers INFO");
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// Asks the server for a swap that does nothing.
async fn swaps(connection: &MultiplexedConnection, info: &HashMap<String, String>) -> Swaps {
    let mut command = redis::cmd("SET");
    command.arg("no such key").arg("").arg("IFEQ").arg("another value");
    let answer: redis::RedisResult<redis::Value> =
        command.query_async(&mut connection.clone()).await;
    match answer {
        Ok(_) if info.contains_key("valkey_version") => Swaps::ByCommandOfValkey,
        Ok(_) => Swaps::ByCommand,
        Err(_) => Swaps::ByScript,
    }
}

async fn expires_fields(connection: &MultiplexedConnection) -> bool {
    let mut command = redis::cmd("COMMAND");
    let known: redis::RedisResult<Vec<redis::Value>> =
        command.arg("INFO").arg("HEXPIRE").query_async(&mut connection.clone()).await;
    known.is_ok_and(|known| known.iter().any(|it| !matches!(it, redis::Value::Nil)))
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

/// The name and version that a server tells of itself.
fn label(info: &HashMap<String, String>) -> String {
    match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, Some(version)) => format!("Redis {version}"),
        (None, None) => "a server without a version".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn valkey_is_not_called_by_the_redis_version_that_it_also_tells() {
        assert_eq!(
            label(&info(&[("redis_version", "7.2.4"), ("valkey_version", "9.1.0")])),
            "Valkey 9.1.0"
        );
        assert_eq!(label(&info(&[("redis_version", "7.0.15")])), "Redis 7.0.15");
    }

    #[test]
    fn a_directory_without_servers_is_an_error() {
        let error = find(Some(Path::new("/proc/self/fdinfo"))).unwrap_err();
        assert!(error.contains("-server"), "{error}");
    }
}
