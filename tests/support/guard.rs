//! Server processes that end with the process that started them, even if that one is killed.
//!
//! A shell stands between the two. Its standard input is a pipe that only the test process holds, so the kernel
//! closes it however that process ends. The shell then ends the server and removes its directory. Statics,
//! which are never dropped, can hold servers for this reason.

use crate::patience::Patience;
use crate::redis::{TempDirectory, signal};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Reads orders from its standard input, and answers each with a line. Arguments: the signal that ends the server,
/// the directory, and the server's command.
const SHELL: &str = r#"
finish=$1
directory=$2
shift 2
server=
while read -r order; do
    case $order in
    start)
        : >"$directory/log"
        "$@" </dev/null >>"$directory/log" 2>&1 &
        server=$!
        echo "$server"
        ;;
    reap)
        wait "$server"
        server=
        echo reaped
        ;;
    esac
done
if [ -n "$server" ]; then
    kill -s "$finish" "$server"
    wait "$server"
fi
rm -rf -- "$directory"
"#;

/// The account that a server runs under: the present user's, unless that is root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account(Option<(u32, u32)>);

impl Account {
    /// The present user's, also if that is root.
    pub(crate) fn present() -> Self {
        Self(None)
    }

    /// Gives a directory of ours to the account of this name if we are root. Otherwise the present user keeps it.
    ///
    /// # Panics
    /// There is no such account.
    pub(crate) fn owner_of(directory: &TempDirectory, name: &str) -> Self {
        if fs::metadata(directory.path()).unwrap().uid() != 0 {
            return Self(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").unwrap();
        let fields = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let ids = fields.into_iter().find_map(|fields| match fields[..] {
            [found, _, user, group, ..] if found == name => {
                Some((user.parse().ok()?, group.parse().ok()?))
            }
            _ => None,
        });
        let (user, group) = ids.unwrap_or_else(|| panic!("root needs the account `{name}`"));
        chown(directory.path(), Some(user), Some(group)).unwrap();
        Self(Some((user, group)))
    }

    /// A command that this account runs.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Writes a file that only this account can read.
    pub(crate) fn write(self, path: &Path, content: &[u8]) {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).unwrap();
        file.write_all(content).unwrap();
        if let Some((user, group)) = self.0 {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }
}

/// A program in `PATH`, or where Debian has servers.
///
/// # Panics
/// It is missing.
pub(crate) fn program(name: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing; help: apt-get install {package}"))
}

/// Runs a command that must succeed.
///
/// # Panics
/// It fails. The message has what it printed.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{printed}{complained}");
    printed.into_owned()
}

/// A server and the shell that watches over it. Ended with this value, or with this process.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    /// Closed to end the shell.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Process id of the server, if it was started and not killed.
    server: Option<u32>,
    log: PathBuf,
}

impl Guard {
    /// A guard of a server that does not run yet. `finish` is the signal that ends it at once.
    pub(crate) fn new(
        account: Account,
        directory: &TempDirectory,
        finish: &str,
        server: &[&Path],
    ) -> Self {
        let mut command = account.command(Path::new("sh"));
        command.args(["-c", SHELL, "guard", finish]).arg(directory.path()).args(server);
        command.current_dir(directory.path());
        // Signals from the terminal, and those to the group of the tests, are not for it: it has to clean up.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().unwrap();
        let orders = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().expect("its output is piped"));
        Self { shell, orders, answers, server: None, log: directory.path().join("log") }
    }

    /// Process id of the server.
    ///
    /// # Panics
    /// It does not run.
    pub(crate) fn process(&self) -> u32 {
        self.server.expect("the server runs")
    }

    /// Returns `true` if the server was started and not killed.
    pub(crate) fn is_started(&self) -> bool {
        self.server.is_some()
    }

    /// The log of the server since its last start.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Starts the server, and waits until its log has this text. Returns `false` if it ended before.
    ///
    /// # Panics
    /// It neither ends nor gets that far.
    pub(crate) fn start(&mut self, ready: &str) -> bool {
        let process = self.order("start").parse().expect("a process id");
        self.server = Some(process);
        // On a busy machine, RabbitMQ takes minutes to read what it had on disk.
        let mut patience = Patience::of(Duration::from_secs(300));
        while !self.log().contains(ready) {
            if !is_running(process) {
                self.reap();
                return false;
            }
            let log = self.log();
            assert!(!patience.is_over(), "the server does not start:\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Ends the server and its children without a warning, and waits until they are gone.
    pub(crate) fn kill(&mut self) {
        let Some(server) = self.server else { return };
        if is_running(server) {
            // Stopped first, so that it has no other children than those that are found.
            signal(server, "STOP");
            wait_until(|| state(server).is_none_or(|state| matches!(state, 'T' | 'Z')));
            let children = children_of(server);
            signal(server, "KILL");
            for &child in &children {
                signal_if_alive(child, "KILL");
            }
            wait_until(|| !children.iter().any(|&child| is_running(child)));
        }
        self.reap();
    }

    fn reap(&mut self) {
        self.order("reap");
        self.server = None;
    }

    /// Gives the shell an order, and returns its answer.
    fn order(&mut self, order: &str) -> String {
        let mut orders = self.orders.as_ref().expect("it is open while this value lives");
        writeln!(orders, "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.shell.wait();
    }
}

/// A process that was stopped where it was, and goes on when this value is dropped.
#[derive(Debug)]
#[must_use]
pub struct Paused(u32);

impl Paused {
    /// Stops a process, and waits until it stands still.
    pub fn new(process: u32) -> Self {
        signal(process, "STOP");
        wait_until(|| state(process) == Some('T'));
        Self(process)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        signal_if_alive(self.0, "CONT");
    }
}

/// Returns `true` unless a process has ended, whether or not its parent has taken notice.
pub fn is_running(process: u32) -> bool {
    state(process).is_some_and(|state| state != 'Z')
}

fn signal_if_alive(process: u32, name: &str) {
    let process = process.to_string();
    let mut command = Command::new("kill");
    let _ = command.args(["-s", name, &process]).stderr(Stdio::null()).status();
}

/// State and parent of a process, as `/proc` has them.
fn status(process: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // They follow the name, which is in brackets and may hold anything.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

fn state(process: u32) -> Option<char> {
    status(process).map(|(state, _)| state)
}

/// Process ids of the children of a process.
pub fn children_of(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|&id| status(id).is_some_and(|(_, of)| of == parent)).collect()
}

/// Waits for a condition, without a runtime.
pub(crate) fn wait_until(condition: impl Fn() -> bool) {
    let mut patience = Patience::usual();
    while !condition() {
        assert!(!patience.is_over(), "the condition did not come true");
        std::thread::sleep(Duration::from_millis(1));
    }
}
