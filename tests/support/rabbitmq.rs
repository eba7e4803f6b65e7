//! Real RabbitMQ servers: one that tests share, each with queues of its own, and servers that a test may kill.

use crate::guard::{Account, Guard, Paused, program, wait_until};
use crate::redis::{TempDirectory, free_port};
use std::ffi::OsString;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Names a running server for [`shared_rabbitmq`]: a URL of a user who may declare queues.
pub const SHARED: &str = "RABBITMQ_UNDER_TEST";

const ACCOUNT: &str = "rabbitmq";

/// Debian's script. The one in `PATH` changes to the account by itself, and asks for a terminal.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// A durable server of a test's own. It is ended with this value, or with this process.
///
/// It has a port mapper of its own, which it would otherwise start, and leave behind.
#[derive(Debug)]
pub struct RabbitMqServer {
    // Before the directories, which the processes use until they have ended.
    guard: Guard,
    _port_mapper: Guard,
    port: u16,
    _directories: [TempDirectory; 2],
}

impl RabbitMqServer {
    /// The machine's server.
    ///
    /// # Panics
    /// It is missing, or does not start.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The machine's server, with settings of its application: a name and a value each.
    ///
    /// # Panics
    /// It is missing, or does not start.
    pub fn start_with(settings: &[(&str, u32)]) -> Self {
        let server = PathBuf::from(SERVER);
        let is_there = server.is_file();
        assert!(is_there, "RabbitMQ is missing; help: apt-get install rabbitmq-server");
        // Another process may take a port before the server does.
        let mut log = String::new();
        for _ in 0..5 {
            let (directory, port, distribution) = (TempDirectory::new(), free_port(), free_port());
            let account = Account::owner_of(&directory, ACCOUNT);
            let (mapper_directory, mapper_port) = (TempDirectory::new(), free_port());
            Account::owner_of(&mapper_directory, ACCOUNT);
            let Some(port_mapper) = port_mapper(account, &mapper_directory, mapper_port) else {
                continue;
            };
            account.write(&directory.path().join("plugins"), b"[].");
            // It reserves files for each queue, and accepts no connection when there are none left.
            let raised = "ulimit -n \"$(ulimit -H -n)\" && exec env \"$@\"";
            let mut command: Vec<OsString> = ["sh", "-c", raised, "sh"].map(Into::into).into();
            command.extend(environment(
                directory.path(),
                port,
                distribution,
                mapper_port,
                settings,
            ));
            command.push(server.clone().into());
            let command: Vec<_> = command.iter().map(Path::new).collect();
            let guard = Guard::new(account, &directory, "KILL", &command);
            let directories = [directory, mapper_directory];
            let mut server =
                Self { guard, _port_mapper: port_mapper, port, _directories: directories };
            if server.come_up() {
                return server;
            }
            log = server.log();
        }
        panic!("{SERVER} does not start:\n{log}");
    }

    /// The address of its default virtual host, as the user who is there from the beginning.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}", self.address())
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends the server without a warning, as a crash does.
    pub fn kill(&mut self) {
        self.guard.kill();
    }

    /// Starts it again on its port, with what it has on disk. Kills it before if it runs.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.come_up(), "the server does not start again:\n{}", self.log());
    }

    /// Stops the server where it is, until the returned value is dropped.
    pub fn pause(&self) -> Paused {
        Paused::new(self.guard.process())
    }

    /// The log of the server since its last start.
    pub fn log(&self) -> String {
        self.guard.log()
    }

    fn come_up(&mut self) -> bool {
        self.guard.start("Starting broker... completed")
    }
}

/// A port mapper in the foreground, under a guard. `None` if another process has taken its port.
fn port_mapper(account: Account, directory: &TempDirectory, port: u16) -> Option<Guard> {
    let (program, number) = (program("epmd", "rabbitmq-server"), port.to_string());
    let command = ["-address", "127.0.0.1", "-port", &number].map(Path::new);
    let command: Vec<_> = [&*program].into_iter().chain(command).collect();
    let mut guard = Guard::new(account, directory, "KILL", &command);
    // It writes nothing.
    let is_started = guard.start("");
    wait_until(|| {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
            || !crate::guard::is_running(guard.process())
    });
    (is_started && crate::guard::is_running(guard.process())).then_some(guard)
}

fn environment(
    directory: &Path,
    port: u16,
    distribution: u16,
    mapper: u16,
    settings: &[(&str, u32)],
) -> Vec<OsString> {
    let mut arguments = "-kernel inet_dist_use_interface {127,0,0,1}".to_owned();
    for (name, value) in settings {
        arguments += &format!(" -rabbit {name} {value}");
    }
    let within = |name: &str| directory.join(name).display().to_string();
    let variables = [
        ("HOME", directory.display().to_string()),
        ("RABBITMQ_NODENAME", format!("idempotent-{port}@localhost")),
        ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_NODE_PORT", port.to_string()),
        ("RABBITMQ_DIST_PORT", distribution.to_string()),
        ("RABBITMQ_MNESIA_BASE", within("data")),
        ("RABBITMQ_LOG_BASE", within("logs")),
        ("RABBITMQ_PID_FILE", within("pid")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", within("plugins")),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        ("ERL_EPMD_PORT", mapper.to_string()),
        ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", arguments),
        // The script then becomes the server, and does not stand before it: there is one process to signal.
        ("RUNNING_UNDER_SYSTEMD", "true".to_owned()),
    ];
    variables.into_iter().map(|(name, value)| format!("{name}={value}").into()).collect()
}

/// The URL of the server that the environment names, or of one of this process.
pub fn shared_rabbitmq() -> &'static str {
    static STARTED: LazyLock<RabbitMqServer> = LazyLock::new(RabbitMqServer::start);
    static URL: LazyLock<String> =
        LazyLock::new(|| std::env::var(SHARED).unwrap_or_else(|_| STARTED.url()));
    &URL
}

/// A name for a queue that no other test has.
pub fn queue_name() -> String {
    format!("test-{:016x}", rand::random::<u64>())
}
