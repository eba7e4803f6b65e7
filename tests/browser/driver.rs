//! A `chromedriver` that ends with its value, and every browser that it started with it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::redis::TempDirectory;

/// Far beyond what starting or ending takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Advice for machines without a browser.
pub(crate) const HELP: &str = "help: apt-get install chromium chromium-driver";

pub(crate) struct Driver {
    child: Child,
    pub(crate) port: u16,
    /// The binary of the browser.
    pub(crate) browser: PathBuf,
    directory: TempDirectory,
}

impl Driver {
    /// On a port that is free.
    ///
    /// The driver takes a free port of IPv6, and ends if that port is taken on IPv4: then it is started again.
    ///
    /// # Panics
    /// The driver or its browser is not installed.
    pub(crate) fn start() -> Self {
        for _ in 0..10 {
            if let Some(driver) = Self::try_start() {
                return driver;
            }
        }
        panic!("chromedriver finds no port that is free on IPv4 and IPv6");
    }

    /// `None` if its port is taken on IPv4.
    fn try_start() -> Option<Self> {
        let browser = installed("chromium");
        let directory = TempDirectory::new();
        let log = File::create(directory.path().join("log")).unwrap();
        let child = Command::new(installed("chromedriver"))
            .arg("--port=0")
            // A group of its own: browsers outlive a driver that is killed.
            .process_group(0)
            .env("TMPDIR", directory.path())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let mut driver = Self { child, port: 0, browser, directory };
        driver.port = driver.wait_until_up()?;
        Some(driver)
    }

    /// Where browsers keep what they know. It is empty at the start.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// `None` if it has ended because its port is taken on IPv4.
    fn wait_until_up(&mut self) -> Option<u16> {
        let started = Instant::now();
        loop {
            // Before the log is read: then the log of a driver that has ended is complete.
            let ended = self.child.try_wait().unwrap();
            let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap();
            let after = log.split_once("started successfully on port ");
            if let Some((port, _)) = after.and_then(|(_, rest)| rest.split_once('.')) {
                return Some(port.parse().unwrap());
            }
            if ended.is_some() && log.contains("port not available") {
                return None;
            }
            let up_to_now = started.elapsed() < PATIENCE && ended.is_none();
            assert!(up_to_now, "chromedriver does not start: {ended:?}\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks the driver to end its browsers and itself. It answers when they have ended.
    fn ask_to_end(&self) -> std::io::Result<()> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let request = "GET /shutdown HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
        connection.write_all(request.as_bytes())?;
        connection.read_to_end(&mut Vec::new())?;
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.port != 0 {
            let _ = self.ask_to_end();
        }
        // Whatever is left of the group.
        let group = format!("-{}", self.child.id());
        let mut kill = Command::new("kill");
        let _ = kill.args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

/// Path of a binary.
fn installed(binary: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(binary))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{binary} is missing; {HELP}"))
}
