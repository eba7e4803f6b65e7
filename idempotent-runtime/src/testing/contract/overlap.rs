//! Two verbs of one key that overlap: the second runs from beginning to end after each of the steps
//! that the first one takes.

use super::Subject;
use super::bench::{
    BLOCK_LINGER, Bench, FREE, LEASE, RETENTION, answered, asking, asking_to_block, asking_with,
    value,
};
use super::matrix::Situation;
use crate::protocol::{Binding, Forget, IfGone, Progress, Resolution, Resolve};
use crate::store::{AttemptId, Record};
use crate::testing::model::{Call, Model, Reply, payloads, records_agree};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// Far more steps than a verb takes where one step is one message.
const MOST_STEPS: usize = 24;

/// Situations in which one of two verbs can change what the other one relies on.
const SITUATIONS: [Situation; 7] = [
    Situation::Running,
    Situation::RunningArmed,
    Situation::RunningAgain,
    Situation::Overdue,
    Situation::OverdueArmed,
    Situation::FailedFree,
    Situation::FailedBound,
];

/// Verbs of the owner, of another caller, and of an operator.
fn calls(attempt: AttemptId) -> [Call; 11] {
    let (value, retention) = (value(b"answer"), RETENTION);
    let (binding, if_gone) = (Binding::Kept, IfGone::Rewrite);
    [
        Call::Begin(asking()),
        Call::Begin(asking_to_block()),
        Call::Begin(asking_with(payloads()[1])),
        Call::update(attempt, Progress::Armed { linger: BLOCK_LINGER }),
        Call::update(attempt, Progress::Completed { value, retention, if_gone }),
        Call::update(attempt, Progress::Failed { failure: FREE, retention }),
        Call::update(attempt, Progress::Abandoned { retention, binding }),
        Call::update(attempt, Progress::Released { retention, binding }),
        Call::update(attempt, Progress::Renewed { lease: LEASE }),
        Call::Forget(Forget { force: true }),
        Call::Resolve(Resolve { resolution: Resolution::Retry, retention }),
    ]
}

/// Two verbs that overlap, one between two steps of the other, are answered as if one had come
/// after the other: a renewal keeps a takeover away, and an answer does not combine the record of
/// one moment with the time to live of another.
pub async fn overlapping_verbs_take_effect_one_after_the_other(subject: &dyn Subject) {
    let count = calls(asking().first_attempt()).len();
    for situation in SITUATIONS {
        for pair in 0..count * count {
            for steps in 1..=MOST_STEPS {
                let bench = Bench::new(subject);
                let (_, attempt) = situation.arrange(&bench).await;
                let (first, second) =
                    (&calls(attempt)[pair / count], &calls(attempt)[pair % count]);
                let model = Model::of(bench.get().await);
                let mut sent = pin!(first.send(&*bench.store, &bench.key));
                if after(steps, sent.as_mut()).await.is_some() {
                    // It takes fewer steps than this.
                    break;
                }
                let second_reply = answered(second.send(&*bench.store, &bench.key).await);
                let got = Outcome {
                    first: answered(sent.await),
                    second: second_reply,
                    record: bench.get().await,
                };
                let orders = [in_order(&model, first, second), {
                    let Outcome { first, second, record } = in_order(&model, second, first);
                    Outcome { first: second, second: first, record }
                }];
                assert!(
                    orders.iter().any(|order| got.agrees(order, subject.slack())),
                    "{situation:?}, {second:?} after {steps} steps of {first:?}: {got:?}, which \
                     neither order gives: {orders:?}"
                );
            }
        }
    }
}

/// The answers of two verbs, and the record that they left.
#[derive(Debug)]
struct Outcome {
    first: Reply,
    second: Reply,
    record: Option<Record>,
}

impl Outcome {
    fn agrees(&self, expected: &Self, slack: Duration) -> bool {
        self.first.agrees(&expected.first, slack)
            && self.second.agrees(&expected.second, slack)
            && records_agree(self.record.as_ref(), expected.record.as_ref(), slack)
    }
}

/// The answers of the table to one call after the other.
fn in_order(model: &Model, first: &Call, second: &Call) -> Outcome {
    let mut model = model.clone();
    let (first, second) = (model.answer(first), model.answer(second));
    Outcome { first, second, record: model.record().cloned() }
}

/// Polls `future` so often, each time when it is woken, and waits until it is woken once more. So
/// the message that it waited for has arrived, and it has not gone on. `Some` if it was ready.
async fn after<F: Future>(polls: usize, mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}
