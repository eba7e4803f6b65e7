//! Ways to run a body once per key, and the load that is put on them.

use crate::workload::bodies;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// A way to run a body once per key. One value is shared by all tasks, as are its connections.
pub trait Subject: Clone + Debug + Send + Sync + 'static {
    /// The first call with a key: runs the body and stores its value.
    fn first(&self, id: u64) -> impl Future<Output = ()> + Send;

    /// A later call with a key: returns the stored value. For most subjects it is the same call.
    fn replay(&self, id: u64) -> impl Future<Output = ()> + Send {
        self.first(id)
    }
}

/// The calls of a measurement, by what the store holds when they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The keys are new.
    First,
    /// The keys were called with before.
    Replay,
}

impl Phase {
    /// Both, in the order in which they are measured.
    pub const ALL: [Self; 2] = [Self::First, Self::Replay];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first execution",
            Self::Replay => "replay",
        }
    }
}

/// Tasks that call at the same time, one call after the other each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The number of tasks.
    pub tasks: u64,
    /// Calls of each task.
    pub each: u64,
}

impl Load {
    /// About so many calls, spread over the tasks.
    pub fn spread(tasks: u64, calls: u64) -> Self {
        Self { tasks, each: (calls / tasks).max(1) }
    }

    /// Calls of all tasks together.
    pub fn calls(self) -> u64 {
        self.tasks * self.each
    }
}

/// Times of one measurement.
#[derive(Clone, Debug)]
pub struct Times {
    /// From the start of the first task to the end of the last one.
    pub total: Duration,
    /// Of each call, the shortest first.
    pub each: Vec<Duration>,
}

/// A subject by its name.
#[derive(Debug)]
pub struct Contestant {
    /// The name, which is also the row of tables.
    pub name: &'static str,
    runner: Box<dyn Runner>,
}

impl Contestant {
    /// Names a subject.
    pub fn new(name: &'static str, subject: impl Subject) -> Self {
        Self { name, runner: Box::new(subject) }
    }

    /// Calls with the ids from `first_id` on.
    ///
    /// # Panics
    /// A call is not answered with the value of its key, a new key does not run the body, or another one does.
    pub async fn run(&self, phase: Phase, first_id: u64, load: Load) -> Times {
        let before = bodies();
        let times = self.runner.run(phase, first_id, load).await;
        let expected = match phase {
            Phase::First => load.calls(),
            Phase::Replay => 0,
        };
        assert_eq!(bodies() - before, expected, "bodies of `{}`, {}", self.name, phase.name());
        times
    }
}

/// The part of a subject that is behind a pointer: whole measurements, so that no call pays for it.
trait Runner: Debug + Send + Sync {
    fn run(
        &self,
        phase: Phase,
        first_id: u64,
        load: Load,
    ) -> Pin<Box<dyn Future<Output = Times> + Send + '_>>;
}

impl<S: Subject> Runner for S {
    fn run(
        &self,
        phase: Phase,
        first_id: u64,
        load: Load,
    ) -> Pin<Box<dyn Future<Output = Times> + Send + '_>> {
        Box::pin(async move {
            let task = |index: u64| {
                let subject = self.clone();
                let first = first_id + index * load.each;
                async move {
                    let mut times = Vec::with_capacity(load.each as usize);
                    for id in first..first + load.each {
                        let started = Instant::now();
                        match phase {
                            Phase::First => subject.first(id).await,
                            Phase::Replay => subject.replay(id).await,
                        }
                        times.push(started.elapsed());
                    }
                    times
                }
            };
            let started = Instant::now();
            let tasks: Vec<_> = (0..load.tasks).map(|index| tokio::spawn(task(index))).collect();
            let mut each = Vec::with_capacity(load.calls() as usize);
            for task in tasks {
                each.extend(task.await.expect("a call was answered"));
            }
            let total = started.elapsed();
            each.sort_unstable();
            Times { total, each }
        })
    }
}
