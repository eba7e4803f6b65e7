//! A job that runs once a day in a cluster, however many processes start it.
//!
//! ```text
//! cargo run -p idempotent-recipe-examples --example once_a_day
//! ```
//!
//! Two instances share a store, as two machines share a Redis. The page about it is
//! `docs/recipes/once-a-day.md`.
#![allow(clippy::print_stdout)]

use idempotent_queue::schedule::{CatchUp, Period, Schedule};
use idempotent_runtime::store::{MemoryOptions, MemoryStore, Store};
use idempotent_runtime::testing::ManualClock;
use idempotent_runtime::{Error, Idempotency, idempotent};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::{mpsc, watch};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Called by cron on every machine, with the day that the job is for.
#[idempotent(
    name = "invoices.send",
    key = "day",
    mode = "strong",
    wait = "10s",
    expire = "2d",
    with = machine.idem
)]
async fn send_invoices(machine: &Machine, day: Period) -> Result<String, Error> {
    machine.note(day);
    Ok(machine.name.to_owned())
}

/// Runs the report every day at two in the morning, UTC, until `stop` changes.
fn report_schedule(machine: &Machine, mut stop: watch::Receiver<bool>) -> Schedule {
    let stopped = async move { drop(stop.changed().await) };
    Schedule::every(&machine.idem, "report.send", DAY)
        .offset(Duration::from_secs(2 * 3_600))
        .catch_up(CatchUp::Latest)
        .max_attempts(5)
        .shutdown_on(stopped)
}

/// A process of the service. What it does is noted.
#[derive(Clone)]
struct Machine {
    name: &'static str,
    idem: Idempotency,
    runs: mpsc::UnboundedSender<(u64, &'static str)>,
}

impl Machine {
    fn note(&self, day: Period) {
        let _ = self.runs.send((day.number(), self.name));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The days of this program pass when it says so.
    let clock = ManualClock::new();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with(MemoryOptions::new().clock(&clock)));
    let (runs, mut noted) = mpsc::unbounded_channel();
    let machine = |name| -> Result<Machine, Box<dyn std::error::Error>> {
        let builder = Idempotency::builder().shared_store(Arc::clone(&store)).clock(&clock);
        Ok(Machine { name, idem: builder.build()?, runs: runs.clone() })
    };
    let (berlin, tokyo) = (machine("berlin")?, machine("tokyo")?);

    let today = Period::at(DAY, UNIX_EPOCH + DAY * 20_000);
    let answers = tokio::join!(send_invoices(&berlin, today), send_invoices(&tokyo, today));
    let (day, by) = noted.recv().await.ok_or("nobody ran")?;
    println!("invoices of day {day}: sent by {by}");
    assert_eq!([answers.0?, answers.1?], [by, by], "one run, and both have its answer");
    assert!(noted.is_empty(), "one run");

    let (stop, stopped) = watch::channel(false);
    let machines = [berlin, tokyo];
    let schedules = machines.clone().map(|machine| {
        let idem = machine.idem.clone();
        let now = move || UNIX_EPOCH + DAY * 20_000 + DAY / 2 + idem.elapsed();
        let schedule = report_schedule(&machine, stopped.clone()).wall_clock(now);
        tokio::spawn(schedule.run(move |day| {
            machine.note(day);
            async { Ok::<_, Error>(()) }
        }))
    });
    for expected in 20_000..20_003 {
        let (day, by) = noted.recv().await.ok_or("nobody ran")?;
        println!("report of day {day}: sent by {by}");
        assert_eq!(day, expected);
        // The night comes when the report is recorded, and not while its lease is held.
        while machines.iter().any(|machine| machine.idem.in_flight() > 0) {
            tokio::task::yield_now().await;
        }
        clock.advance(DAY);
    }
    let (last, _) = noted.recv().await.ok_or("nobody ran")?;
    stop.send(true)?;
    for schedule in schedules {
        schedule.await??;
    }
    assert_eq!((last, noted.is_empty()), (20_003, true), "every day once");
    println!("report of day {last}: sent by one of them too, and none twice");
    Ok(())
}
