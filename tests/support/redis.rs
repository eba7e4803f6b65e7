//! Real servers, started by tests on free ports and ended with them.

use super::guard::{Account, Guard};
use super::until_async;
use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{RedisStore, Store, StoreFuture};
use idempotent_runtime::testing::Subject;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Names more server binaries, separated by white space, for [`binaries`].
const MORE_SERVERS: &str = "REDIS_SERVERS_UNDER_TEST";

/// Names a server, by its URL, that processes of tests share.
pub const SHARED: &str = "REDIS_UNDER_TEST";

/// Time limit for the start of a server.
const START: Duration = Duration::from_secs(30);

/// The server of the machine, and every one that the environment names.
///
/// # Panics
/// One of them is missing.
pub fn binaries() -> Vec<PathBuf> {
    let more = std::env::var(MORE_SERVERS).unwrap_or_default();
    let mut all = vec![installed()];
    for path in more.split_whitespace() {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "{MORE_SERVERS} names `{}`, which is missing", path.display());
        all.push(path);
    }
    all
}

/// The server of the machine.
///
/// # Panics
/// There is none.
pub fn installed() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join("redis-server"))
        .find(|path| path.is_file())
        .expect("redis-server is missing; help: apt-get install redis-server")
}

/// The URL of the server that the environment names, or of one of this process, which ends with it even
/// if it is killed. Tests that share it have keys of their own.
pub fn shared_redis() -> &'static str {
    static STARTED: Mutex<Vec<Guard>> = Mutex::new(Vec::new());
    static URL: LazyLock<String> = LazyLock::new(|| {
        if let Ok(url) = std::env::var(SHARED) {
            return url;
        }
        // Another process may take the port before the server does.
        for _ in 0..10 {
            let (directory, port) = (TempDirectory::new(), free_port());
            let text = port.to_string();
            let server = installed();
            let arguments = ["--bind", "127.0.0.1", "--save", "", "--port", &text];
            let command = [server.as_path()].into_iter().chain(arguments.map(Path::new));
            let command: Vec<_> = command.collect();
            let mut guard = Guard::new(Account::present(), &directory, "KILL", &command);
            if guard.start("eady to accept connections") {
                STARTED.lock().unwrap().push(guard);
                // The guard removes it.
                std::mem::forget(directory);
                return format!("redis://127.0.0.1:{port}/");
            }
        }
        panic!("{} does not start", installed().display());
    });
    &URL
}

/// A server that is killed when this value is dropped.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    binary: PathBuf,
    arguments: Vec<String>,
    pub port: u16,
    directory: TempDirectory,
}

/// A directory that is removed when this value is dropped.
#[derive(Debug)]
pub struct TempDirectory(PathBuf);

impl TempDirectory {
    pub fn new() -> Self {
        let name = format!("idempotent-{}-{:016x}", std::process::id(), rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for TempDirectory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that nobody uses at the moment, nor the one above it by 10,000, which a cluster takes too.
pub fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        if let Some(bus) = port.checked_add(10_000)
            && TcpListener::bind(("127.0.0.1", bus)).is_ok()
        {
            return port;
        }
    }
}

impl RedisServer {
    /// The machine's server, with nothing on disk.
    pub fn start() -> Self {
        Self::start_with(&installed(), &[])
    }

