//! From the store's answer to a granted attempt, or the reason why there is none.

use super::begin::BeginAnswer;
use super::not_granted::NotGranted;
use super::participant::Participant;
use super::prepared::Prepared;
use crate::engine::attempt::admission::Permit;
use crate::engine::attempt::{AttemptGuard, End, MaybeWaiters};
use crate::protocol::{Begun, Failure};
use std::sync::Arc;

/// An attempt, or the reason why there is none.
pub(crate) type Acquired<'a> = Result<AttemptGuard<'a>, NotGranted>;

/// Takes the answer to a `begin`, and arms the key if it blocks and the store is local.
pub(in crate::engine) fn grant<'a>(
    call: &Prepared<'a>,
    answer: BeginAnswer,
    participant: Option<Participant>,
    permit: Option<Arc<Permit>>,
) -> Acquired<'a> {
    let BeginAnswer { answer, sent_at, copies } = answer;
    if let Ok(Begun::Fresh(id)) = answer {
        let waiters = participant.map(|participant| Box::new(participant) as _);
        let granted =
            |waiters: MaybeWaiters, permit| call.granted(id, sent_at, copies, waiters, permit);
        if let Some(exhausted) = call.exhausted(&id) {
            // Recorded at once in a local store, and otherwise by the keeper. A failure that is not
            // recorded is found again by the next call.
            drop(granted(waiters, None).end(End::Fail(Failure::Final(None))));
            return Err(exhausted);
        }
        let permit = match (permit, call.policy.max_concurrent) {
            (None, Some(limit)) => match call.engine().admission.run(limit) {
                Ok(permit) => Some(permit),
                // Others were faster. Dropped before its body started, it is released.
                Err(_) => {
                    drop(granted(waiters, None));
                    return Err(NotGranted::OverLimit { limit });
                }
            },
            (permit, _) => permit,
        };
        let attempt = granted(waiters, permit);
        if call.engine().local {
            attempt.arm_now().map_err(NotGranted::TooLate)?;
        }
        return Ok(attempt);
    }
    let found = NotGranted::from_answer(answer);
    if let Some(participant) = participant {
        participant.found(call.fingerprint, &found);
    }
    Err(found)
}

/// Checks a grant of a store that is not local against the time it took. A key that blocks is armed.
pub(super) async fn in_time<'a>(call: &Prepared<'a>, attempt: AttemptGuard<'a>) -> Acquired<'a> {
    if call.engine().local || attempt.may_start().map_err(NotGranted::TooLate)? {
        return Ok(attempt);
    }
    // Boxed, because most calls need neither, and it makes the future of each smaller.
    Box::pin(attempt.confirm()).await.map_err(NotGranted::TooLate)
}
