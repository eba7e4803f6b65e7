//! A process that shuts down while its server is away.

use crate::site::{Process, Site, TIMEOUT, strong};
use idempotent_runtime::ErrorKind;
use idempotent_runtime::instance::Drained;
use idempotent_runtime::store::State;
use std::time::Duration;
use support::redis::installed;
use support::{poll_at_most, until};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
/// Far shorter than the outage, which lasts until the shutdown has returned.
const GRACE: Duration = Duration::from_millis(200);

/// The kinds of outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    Stalled,
    Killed,
}

impl Away {
    async fn site(self) -> Site {
        Site::start_with(&installed(), &["--appendonly", "yes", "--appendfsync", "always"]).await
    }

    fn begins(self, site: &mut Site) {
        match self {
            Self::Stalled => site.server.pause(),
            Self::Killed => site.server.kill(),
        }
    }

    async fn ends(self, site: &mut Site) {
        match self {
            Self::Stalled => site.server.go_on(),
            Self::Killed => site.restart().await,
        }
    }
}

/// A process whose leases outlast the test.
async fn process(site: &Site) -> Process {
    site.process_with(TIMEOUT, strong().with_lease(LONG).with_wait(LONG)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_in_an_outage_ends_in_time_and_says_what_is_left() {
    for away in [Away::Stalled, Away::Killed] {
        let mut site = away.site().await;
        let (process, other) = (process(&site).await, process(&site).await);
        let (running, recording) = (process.hold("running").await, process.hold("recorded").await);
        away.begins(&mut site);
        assert_eq!(recording.end().await.unwrap(), 1, "{away:?}");
        let error = process.run("refused").await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
        // A body that runs, and an answer that is not recorded.
        let left = process.idem.shutdown(GRACE).await;
        assert_eq!(left, Drained::Left { attempts: 2 }, "{away:?}");
        let error = process.run("new").await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::ShuttingDown, false));
        // For as long as the process lives it goes on with what it left.
        assert_eq!(running.end().await.unwrap(), 1, "{away:?}");
        let left = process.idem.shutdown(GRACE).await;
        assert_eq!(left, Drained::Left { attempts: 2 }, "{away:?}");
        away.ends(&mut site).await;
        until(|| process.idem.in_flight() == 0).await;
        for key in ["running", "recorded", "refused"] {
            assert_eq!(other.run(key).await.unwrap(), 1, "{away:?}: {key}");
            assert_eq!(site.runs.of(key), 1, "{away:?}: {key}");
        }
        other.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_waits_for_a_server_that_comes_back_within_its_grace() {
    for away in [Away::Stalled, Away::Killed] {
        let mut site = away.site().await;
        let (process, other) = (process(&site).await, process(&site).await);
        let held = process.hold("k").await;
        away.begins(&mut site);
        assert_eq!(held.end().await.unwrap(), 1, "{away:?}");
        let idem = process.idem.clone();
        let mut stopping = std::pin::pin!(idem.shutdown(LONG));
        assert!(poll_at_most(1, &mut stopping).await.is_none(), "{away:?}");
        away.ends(&mut site).await;
        assert_eq!(stopping.await, Drained::All, "{away:?}");
        assert_eq!(site.state("k").await, Some(State::Succeeded), "{away:?}");
        assert_eq!(other.run("k").await.unwrap(), 1);
        assert_eq!(site.runs.of("k"), 1, "{away:?}");
        other.ends_clean().await;
    }
}