    /// A server with more arguments.
    pub fn start_with(binary: &Path, arguments: &[&str]) -> Self {
        let owned = |argument: &&str| (*argument).to_owned();
        let arguments: Vec<String> = arguments.iter().map(owned).collect();
        // Somebody else may take the port before the server does.
        for _ in 0..10 {
            let directory = TempDirectory::new();
            let port = free_port();
            let child = spawn(binary, port, directory.path(), &arguments);
            let binary = binary.to_owned();
            let arguments = arguments.clone();
            let mut server = Self { child, binary, arguments, port, directory };
            if server.wait_until_up() {
                return server;
            }
        }
        panic!("{} does not start", binary.display());
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The server's unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// A connection of the test's own.
    pub async fn connection(&self) -> MultiplexedConnection {
        connection(&self.url()).await
    }

    /// Ends the server without a warning.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on its port, with what it has on disk.
    pub fn restart(&mut self) {
        self.kill();
        let started = Instant::now();
        loop {
            self.child = spawn(&self.binary, self.port, self.directory.path(), &self.arguments);
            if self.wait_until_up() {
                return;
            }
            assert!(started.elapsed() < START, "the server does not start again");
        }
    }

    /// Ends it without a warning and starts it again, this once with more arguments. Returns while
    /// it reads what it has on disk.
    pub fn restart_loading(&mut self, arguments: &[&str]) {
        self.kill();
        let mut all = self.arguments.clone();
        all.extend(arguments.iter().map(|it| (*it).to_owned()));
        self.child = spawn(&self.binary, self.port, self.directory.path(), &all);
    }

    /// Stops the process where it is; [`go_on`](Self::go_on) lets it continue.
    pub fn pause(&self) {
        signal(self.child.id(), "STOP");
    }

    pub fn go_on(&self) {
        signal(self.child.id(), "CONT");
    }

    /// The log of the server since its last start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// `false` if it has ended.
    fn wait_until_up(&mut self) -> bool {
        let started = Instant::now();
        while started.elapsed() < START {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            let log = self.log();
            if log.contains("eady to accept connections") || log.contains("+monitor") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(binary: &Path, port: u16, directory: &Path, arguments: &[String]) -> Child {
    let log = File::create(directory.join("log")).unwrap();
    let mut command = Command::new(binary);
    // A file of settings comes first.
    let (file, arguments) = match arguments.split_first() {
        Some((first, rest)) if first.ends_with(".conf") => (Some(first), rest),
        _ => (None, arguments),
    };
    command.args(file);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.arg("--dir").arg(directory).arg("--daemonize").arg("no");
    command.arg("--unixsocket").arg(directory.join("socket"));
    command.args(arguments).stdout(log).stderr(Stdio::null()).stdin(Stdio::null());
    loop {
        match command.spawn() {
            // A script that was just written: the child of another thread has it open until it is a program of its own.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::yield_now();
            }
            spawned => {
                return spawned.unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
            }
        }
    }
}

/// Sends a signal by name to a process.
pub fn signal(process: u32, name: impl AsRef<OsStr>) {
    let sent = Command::new("kill").arg("-s").arg(name).arg(process.to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()), "process {process} takes no signal");
}

/// A connection of the test's own, which waits for as long as it takes.
pub async fn connection(url: &str) -> MultiplexedConnection {
    let client = ::redis::Client::open(url).unwrap();
    let config = ::redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(START))
        .set_response_timeout(Some(START));
    let started = Instant::now();
    loop {
        match client.get_multiplexed_async_connection_with_config(&config).await {
            Ok(connection) => return connection,
            // A server that becomes a replica closes its connections.
            Err(error) => assert!(started.elapsed() < START, "{url}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A line of what a server says about itself; empty if it does not say it.
pub async fn info(server: &RedisServer, field: &str) -> String {
    loop {
        let mut connection = server.connection().await;
        let mut command = ::redis::cmd("INFO");
        let text = command.arg("everything").query_async::<String>(&mut connection).await;
        // A server that becomes a replica closes its connections.
        let Ok(text) = text else { continue };
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        return line.unwrap_or_default().trim().to_owned();
    }
}

/// The same, as a number; 0 if the server does not say it.
pub async fn info_number(server: &RedisServer, field: &str) -> u64 {
    info(server, field).await.parse().unwrap_or(0)
}

/// Waits until a server has this role.
pub async fn until_role(server: &RedisServer, role: &str) {
    until_async(|| async { info(server, "role").await == role }).await;
}

/// Waits until so many replicas confirm what a master writes.
pub async fn until_replicated(master: &RedisServer, replicas: usize) {
    until_async(|| async {
        let mut connection = master.connection().await;
        let mut pipeline = ::redis::pipe();
        pipeline.cmd("PUBLISH").arg("replicated").arg("?").ignore();
        pipeline.cmd("WAIT").arg(replicas).arg(1_000);
        let confirmed = pipeline.query_async::<(usize,)>(&mut connection).await;
        confirmed.is_ok_and(|(confirmed,)| confirmed >= replicas)
    })
    .await;
}

/// The name of a record in Redis, as `docs/wire-format.md` describes it.
pub fn record_name(key: &RecordKey) -> String {
    let text = key.as_str();
    if text.contains('{') { format!("{{}}{text}") } else { text.to_owned() }
}

/// A Redis store under test. Time passes for it when its records' time to live is lowered.
#[derive(Debug)]
pub struct RedisSubject {
    store: Arc<RedisStore>,
    connection: MultiplexedConnection,
    _server: Option<RedisServer>,
}

impl RedisSubject {
    /// A store on a server of its own.
    pub async fn start(binary: &Path) -> Self {
        let server = RedisServer::start_with(binary, &[]);
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let connection = server.connection().await;
        Self { store: Arc::new(store), connection, _server: Some(server) }
    }

    /// A store, and a connection that can change its records.
    pub fn of(store: RedisStore, connection: MultiplexedConnection) -> Self {
        Self { store: Arc::new(store), connection, _server: None }
    }

    pub fn server_version(&self) -> &str {
        self.store.server_version()
    }
}

impl Subject for RedisSubject {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    fn step<'a>(&'a self, keys: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        let mut connection = self.connection.clone();
        StoreFuture::new(async move {
            for key in keys {
                age(&mut connection, &record_name(key), by).await;
            }
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Lets `by` pass for one record.
pub async fn age(connection: &mut impl ConnectionLike, name: &str, by: Duration) {
    let script = "local ttl = redis.call('PTTL', KEYS[1]) - ARGV[1] \
                  if ttl > 0 then redis.call('PEXPIRE', KEYS[1], ttl) \
                  else redis.call('DEL', KEYS[1]) end";
    let mut command = ::redis::cmd("EVAL");
    command.arg(script).arg(1).arg(name).arg(by.as_millis() as u64);
    let () = command.query_async(connection).await.unwrap();
}
