//! A server with a wall clock that tests can step, without affecting other processes.

use crate::redis::{TempDirectory, installed};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Steps the clock of the servers that are started by [`binary`](Self::binary).
#[derive(Debug)]
pub struct ServerClock(TempDirectory);

impl ServerClock {
    /// # Panics
    /// There is no C compiler, without which no Rust is linked either.
    pub fn new() -> Self {
        let clock = Self(TempDirectory::new());
        let (source, library) = (clock.file("clock.c"), clock.file("clock.so"));
        fs::write(&source, include_str!("clock.c")).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        assert!(cc.status().is_ok_and(|status| status.success()), "cc is missing or fails");
        clock.step(0);
        // The library is loaded only into the server, not into the shell that starts it.
        let script = format!(
            "#!/bin/sh\nexec env LD_PRELOAD={} CLOCK_STEP={} {} \"$@\"\n",
            library.display(),
            clock.file("step").display(),
            installed().display()
        );
        fs::write(clock.binary(), script).unwrap();
        fs::set_permissions(clock.binary(), fs::Permissions::from_mode(0o755)).unwrap();
        clock
    }

    /// The command that starts a server on this clock.
    pub fn binary(&self) -> PathBuf {
        self.file("server")
    }

    /// Sets the clock to so many milliseconds after that of the machine, or before it.
    pub fn step(&self, millis: i64) {
        let (next, step) = (self.file("next"), self.file("step"));
        fs::write(&next, millis.to_string()).unwrap();
        fs::rename(next, step).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Default for ServerClock {
    fn default() -> Self {
        Self::new()
    }
}
