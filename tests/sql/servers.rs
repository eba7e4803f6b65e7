//! The servers that the other tests use: they keep committed rows when they are killed, and nothing is left of them.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::database::SharedServer;
use support::guard::{children_of, is_running};
use support::mariadb::{self, MariaDbServer, mariadb, shared_mariadb};
use support::postgres::{self, PostgresServer, psql, shared_postgres};
use support::tls::Authority;
use support::until;

/// `test-servers` with two databases, and the processes that it has started.
struct Started {
    child: Child,
    guards: Vec<u32>,
    servers: Vec<u32>,
}

impl Started {
    fn new() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_test-servers"));
        command.args(["postgres", "mariadb"]);
        command.env_remove(postgres::SHARED).env_remove(mariadb::SHARED);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap()).lines();
        for (variable, line) in [postgres::SHARED, mariadb::SHARED].iter().zip(printed) {
            assert!(line.unwrap().starts_with(variable));
        }
        let guards = children_of(child.id());
        let servers: Vec<u32> = guards.iter().flat_map(|&guard| children_of(guard)).collect();
        assert_eq!(servers.len(), 2);
        let started = Self { child, guards, servers };
        assert_eq!(started.directories(), 2);
        started
    }

    /// Number of directories that the process has made and that are left.
    fn directories(&self) -> usize {
        let all = std::env::temp_dir().read_dir().unwrap().flatten();
        let prefix = format!("idempotent-{}-", self.child.id());
        all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
    }

    /// Returns `true` if no process and no directory of it is left.
    fn has_left_nothing(&self) -> bool {
        let mut processes = self.servers.iter().chain(&self.guards);
        !processes.any(|&process| is_running(process)) && self.directories() == 0
    }
}

#[tokio::test]
async fn servers_end_with_a_killed_process() {
    let mut started = Started::new();
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    until(|| started.has_left_nothing()).await;
}

#[test]
fn servers_have_ended_when_their_process_ends() {
    let mut started = Started::new();
    drop(started.child.stdin.take());
    assert!(started.child.wait().unwrap().success());
    assert!(started.has_left_nothing());
}

/// Databases and tables of one test are not those of another.
fn databases_are_separate(server: &'static SharedServer, databases: &str) {
    let (one, other) = (server.database(), server.database());
    one.execute("CREATE TABLE mine (id int)");
    other.execute("CREATE TABLE mine (id int)");
    let databases = || other.execute(databases);
    assert!(databases().contains(one.name()));
    let name = one.name().to_owned();
    drop(one);
    assert!(!databases().contains(&name));
    assert_eq!(other.execute("SELECT count(*) FROM mine"), "0");
}

#[test]
fn every_test_has_a_postgres_database_of_its_own() {
    databases_are_separate(shared_postgres(), "SELECT datname FROM pg_database");
}

#[test]
fn every_test_has_a_mariadb_database_of_its_own() {
    databases_are_separate(shared_mariadb(), "SHOW DATABASES");
}

#[test]
fn killed_postgres_keeps_committed_rows() {
    for folder in postgres::binaries() {
        let mut server = PostgresServer::start_with(&folder, &[]);
        let url = server.create_database();
        psql(&url, "CREATE TABLE t (id int)");
        psql(&url, "INSERT INTO t VALUES (1), (2)");
        let children = children_of(server.process());
        assert!(!children.is_empty());
        server.kill();
        assert!(!children.iter().any(|&child| is_running(child)), "a session survived");
        server.restart();
        assert_eq!(psql(&url, "SELECT count(*) FROM t"), "2");
        assert!(server.log().contains("automatic recovery in progress"), "{}", server.log());
        let directory = server.directory().to_owned();
        drop(server);
        assert!(!directory.exists());
    }
}

#[test]
fn killed_postgres_leaves_no_shared_memory() {
    let mut server = PostgresServer::start();
    let lock = std::fs::read_to_string(server.directory().join("data/postmaster.pid")).unwrap();
    let segment = lock.lines().nth(6).unwrap().split_whitespace().nth(1).unwrap();
    let is_there = || {
        let segments = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
        segments.lines().any(|line| line.split_whitespace().nth(1) == Some(segment))
    };
    server.kill();
    assert!(is_there());
    drop(server);
    assert!(!is_there());
}

#[test]
fn killed_mariadb_keeps_committed_rows() {
    let mut server = MariaDbServer::start();
    let url = server.create_database();
    mariadb(&url, "CREATE TABLE t (id int)");
    mariadb(&url, "INSERT INTO t VALUES (1), (2)");
    let process = server.process();
    server.kill();
    assert!(!is_running(process));
    server.restart();
    assert_eq!(mariadb(&url, "SELECT count(*) FROM t"), "2");
    let directory = server.directory().to_owned();
    drop(server);
    assert!(!directory.exists());
}

#[test]
fn paused_backend_goes_on() {
    let server = PostgresServer::start();
    let url = server.url("postgres");
    // Ends as soon as there is a table, unless it is paused.
    let session = "SET application_name = 'paused';
        DO $$ BEGIN
            WHILE NOT EXISTS (SELECT FROM pg_tables WHERE tablename = 'awake') LOOP
                PERFORM pg_sleep(0.01);
            END LOOP;
        END $$;
        SELECT 'awake'";
    let look = "SELECT pid FROM pg_stat_activity WHERE application_name = 'paused'";
    std::thread::scope(|scope| {
        let session = scope.spawn(|| psql(&url, session));
        let backend = loop {
            if let Ok(process) = psql(&url, look).parse() {
                break process;
            }
        };
        let paused = server.pause_backend(backend);
        psql(&url, "CREATE TABLE awake ()");
        std::thread::sleep(Duration::from_millis(300));
        assert!(!session.is_finished(), "the backend was not paused");
        drop(paused);
        assert_eq!(session.join().unwrap(), "awake");
    });
}

#[test]
fn postgres_speaks_tls() {
    let authority = Authority::new();
    let server = PostgresServer::start_tls(&authority);
    let root = server.directory().join("root.pem");
    std::fs::write(&root, authority.root()).unwrap();
    let options = format!("?sslmode=verify-full&sslrootcert={}", root.display());
    let look = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(psql(&format!("{}{options}", server.url("postgres")), look), "t");
}

#[test]
fn rules_of_access_are_replaced() {
    let server = PostgresServer::start();
    let url = server.url("postgres");
    psql(&url, "CREATE ROLE clerk LOGIN PASSWORD 'secret'");
    server.set_access("host all clerk 127.0.0.1/32 scram-sha-256\n");
    let with = |password: &str| url.replace("postgres@", &format!("clerk:{password}@"));
    assert_eq!(psql(&with("secret"), "SELECT current_user"), "clerk");
    assert!(std::panic::catch_unwind(|| psql(&with("wrong"), "SELECT 1")).is_err());
    assert!(std::panic::catch_unwind(|| psql(&url, "SELECT 1")).is_err());
}
