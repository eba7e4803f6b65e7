//! Alternating rounds.

use crate::servers::Server;
use crate::statistics::{Summary, quantile};
use crate::subject::{Contestant, Load, Phase};
use crate::usage::Usage;
use crate::workload::fresh_ids;

/// One measurement, per call.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Calls a second.
    pub rate: f64,
    /// Median of the calls, in microseconds.
    pub p50: f64,
    /// The time that 99 of 100 calls do not exceed, in microseconds.
    pub p99: f64,
    /// Processor time of this process, in microseconds.
    pub client: f64,
    /// Processor time of the server, in microseconds.
    pub server: f64,
    /// Bytes to the server.
    pub sent: f64,
    /// Bytes from the server.
    pub received: f64,
}

/// The samples of one contestant in one phase, a round each.
#[derive(Clone, Debug)]
pub struct Series {
    /// The contestant.
    pub name: &'static str,
    /// The phase.
    pub phase: Phase,
    /// In the order of the rounds.
    pub samples: Vec<Sample>,
}

impl Series {
    /// The summary of a part of the samples.
    pub fn summary(&self, part: impl Fn(&Sample) -> f64) -> Summary {
        Summary::of(self.samples.iter().map(part))
    }

    /// The summary of the ratios to another series of the same rounds.
    pub fn ratio(&self, to: &Self, part: impl Fn(&Sample) -> f64) -> Summary {
        let all = |series: &Self| series.samples.iter().map(&part).collect::<Vec<_>>();
        Summary::of_ratios(&all(self), &all(to))
    }
}

/// The series of a set of rounds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The load of each turn.
    pub load: Load,
    /// Two of each contestant.
    pub series: Vec<Series>,
}

impl Measured {
    /// The series of a contestant, if it took part.
    pub fn find(&self, name: &str, phase: Phase) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name && series.phase == phase)
    }

    /// The ratios of a contestant to another, if both took part.
    pub fn ratio(
        &self,
        phase: Phase,
        of: &str,
        to: &str,
        part: impl Fn(&Sample) -> f64,
    ) -> Option<Summary> {
        Some(self.find(of, phase)?.ratio(self.find(to, phase)?, part))
    }
}

/// The records that a server holds before calls come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Nothing, at the start of every turn.
    Empty,
    /// So many other records, at the start of every round.
    Records(u64),
}

/// Lets contestants take turns on a server: each calls with new keys, then with the same again. The order is another one
/// in each round, and a round before the first one is not counted.
pub async fn alternate(
    server: &Server,
    contestants: &[Contestant],
    load: Load,
    ground: Ground,
    rounds: usize,
) -> Measured {
    let mut series: Vec<Series> = Vec::new();
    for contestant in contestants {
        for phase in Phase::ALL {
            series.push(Series { name: contestant.name, phase, samples: Vec::new() });
        }
    }
    for round in 0..=rounds {
        if let Ground::Records(count) = ground {
            server.flush().await;
            server.fill(count).await;
        }
        for turn in 0..contestants.len() {
            let index = (turn + round) % contestants.len();
            if ground == Ground::Empty {
                server.flush().await;
            }
            let first_id = fresh_ids(load.calls());
            for (phase, offset) in Phase::ALL.into_iter().zip(0..) {
                let sample = measure(server, &contestants[index], phase, first_id, load).await;
                if round > 0 {
                    series[2 * index + offset].samples.push(sample);
                }
            }
        }
    }
    server.flush().await;
    Measured { load, series }
}

async fn measure(
    server: &Server,
    contestant: &Contestant,
    phase: Phase,
    first_id: u64,
    load: Load,
) -> Sample {
    let before = Usage::now(server).await;
    let times = contestant.run(phase, first_id, load).await;
    let used = Usage::now(server).await.since(before);
    let calls = load.calls() as f64;
    let micros: Vec<f64> = times.each.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    Sample {
        rate: calls / times.total.as_secs_f64(),
        p50: quantile(&micros, 0.5),
        p99: quantile(&micros, 0.99),
        client: used.client * 1e6 / calls,
        server: used.server * 1e6 / calls,
        sent: used.received / calls,
        received: used.sent / calls,
    }
}
