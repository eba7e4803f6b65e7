//! Every verb in every situation, by the owner and by a stranger, against the state table.

use super::Subject;
use super::bench::{
    BLOCK_LINGER, Bench, FREE, LEASE, LINGER, RETENTION, answered, asking, asking_for_a_window,
    asking_to_block, asking_with, value,
};
use crate::protocol::{
    BeginRequest, Binding, Failure, Forget, IfGone, Progress, Resolution, Resolve, StoreExt as _,
    Updated,
};
use crate::store::{AttemptId, Token};
use crate::testing::model::{BINDINGS, Call, Model, payloads, records_agree};

/// A situation in which a verb can find a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Situation {
    Nothing,
    Running,
    RunningWithPayload,
    RunningBlocked,
    RunningArmed,
    RunningAgain,
    Overdue,
    OverdueBlocked,
    OverdueArmed,
    Abandoned,
    FailedFree,
    FailedBound,
    FailedFinal,
    Succeeded,
    SucceededWithoutValue,
    Taken,
    TakenAgain,
}

impl Situation {
    const ALL: [Self; 17] = [
        Self::Nothing,
        Self::Running,
        Self::RunningWithPayload,
        Self::RunningBlocked,
        Self::RunningArmed,
        Self::RunningAgain,
        Self::Overdue,
        Self::OverdueBlocked,
        Self::OverdueArmed,
        Self::Abandoned,
        Self::FailedFree,
        Self::FailedBound,
        Self::FailedFinal,
        Self::Succeeded,
        Self::SucceededWithoutValue,
        Self::Taken,
        Self::TakenAgain,
    ];

    /// Brings a key into this situation. Returns the request and the attempt of its owner.
    pub(super) async fn arrange(self, bench: &Bench<'_>) -> (BeginRequest, AttemptId) {
        let request = match self {
            Self::RunningWithPayload | Self::FailedBound | Self::Succeeded => {
                asking_with(payloads()[0])
            }
            Self::RunningBlocked | Self::OverdueBlocked | Self::Abandoned => asking_to_block(),
            Self::Taken | Self::TakenAgain => asking_for_a_window(),
            _ => asking(),
        };
        if matches!(self, Self::Nothing) {
            return (request, request.first_attempt());
        }
        if matches!(self, Self::RunningAgain | Self::TakenAgain) {
            let first = bench.granted(&asking()).await;
            bench.fail(&first, FREE).await;
        }
        let mut attempt = bench.granted(&request).await;
        if matches!(self, Self::RunningArmed | Self::OverdueArmed) {
            assert_eq!(bench.arm(&attempt).await, Updated::Done, "{self:?}");
            attempt = attempt.armed(BLOCK_LINGER);
        }
        let settled = match self {
            Self::Abandoned => bench.abandon(&attempt).await,
            Self::FailedFree => bench.fail(&attempt, FREE).await,
            Self::FailedBound => bench.fail(&attempt, Failure::Free(Binding::Kept)).await,
            Self::FailedFinal => bench.fail(&attempt, Failure::Final(value(b"error"))).await,
            _ => Updated::Done,
        };
        let completed = match self {
            Self::Succeeded => bench.complete(&attempt, b"answer").await,
            Self::SucceededWithoutValue => answered(
                bench.store.complete(&bench.key, &attempt, None, RETENTION, IfGone::Rewrite).await,
            ),
            _ => Updated::Done,
        };
        assert_eq!((settled, completed), (Updated::Done, Updated::Done), "{self:?}");
        if matches!(self, Self::Overdue | Self::OverdueBlocked | Self::OverdueArmed) {
            bench.step(LEASE).await;
        }
        (request, attempt)
    }
}

/// Makes each call in each situation, twice in a row, and compares with the table.
async fn follow(subject: &dyn Subject, calls: impl Fn(&BeginRequest, AttemptId) -> Vec<Call>) {
    let slack = subject.slack();
    for situation in Situation::ALL {
        let count = calls(&asking(), asking().first_attempt()).len();
        for index in 0..count {
            let bench = Bench::new(subject);
            let (request, attempt) = situation.arrange(&bench).await;
            let call = &calls(&request, attempt)[index];
            let mut model = Model::of(bench.get().await);
            for time in ["", ", repeated"] {
                let expected = model.answer(call);
                let reply = answered(call.send(&*bench.store, &bench.key).await);
                assert!(
                    reply.agrees(&expected, slack),
                    "{situation:?}, {call:?}{time}: answered {reply:?}, not {expected:?}"
                );
                let (shown, expected) = (bench.get().await, model.record());
                assert!(
                    records_agree(shown.as_ref(), expected, slack),
                    "{situation:?}, {call:?}{time}: left {shown:?}, not {expected:?}"
                );
            }
        }
    }
}

