//! Sends `begin`, again if need be, always with the same token.

use super::participant::Participant;
use super::prepared::Prepared;
use crate::clock::Moment;
use crate::engine::attempt::faults::{not_local, unanswered};
use crate::engine::attempt::release::{release_begin, release_first};
use crate::engine::attempt::{BeginFuture, Copies, PendingBegin};
use crate::engine::resend::Resend;
use crate::observe::StoreTimer;
use crate::options::Policy;
use crate::protocol::table::Step;
use crate::protocol::{BeginRequest, Begun, Expected, Request, StoreExt as _, execute_owned};
use crate::race::{First, race};
use crate::store::{Found, Head, State, StoreError, StoreErrorKind, Token, Verb, WhenFull};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

/// The time for which a `begin` that loses races against other callers is tried again.
const CONTENTION_LIMIT: Duration = Duration::from_millis(300);

/// The answer of a store to `begin`.
#[derive(Debug)]
pub(crate) struct BeginAnswer {
    pub(crate) answer: Result<Begun, StoreError>,
    /// The moment at which the token was first sent: the lease counts from here.
    pub(crate) sent_at: Moment,
    /// Copies of the `begin` that may still arrive.
    pub(crate) copies: Copies,
}

impl BeginAnswer {
    /// An answer to a `begin` that was sent once.
    pub(crate) fn new(answer: Result<Begun, StoreError>, sent_at: Moment) -> Self {
        Self { answer, sent_at, copies: Copies::Answered }
    }
}

/// Asks a local store, which answers at once. `now` was read just before.
pub(crate) fn begin_local(call: &Prepared<'_>, now: Moment) -> Result<Begun, StoreError> {
    let timer = StoreTimer::start(&Verb::Begin);
    let engine = call.engine();
    let request = LocalBegin(call.request(Token::NOBODY, now));
    let answer = engine.clock.standing_at(now, || engine.store.execute(&call.key, request).now());
    let answer = answer.unwrap_or_else(|_| Err(not_local()));
    timer.answered(&answer);
    answer
}

/// A `begin` that gets its token when the record does not answer it: a local store decides while the record is locked,
/// and most calls of some services are replays.
struct LocalBegin(BeginRequest);

impl Request for LocalBegin {
    type Answer = Begun;

    fn verb(&self) -> Verb {
        self.0.verb()
    }

    fn expects(&self) -> Expected {
        self.0.expects()
    }

    #[inline(always)]
    fn step(&self, found: Option<Found>) -> Step<Begun> {
        let is_answered = found
            .as_ref()
            .is_some_and(|found| matches!(found.head.state, State::Succeeded | State::FailedFinal));
        match is_answered {
            // No answer of theirs looks at the token.
            true => self.0.step(found),
            false => BeginRequest { token: Token::random(), ..self.0 }.step(found),
        }
    }

    fn depends_on_life(&self, head: &Head) -> bool {
        self.0.depends_on_life(head)
    }

    fn when_full(&self) -> WhenFull {
        self.0.when_full()
    }

    fn relies_on_record(answer: &Begun) -> bool {
        BeginRequest::relies_on_record(answer)
    }
}

/// Asks the store. If this future is dropped, what it sent is released or carried on by another.
pub(crate) async fn begin(
    call: &Prepared<'_>,
    participant: &mut Option<Participant>,
) -> BeginAnswer {
    if call.engine().local {
        let sent_at = call.engine().clock.now();
        return BeginAnswer::new(begin_local(call, sent_at), sent_at);
    }
    match participant {
        Some(participant) => {
            finish_other_begin(call, participant).await;
            send(call, &mut participant.begin).await
        }
        // A window has no followers, but what it sent must be released all the same.
        None => {
            let mut alone = Alone { call, begin: None };
            send(call, &mut alone.begin).await
        }
    }
}

/// A `begin` outside any flight.
struct Alone<'a, 'b> {
    call: &'a Prepared<'b>,
    begin: Option<Box<PendingBegin>>,
}

