//! Sends `begin`, again if need be, always with the same token.

use super::backoff::Backoff;
use super::call::Prepared;
use super::place::Place;
use super::release::{self, Copies};
use super::slots::{BeginFuture, Sent};
use crate::clock::Moment;
use crate::observe::StoreTimer;
use crate::options::Policy;
use crate::protocol::{BeginRequest, Begun, StoreExt as _};
use crate::race::{First, race};
use crate::store::{StoreError, StoreErrorKind, Token, Verb};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

/// How often a `begin` that was not answered is sent before the call is refused.
pub(super) const SENDS: u32 = 3;
/// The first pause between two of them.
pub(super) const RESEND_PAUSE: Duration = Duration::from_millis(10);
/// How long a `begin` that loses races against other callers goes on trying.
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

/// Asks a local store, which answers at once.
pub(crate) fn begin_local(call: &Prepared<'_>, now: Moment) -> Result<Begun, StoreError> {
    let _timer = StoreTimer::start(&Verb::Begin);
    let request = call.request(Token::random(), now);
    call.core().store.begin(&call.key, &request).now().unwrap_or_else(|_| Err(not_local()))
}

/// The error of a store that is not as local as it says.
pub(super) fn not_local() -> StoreError {
    let text = "the store says it is local, but did not answer at once";
    StoreError::new(StoreErrorKind::Unavailable, text)
}

/// The error of a verb that the store did not answer in time.
pub(super) fn unanswered() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the store did not answer within a lease")
}

/// Asks the store. If this future is dropped, what it sent is released or carried on by another.
pub(crate) async fn begin(call: &Prepared<'_>, place: &mut Option<Place>) -> BeginAnswer {
    if call.core().local {
        let sent_at = call.core().clock.now();
        return BeginAnswer::new(begin_local(call, sent_at), sent_at);
    }
    match place {
        Some(place) => {
            finish_other_begin(call, place).await;
            send(call, &mut place.sent).await
        }
        // A window has no followers, but what it sent must be released all the same.
        None => {
            let mut alone = Alone { call, sent: None };
            send(call, &mut alone.sent).await
        }
    }
}

/// A `begin` outside any slot.
struct Alone<'a, 'b> {
    call: &'a Prepared<'b>,
    sent: Option<Box<Sent>>,
}

impl Drop for Alone<'_, '_> {
    fn drop(&mut self) {
        if let Some(sent) = self.sent.take() {
            release::release_sent(self.call.core(), self.call.key.clone(), *sent);
        }
    }
}

async fn send(call: &Prepared<'_>, slot: &mut Option<Box<Sent>>) -> BeginAnswer {
    let core = call.core();
    let mut backoff = Backoff::new(RESEND_PAUSE);
    let started = core.clock.now();
    let mut sends = 0;
    loop {
        let sent = slot.get_or_insert_with(|| {
            let at = core.clock.now();
            let request = call.request(Token::random(), at);
            let Policy { retention, binding, .. } = call.policy;
            Box::new(Sent { request, retention, binding, at, unanswered: false, begin: None })
        });
        let sent_at = sent.at;
        sent.begin.get_or_insert_with(|| begin_future(call, sent.request));
        let timer = StoreTimer::start(&Verb::Begin);
        // A grant that comes later than this would be worth nothing.
        let patience = core.sleep_until(core.clock.now().after(call.policy.lease));
        let First::Left(answer) = race(poll_fn(|context| sent.poll_begin(context)), patience).await
        else {
            sent.unanswered = true;
            give_up(call, slot);
            return BeginAnswer::new(Err(unanswered()), sent_at);
        };
        timer.stop();
        sends += 1;
        match answer {
            // A token that ended is of no use; the next round makes another one.
            Ok(Begun::Superseded) if sends < SENDS => *slot = None,
            Ok(Begun::Fresh(attempt)) => {
                let copies = if sent.unanswered { Copies::Unanswered } else { Copies::Answered };
                *slot = None;
                return BeginAnswer { answer: Ok(Begun::Fresh(attempt)), sent_at, copies };
            }
            Ok(answer) => {
                give_up(call, slot);
                return BeginAnswer::new(Ok(answer), sent_at);
            }
            Err(error) => {
                sent.unanswered |= error.may_have_taken_effect();
                match error.kind() {
                    StoreErrorKind::Unavailable if sends < SENDS => {
                        tracing::debug!(target: "idempotent", %error, "begin is sent again");
                    }
                    StoreErrorKind::Contended
                        if core.clock.now().since(started) < CONTENTION_LIMIT => {}
                    _ => {
                        give_up(call, slot);
                        return BeginAnswer::new(Err(error), sent_at);
                    }
                }
            }
        }
        core.sleep_until(core.clock.now().after(backoff.pause())).await;
    }
}

/// This token is not used any more. If a `begin` with it may still take effect, it is released.
fn give_up(call: &Prepared<'_>, slot: &mut Option<Box<Sent>>) {
    if let Some(sent) = slot.take().filter(|sent| sent.unanswered) {
        release::release_sent(call.core(), call.key.clone(), *sent);
    }
}

/// The one who sat before may have sent a `begin` with another payload, or for a shorter lease than
/// this caller would count on. Its body never starts, so it is released before this caller asks for
/// itself.
async fn finish_other_begin(call: &Prepared<'_>, place: &mut Place) {
    let other = place.sent.take_if(|sent| {
        let BeginRequest { fingerprint, claim, .. } = sent.request;
        fingerprint != call.fingerprint || claim != call.claim()
    });
    if let Some(sent) = other {
        release::release_first(call.core(), &call.key, *sent).await;
    }
}

/// A `begin` that owns what it needs, so that it can outlive the caller that sent it.
fn begin_future(call: &Prepared<'_>, request: BeginRequest) -> BeginFuture {
    let store = Arc::clone(&call.core().store);
    let key = call.key.clone();
    Box::pin(async move { store.begin(&key, &request).await })
}