/// The attempt of the owner, as the owner and as somebody else would send it.
fn both(attempt: AttemptId) -> [AttemptId; 2] {
    [attempt, AttemptId { token: Token::random(), ..attempt }]
}

/// `begin` by the owner again and by others with and without payload, in all modes.
pub async fn begin_follows_the_table(subject: &dyn Subject) {
    let [one, two] = payloads();
    follow(subject, |request, _| {
        let all = [
            *request,
            asking(),
            asking_with(one),
            asking_with(two),
            asking_to_block(),
            asking_for_a_window(),
        ];
        all.map(Call::Begin).to_vec()
    })
    .await;
}

/// Each progress, as the owner of an attempt and as somebody else would tell it.
fn updates(attempt: AttemptId, progress: impl IntoIterator<Item = Progress>) -> Vec<Call> {
    let both = |to: Progress| both(attempt).map(|attempt| Call::update(attempt, to.clone()));
    progress.into_iter().flat_map(both).collect()
}

/// `arm`, with a linger as long as the record's and with a longer one.
pub async fn arm_follows_the_table(subject: &dyn Subject) {
    follow(subject, |_, attempt| {
        let lingers = [LINGER, BLOCK_LINGER, BLOCK_LINGER * 2];
        updates(attempt, lingers.map(|linger| Progress::Armed { linger }))
    })
    .await;
}

/// `complete` with and without a value.
pub async fn complete_follows_the_table(subject: &dyn Subject) {
    follow(subject, |_, attempt| {
        let retention = RETENTION * 2;
        let values = [None, value(b""), value(b"another answer")].into_iter();
        let completions = values.flat_map(|value| {
            [IfGone::Rewrite, IfGone::Leave].map(|if_gone| Progress::Completed {
                value: value.clone(),
                retention,
                if_gone,
            })
        });
        updates(attempt, completions)
    })
    .await;
}

/// `fail` with an error that is kept and with one that is not.
pub async fn fail_follows_the_table(subject: &dyn Subject) {
    follow(subject, |_, attempt| {
        let failures = [
            FREE,
            Failure::Free(Binding::Kept),
            Failure::Final(None),
            Failure::Final(value(b"another error")),
        ];
        let retention = RETENTION * 2;
        updates(attempt, failures.map(|failure| Progress::Failed { failure, retention }))
    })
    .await;
}

/// `abandon` under both policies, with both bindings.
pub async fn abandon_follows_the_table(subject: &dyn Subject) {
    let retention = RETENTION * 2;
    follow(subject, |_, attempt| {
        updates(attempt, BINDINGS.map(|binding| Progress::Abandoned { retention, binding }))
    })
    .await;
}

/// `release` of first and later attempts, with both bindings.
pub async fn release_follows_the_table(subject: &dyn Subject) {
    let retention = RETENTION * 2;
    follow(subject, |_, attempt| {
        updates(attempt, BINDINGS.map(|binding| Progress::Released { retention, binding }))
    })
    .await;
}

/// `renew` with a shorter, an equal and a longer lease.
pub async fn renew_follows_the_table(subject: &dyn Subject) {
    follow(subject, |_, attempt| {
        updates(attempt, [LEASE / 3, LEASE, LEASE * 3].map(|lease| Progress::Renewed { lease }))
    })
    .await;
}

/// `forget` with and without force.
pub async fn forget_follows_the_table(subject: &dyn Subject) {
    follow(subject, |_, _| [false, true].map(|force| Call::Forget(Forget { force })).to_vec())
        .await;
}

/// `resolve` in each way.
pub async fn resolve_follows_the_table(subject: &dyn Subject) {
    follow(subject, |_, _| {
        let ways = [
            Resolution::Retry,
            Resolution::Succeeded(None),
            Resolution::Succeeded(value(b"found")),
        ];
        ways.map(|resolution| Call::Resolve(Resolve { resolution, retention: RETENTION * 2 }))
            .to_vec()
    })
    .await;
}