impl Drop for Alone<'_, '_> {
    fn drop(&mut self) {
        if let Some(begin) = self.begin.take() {
            release_begin(self.call.engine(), self.call.key.clone(), *begin);
        }
    }
}

/// Sends the `begin` in `pending`, or a new one, until it is answered or given up.
async fn send(call: &Prepared<'_>, pending: &mut Option<Box<PendingBegin>>) -> BeginAnswer {
    let engine = call.engine();
    let mut resend = Resend::new();
    let started = engine.clock.now();
    loop {
        let begin = pending.get_or_insert_with(|| {
            let at = engine.clock.now();
            let request = call.request(Token::random(), at);
            let Policy { retention, binding, .. } = call.policy;
            let copies = Copies::Answered;
            Box::new(PendingBegin { request, retention, binding, at, copies, begin: None })
        });
        let sent_at = begin.at;
        // A message that an earlier leader has sent may have been answered before this moment.
        let reading = if begin.begin.is_none() { engine.reading() } else { None };
        begin.begin.get_or_insert_with(|| begin_future(call, begin.request));
        let timer = StoreTimer::start(&Verb::Begin);
        // A grant that comes later than this would be worth nothing.
        let patience = engine.sleep_until(engine.clock.now().after(call.policy.lease));
        let First::Left(answer) =
            race(poll_fn(|context| begin.poll_begin(context)), patience).await
        else {
            begin.copies = Copies::Unanswered;
            give_up(call, pending);
            let error = unanswered();
            timer.failed(&error);
            return BeginAnswer::new(Err(error), sent_at);
        };
        timer.answered(&answer);
        if let Ok(answer) = &answer {
            engine.told(reading, call.told(answer, call.policy.retention));
        }
        let pause = match answer {
            // A token that ended is of no use; the next round makes another one.
            Ok(Begun::Superseded) if resend.once_more() => {
                *pending = None;
                resend.pause()
            }
            Ok(Begun::Fresh(attempt)) => {
                let copies = begin.copies;
                *pending = None;
                return BeginAnswer { answer: Ok(Begun::Fresh(attempt)), sent_at, copies };
            }
            Ok(answer) => {
                give_up(call, pending);
                return BeginAnswer::new(Ok(answer), sent_at);
            }
            Err(error) => {
                if error.may_have_taken_effect() {
                    begin.copies = Copies::Unanswered;
                }
                let contended = error.kind() == StoreErrorKind::Contended;
                let in_time = engine.clock.now().since(started) < CONTENTION_LIMIT;
                let pause = match contended {
                    true => in_time.then(|| resend.after_race()),
                    false => resend.after(&error),
                };
                let Some(pause) = pause else {
                    give_up(call, pending);
                    return BeginAnswer::new(Err(error), sent_at);
                };
                tracing::debug!(target: "idempotent", %error, "begin is sent again");
                pause
            }
        };
        engine.sleep_until(engine.clock.now().after(pause)).await;
    }
}

/// Drops a token. If a `begin` with it may still take effect, it is released.
fn give_up(call: &Prepared<'_>, pending: &mut Option<Box<PendingBegin>>) {
    if let Some(begin) = pending.take().filter(|begin| begin.copies == Copies::Unanswered) {
        release_begin(call.engine(), call.key.clone(), *begin);
    }
}

/// Releases the `begin` of an earlier leader that this call cannot go on with.
///
/// It may have been sent with another payload, or for a shorter lease than this caller would count
/// on. Its body never starts.
async fn finish_other_begin(call: &Prepared<'_>, participant: &mut Participant) {
    let other = participant.begin.take_if(|begin| {
        let BeginRequest { fingerprint, claim, .. } = begin.request;
        fingerprint != call.fingerprint || claim != call.claim()
    });
    if let Some(begin) = other {
        release_first(call.engine(), &call.key, *begin).await;
    }
}

/// A `begin` that owns what it needs, so that it can outlive the caller that sent it.
fn begin_future(call: &Prepared<'_>, request: BeginRequest) -> BeginFuture {
    let store = Arc::clone(&call.engine().store);
    Box::pin(execute_owned(store, call.key.clone(), request))
}
