//! How does a service show its metrics to Prometheus?
//!
//! ```text
//! cargo run -p idempotent-metrics-example -- --port 9464
//! ```
//!
//! The service answers `/metrics`. It makes calls of every kind to itself, so that there is something
//! to be seen in the panels of `docs/monitoring/dashboard.json`. With `--rounds 3` it ends after so
//! many rounds of calls.
#![allow(clippy::print_stdout)]

mod traffic;

use axum::Router;
use axum::routing::{get, post};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::store::{MemoryOptions, MemoryStore};
use idempotent_runtime::testing::FaultStore;
use idempotent_runtime::{Config, Idempotency, Mode, ReplayCache};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::convert::Infallible;
use std::time::Duration;
use tokio::net::TcpListener;
use traffic::Traffic;

/// Upper bounds of the buckets of all histograms: from an answer out of memory to a body that takes
/// as long as a client waits. Without buckets the exporter makes summaries, which cannot be added up
/// over several processes.
const SECONDS: [f64; 17] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// Installs the exporter as the recorder of this process.
fn exporter() -> Result<PrometheusHandle, Box<dyn std::error::Error>> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let exporter = PrometheusBuilder::new().set_buckets_for_metric(seconds, &SECONDS)?;
    Ok(exporter.install_recorder()?)
}

/// Sorts what was measured into its buckets now and then, so that it does not pile up while nobody
/// scrapes.
async fn keep_up(exporter: PrometheusHandle) {
    let mut every = tokio::time::interval(Duration::from_secs(5));
    loop {
        every.tick().await;
        exporter.run_upkeep();
    }
}

fn service(idem: &Idempotency, exporter: PrometheusHandle) -> Router {
    let layer = IdempotencyLayer::new(idem, "shop").require_key().retention_from_config();
    Router::new()
        .route("/orders", post(async || "ordered").layer::<_, Infallible>(layer))
        .route("/metrics", get(async move || exporter.render()))
}

/// The arguments.
struct Arguments {
    port: u16,
    /// The number of rounds after which the service ends; without it, Ctrl-C does.
    rounds: Option<u64>,
}

impl Arguments {
    fn read() -> Result<Self, String> {
        let mut read = Self { port: 9464, rounds: None };
        let mut words = std::env::args().skip(1);
        while let Some(flag) = words.next() {
            let word = words.next().unwrap_or_default();
            let number = || format!("`{word}` is not a number that `{flag}` takes");
            match flag.as_str() {
                "--port" => read.port = word.parse().map_err(|_| number())?,
                "--rounds" => read.rounds = Some(word.parse().map_err(|_| number())?),
                _ => return Err("help: metrics-example --port 9464 --rounds 3".to_owned()),
            }
        }
        Ok(read)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { port, rounds } = Arguments::read()?;
    let exporter = exporter()?;
    tokio::spawn(keep_up(exporter.clone()));

    // Bounds that a gauge can be seen to come near, and a store whose answers can be lost.
    let memory = MemoryStore::with(MemoryOptions::new().max_entries(2_000).max_bytes(1 << 20));
    let store = FaultStore::new(memory).telling();
    let config = Config::new()
        .with_mode(Mode::Strong)
        .with_expire(Duration::from_secs(3))
        .with_cleanup_interval(Duration::from_secs(1));
    // Short, so that the store is asked for replays, too.
    let cache = ReplayCache::new().max_age(Duration::from_millis(100));
    let builder = Idempotency::builder().store(store.clone()).config(config).replay_cache(cache);
    let idem = builder.build()?;
    idem.install()?;

    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    let service = service(&idem, exporter);
    let traffic = Traffic::new(idem.clone(), store, service.clone());
    // Everything has happened once when the lines to try are printed.
    traffic.round(0).await;
    println!("metrics of a service that is busy:");
    println!("  curl -s http://{address}/metrics");
    println!("Ctrl-C ends it");

    let ends = async move {
        tokio::select! {
            () = traffic.rounds(rounds) => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    axum::serve(listener, service).with_graceful_shutdown(ends).await?;
    let drained = idem.shutdown(Duration::from_secs(10)).await;
    println!("{drained:?}");
    Ok(())
}
