//! The process-wide instance. Each test is a process of its own, started again by this file.
#![allow(missing_docs)]

use axum::body::to_bytes;
use axum::response::IntoResponse;
use idempotent_runtime::instance::{DISABLED, REQUIRE_INSTALLED};
use idempotent_runtime::problem::{self, Problem, ProblemType, TypeBase};
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Config, Error, ErrorKind, Idempotency, idempotent, require_installed};
use std::process::Command;
use std::sync::{Arc, Mutex};

#[idempotent(key = "id", mode = "strong")]
async fn create(ledger: &Ledger, id: u64) -> Result<usize, Error> {
    Ok(ledger.record(id.to_string()))
}

/// Runs `scene` in a fresh process: what is installed there is installed for good.
fn in_a_process(name: &str, variables: &[(&str, &str)], scene: fn()) {
    const SCENE: &str = "INSTALL_TEST_SCENE";
    if std::env::var(SCENE).is_ok_and(|running| running == name) {
        return scene();
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--test-threads=1"])
        .env(SCENE, name)
        .env_remove(REQUIRE_INSTALLED)
        .env_remove(DISABLED)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&status.stdout);
    assert!(output.contains("1 passed"), "{output}{}", String::from_utf8_lossy(&status.stderr));
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn with_nothing_installed_functions_work_on_memory_and_say_so_once() {
    in_a_process("with_nothing_installed_functions_work_on_memory_and_say_so_once", &[], || {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let ledger = Ledger::new();
            block_on(async {
                for _ in 0..3 {
                    assert_eq!(create(&ledger, 1).await.unwrap(), 1);
                }
            });
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("no instance is installed").count(), 1, "{text}");
    });
}

#[test]
fn install_after_the_default_instance_was_used_is_an_error() {
    in_a_process("install_after_the_default_instance_was_used_is_an_error", &[], || {
        block_on(create(&Ledger::new(), 1)).unwrap();
        let error = Idempotency::in_memory().unwrap().install().unwrap_err();
        assert!(error.to_string().contains("before `install`"), "{error}");
        assert!(require_installed().is_err());
    });
}

#[test]
fn install_twice_is_an_error_and_the_first_one_stays() {
    in_a_process("install_twice_is_an_error_and_the_first_one_stays", &[], || {
        let first = Idempotency::in_memory().unwrap();
        first.install().unwrap();
        assert!(Idempotency::in_memory().unwrap().install().is_err());
        require_installed().unwrap();
        block_on(create(&Ledger::new(), 1)).unwrap();
        assert_eq!(first.store().usage().unwrap().entries, 1);
    });
}

/// The type of the problem that a handler answers with if it returns an error.
fn answered_type() -> String {
    let error = block_on(create(&Ledger::new(), 1)).unwrap_err();
    let body = block_on(to_bytes(error.into_response().into_body(), usize::MAX)).unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    problem["type"].as_str().unwrap().to_owned()
}

#[test]
fn the_base_of_problem_types_is_set_once_for_the_process() {
    const NAME: &str = "the_base_of_problem_types_is_set_once_for_the_process";
    in_a_process(NAME, &[(REQUIRE_INSTALLED, "1")], || {
        assert_eq!(answered_type(), "urn:idempotent:problem:misconfigured");
        let base = |text: &str| text.parse::<TypeBase>().unwrap();
        problem::set_base(base("https://shop.example/")).unwrap();
        assert_eq!(answered_type(), "https://shop.example/misconfigured");

        problem::set_base(base("https://shop.example/")).unwrap();
        let error = problem::set_base(base("https://bank.example/")).unwrap_err();
        assert!(error.to_string().contains("https://shop.example/"), "{error}");
        assert_eq!(answered_type(), "https://shop.example/misconfigured");

        let own = Problem::new(ProblemType::DUPLICATE, "x").base(base("urn:shop:"));
        assert_eq!(own.type_uri(), "urn:shop:duplicate");
    });
}

#[test]
fn where_an_installation_is_required_functions_refuse_without_one() {
    in_a_process(
        "where_an_installation_is_required_functions_refuse_without_one",
        &[(REQUIRE_INSTALLED, "1")],
        || {
            let ledger = Ledger::new();
            let error = block_on(create(&ledger, 1)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(!error.body_ran());
            assert_eq!(ledger.total(), 0);
            Idempotency::in_memory().unwrap().install().unwrap();
            block_on(create(&ledger, 1)).unwrap();
        },
    );
}

#[test]
fn configuration_comes_from_the_environment() {
    in_a_process(
        "configuration_comes_from_the_environment",
        &[("IDEMPOTENT_MODE", "strong"), ("IDEMPOTENT_EXPIRE_TIME", "60")],
        || {
            let config = idempotent_runtime::Config::from_env().unwrap();
            assert_eq!(config.expire, std::time::Duration::from_secs(60));
            assert_eq!(config.mode, idempotent_runtime::Mode::Strong);
        },
    );
}

#[test]
fn the_environment_disables_an_instance_that_allows_it_and_no_other() {
    in_a_process(
        "the_environment_disables_an_instance_that_allows_it_and_no_other",
        &[(DISABLED, "1")],
        || {
            let events = support::events::collect();
            let ignored = || events.take("the variable is ignored: the instance does not allow it");
            let protected = Idempotency::in_memory().unwrap();
            assert!(protected.is_enabled());
            assert_eq!(ignored().len(), 1, "it was set, so it was meant to work");
            let builder = Idempotency::builder().allow_disable_by_env();
            let switched = builder.config(Config::from_env().unwrap()).build().unwrap();
            assert!(!switched.is_enabled());
            assert_eq!(ignored().len(), 0);
            switched.install().unwrap();
            let ledger = Ledger::new();
            for run in 1..=3 {
                assert_eq!(block_on(create(&ledger, 1)).unwrap(), run);
            }
        },
    );
}

#[test]
fn an_unclear_variable_is_an_error_where_it_counts() {
    in_a_process("an_unclear_variable_is_an_error_where_it_counts", &[(DISABLED, "no")], || {
        assert!(Idempotency::in_memory().unwrap().is_enabled());
        let error = Idempotency::builder().allow_disable_by_env().build().unwrap_err();
        assert!(error.to_string().contains("`IDEMPOTENT_DISABLED`"), "{error}");
    });
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
