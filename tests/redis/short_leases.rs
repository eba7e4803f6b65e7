//! Bounds of a verb: the store's timeout, and the number of looks at a record.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{BeginRequest, StoreExt as _};
use idempotent_runtime::store::{Claim, RedisStore, StoreErrorKind, Token};
use idempotent_runtime::{Abandon, Config, Error, Idempotency, Mode};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::fake::Fake;
use support::redis::RedisServer;
use tracing_subscriber::fmt::MakeWriter;

/// The log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The lines that warn of a lease.
    fn warnings(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains("the lease is shorter"));
        lines.map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn listening() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    (log, tracing::subscriber::set_default(subscriber))
}

async fn run(idem: &Idempotency, lease: Option<Duration>) {
    let mut op = idem.operation("orders.create").key(1).mode(Mode::Strong);
    if let Some(lease) = lease {
        op = op.lease(lease);
    }
    op.run(async { Ok::<_, Error>(1) }).await.unwrap();
}

#[tokio::test]
async fn a_lease_shorter_than_the_timeout_is_warned_of_once_and_says_what_to_choose() {
    let server = RedisServer::start();
    let timeout = Duration::from_secs(20);
    let connect = || async { RedisStore::builder(&server.url()).timeout(timeout).connect().await };
    let (log, _listening) = listening();
    let build = |config| async {
        Idempotency::builder().store(connect().await.unwrap()).config(config).build().unwrap()
    };

    let enough = build(Config::new().with_lease(timeout)).await;
    run(&enough, None).await;
    let window = enough.operation("window").key(1).mode(Mode::Window).lease(Duration::from_secs(3));
    window.run(async { Ok::<_, Error>(1) }).await.unwrap();
    assert!(log.warnings().is_empty(), "{:?}", log.warnings());

    run(&enough, Some(Duration::from_secs(3))).await;
    run(&enough, Some(Duration::from_secs(3))).await;
    let warnings = log.warnings();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    for part in ["orders.create", "lease=3s", "timeout=20s"] {
        assert!(warning.contains(part), "{warning}");
    }
    assert!(warning.contains("a lease of 60s or more, or a timeout of 1s or less"), "{warning}");

    let short = build(Config::new().with_lease(Duration::from_secs(6))).await;
    run(&short, None).await;
    assert_eq!(log.warnings().len(), 2, "{:?}", log.warnings());
}

#[tokio::test]
async fn a_record_that_is_there_for_one_command_and_gone_for_the_other_is_looked_for_so_often() {
    // A server before 7.0, which takes two commands to begin.
    let fake = Fake::redis(|command| match command {
        "INFO" => {
            let text = "redis_version:6.2.0\r\n";
            format!("${}\r\n{text}\r\n", text.len())
        }
        "HELLO" => "%0\r\n".to_owned(),
        "SET" | "GET" => "$-1\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    });
    let store = RedisStore::connect(&fake.url()).await.unwrap();
    let lease = Duration::from_secs(1);
    let claim = Claim::Lease { lease, linger: lease, abandon: Abandon::Retry };
    let request = BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim };
    let error = store.begin(&RecordKey::from("k"), &request).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Contended);
    assert!(!error.may_have_taken_effect());
}
