//! Defaults, configuration, function: in that order, and replaceable while running.

use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Config, Error, ErrorKind, Mode, idempotent};
use std::time::Duration;
use support::both;

#[idempotent(key = "id", name = "configured")]
async fn configured(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "reject", message = "mine", expire = 60, name = "fixed")]
async fn fixed(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[tokio::test]
async fn the_mode_can_be_changed_while_running() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            configured(1).await.unwrap();
            configured(1).await.unwrap();
            let reject = Config::new().with_mode(Mode::Reject).with_message("not twice");
            bench.idem.reconfigure(reject).unwrap();
            let error = configured(1).await.unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::Duplicate, "not twice"));
            bench.idem.reconfigure(Config::new().with_mode(Mode::Strong)).unwrap();
            configured(1).await.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn a_function_beats_the_configuration() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            fixed(1).await.unwrap();
            let error = fixed(1).await.unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::Duplicate, "mine"));
            bench.clock.advance(Duration::from_secs(60));
            fixed(1).await.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn an_impossible_configuration_is_refused_and_the_old_one_stays() {
    for bench in both() {
        let error = bench.idem.reconfigure(Config::new().with_lease(Duration::ZERO)).unwrap_err();
        assert_eq!(error.field(), "lease");
        assert_eq!(*bench.idem.config(), support::strong());
    }
}

#[tokio::test]
async fn another_prefix_is_another_namespace() {
    for bench in both() {
        bench.run().await.unwrap();
        bench.idem.reconfigure(support::strong().with_key_prefix("other:")).unwrap();
        assert_eq!(bench.run().await.unwrap(), 2);
    }
}
