//! The verbs of a store, as steps of the state table on a record in Redis.
//!
//! The rules are those of [`table`]: a verb looks at the record, asks the table, and replaces the
//! record if it still is the one it looked at. Where the caller knows the record without looking,
//! because it wrote it, that is the first guess, and the verb is one round trip.

use super::error::{Failure, after_an_effect, contended};
use super::links::Failed;
use super::many::{Creation, Renewal, Replacement};
use super::name::Name;
use super::server::{Next, Replaced, Seen, Server};
use super::wire::{self, Found};
use crate::config::Abandon;
use crate::key::RecordKey;
use crate::store::table::{self, Living, Step, Write};
use crate::store::{
    ArmRequest, Armed, AttemptId, BeginRequest, Begun, Claim, CompleteRequest, Completed, Head,
    Record, Renewed, State, StoreError, StoreErrorKind, Value,
};
use std::time::Duration;

/// How often a verb looks again because the record changed under it.
const ROUNDS: usize = 16;

/// A record, and how long it still lives as far as that is known.
struct Looked {
    found: Found,
    bytes: Vec<u8>,
    ttl: Duration,
}

impl Looked {
    /// A record whose time to live does not matter for what is asked.
    fn at(bytes: Vec<u8>, ttl: Duration) -> Result<Self, StoreError> {
        Ok(Self { found: wire::decode(&bytes)?, bytes: wire::unmarked(bytes), ttl })
    }

    /// The record as its holder knows it.
    fn held_by(attempt: &AttemptId) -> Self {
        let head = Head { attempt: *attempt, state: first_state(attempt.claim) };
        let found = Found { head, value: None, marked: false };
        Self { found, bytes: wire::encode(&head, None), ttl: Duration::MAX }
    }

    fn living(&self) -> Living {
        Living { head: self.found.head, ttl: self.ttl }
    }

    fn seen(&self) -> Seen {
        let Found { head, marked, .. } = self.found;
        // Renewals change nothing but the time to live: who relies on the end of a lease has to
        // compare that as well.
        let over = head.state == State::Processing && head.lease_left(self.ttl).is_zero();
        let at_most = over.then(|| head.attempt.claim.linger());
        Seen { bytes: self.bytes.clone(), marked, at_most }
    }
}

/// The bytes of an attempt that is being processed, which a window never is.
fn processing(attempt: &AttemptId) -> Vec<u8> {
    wire::encode(&Head { attempt: *attempt, state: State::Processing }, None)
}

/// The state in which a record is granted.
fn first_state(claim: Claim) -> State {
    match claim {
        Claim::Lease { .. } => State::Processing,
        Claim::Window { .. } => State::Taken,
    }
}

pub(super) async fn begin(
    server: &Server,
    key: &RecordKey,
    request: &BeginRequest,
) -> Result<Begun, StoreError> {
    let name = Name::of(key);
    let (_, first) = table::begin(None, request);
    let Write::Put { head, ttl } = first else { return Err(contended()) };
    let bytes = wire::encode(&head, None);
    for _ in 0..ROUNDS {
        let found = match server.create(&name, &bytes, ttl).await {
            Ok(None) => return Ok(Begun::Fresh(head.attempt)),
            Ok(Some(found)) => found,
            Err(failed) => return answer_without_writing(server, &name, request, failed).await,
        };
        if let Some(answer) = begin_on(server, &name, request, found).await? {
            return Ok(answer);
        }
    }
    Err(contended())
}

pub(super) async fn begin_many(
    server: &Server,
    requests: &[(RecordKey, BeginRequest)],
) -> Vec<Result<Begun, StoreError>> {
    let creations: Vec<_> = requests
        .iter()
        .map(|(key, request)| {
            let head = Head { attempt: request.first_attempt(), state: first_state(request.claim) };
            let (bytes, ttl) = (wire::encode(&head, None), request.claim.ttl());
            Creation { name: Name::of(key), bytes, ttl }
        })
        .collect();
    let answers = server.create_many(&creations).await;
    let each = requests.iter().zip(&creations).zip(answers).map(
        |(((key, request), Creation { name, .. }), answer)| async move {
            let answered = match answer {
                Ok(None) => Some(Begun::Fresh(request.first_attempt())),
                Ok(Some(found)) => begin_on(server, name, request, found).await?,
                Err(failed) => Some(answer_without_writing(server, name, request, failed).await?),
            };
            match answered {
                Some(answer) => Ok(answer),
                None => begin(server, key, request).await,
            }
        },
    );
    super::join(each).await
}

pub(super) async fn complete_many(
    server: &Server,
    requests: &[CompleteRequest],
) -> Vec<Result<Completed, StoreError>> {
    let replacements: Vec<_> = requests
        .iter()
        .map(|CompleteRequest { key, attempt, value, retention, .. }| {
            let head = Head { attempt: *attempt, state: State::Succeeded };
            held_replacement(key, attempt, wire::encode(&head, value.as_ref()), *retention)
        })
        .collect();
    let answers = server.replace_many(&replacements).await;
    let each = requests.iter().zip(answers).map(|(request, answer)| async move {
        match answer {
            Ok(Some(())) => Ok(Completed::Stored),
            Ok(None) => complete(server, request).await,
            Err(failed) => Err(failed.into()),
        }
    });
    super::join(each).await
}

pub(super) async fn complete(
    server: &Server,
    request: &CompleteRequest,
) -> Result<Completed, StoreError> {
    let CompleteRequest { key, attempt, value, retention, if_gone } = request;
    let step = |record| table::complete(record, attempt, *retention, *if_gone);
    settle(server, key, attempt, value.as_ref(), step).await
}

pub(super) async fn arm(
    server: &Server,
    key: &RecordKey,
    attempt: &AttemptId,
    linger: Duration,
) -> Result<Armed, StoreError> {
    let step = |record| table::arm(record, attempt, linger);
    match attempt.claim.abandon() {
        Abandon::Retry => settle(server, key, attempt, None, step).await,
        // Armed already: all that is left to do depends on how long the record lives.
        Abandon::Block => operate(server, key, None, step).await,
    }
}

pub(super) async fn arm_many(
    server: &Server,
    requests: &[ArmRequest],
) -> Vec<Result<Armed, StoreError>> {
    let replacements: Vec<_> = requests
        .iter()
        .map(|ArmRequest { key, attempt, linger }| {
            let armed = attempt.armed(*linger);
            held_replacement(key, attempt, processing(&armed), armed.claim.ttl())
        })
        .collect();
    let answers = server.replace_many(&replacements).await;
    let each = requests.iter().zip(answers).map(|(request, answer)| async move {
        let ArmRequest { key, attempt, linger } = request;
        match answer {
            Ok(Some(())) => Ok(Armed::Done),
            Ok(None) => arm(server, key, attempt, *linger).await,
            Err(failed) => Err(failed.into()),
        }
    });
    super::join(each).await
}

/// The replacement of a record that its holder names without reading it.
fn held_replacement(
    key: &RecordKey,
    attempt: &AttemptId,
    bytes: Vec<u8>,
    ttl: Duration,
) -> Replacement {
    let seen = Seen { bytes: processing(attempt), marked: false, at_most: None };
    Replacement { name: Name::of(key), seen, bytes, ttl }
}

/// `begin` where there is a record. `None` if it went away meanwhile.
pub(super) async fn begin_on(
    server: &Server,
    name: &Name,
    request: &BeginRequest,
    bytes: Vec<u8>,
) -> Result<Option<Begun>, StoreError> {
    let mut looked = Looked::at(bytes, Duration::MAX)?;
    for _ in 0..ROUNDS {
        let (looked_at, next, answer) = match decide(server, name, request, looked).await? {
            Decided::Answer(answer) => return Ok(Some(answer)),
            Decided::Gone => return Ok(None),
            Decided::Write { looked, next, answer } => (looked, next, answer),
        };
        match server.replace(name, &looked_at.seen(), &next).await? {
            Replaced::Done => return Ok(Some(answer)),
            Replaced::Changed(None) => return Ok(None),
            Replaced::Changed(Some(_)) | Replaced::Alive => match look(server, name).await? {
                Some(again) => looked = again,
                None => return Ok(None),
            },
        }
    }
    Err(contended())
}

/// The decision of the table about a record.
enum Decided {
    /// The record stays as it is.
    Answer(Begun),
    /// The record is to be replaced, which makes this the answer.
    Write { looked: Looked, next: Next, answer: Begun },
    /// The record is gone.
    Gone,
}

/// Asks the table about a record. Nothing is written.
async fn decide(
    server: &Server,
    name: &Name,
    request: &BeginRequest,
    mut looked: Looked,
) -> Result<Decided, StoreError> {
    // Where a lease or a window counts, so does the time that is left. It is read together with the
    // record: the time of another moment may be that of another attempt.
    let (guess, _) = table::begin(Some(looked.living()), request);
    let counts = matches!(guess, Begun::InFlight { .. } | Begun::Taken { .. });
    if counts && looked.ttl == Duration::MAX {
        let Some(again) = look(server, name).await? else { return Ok(Decided::Gone) };
        looked = again;
    }
    let value = looked.found.value.take();
    let (answer, write) = table::begin(Some(looked.living()), request);
    match write {
        Write::Put { head, ttl } => {
            let next = Next::Bytes { bytes: wire::encode(&head, None), ttl };
            Ok(Decided::Write { looked, next, answer: answer.with_value(|| None) })
        }
        Write::Keep => {
            if matches!(answer, Begun::Fresh(_)) {
                // Sent before, and not known to have arrived: nor are its replicas.
                confirm(server, name).await?;
            }
            Ok(Decided::Answer(answer.with_value(|| value)))
        }
        Write::Delete => Err(contended()),
    }
}

/// Makes sure that replicas have a record that an earlier copy of the verb has written.
pub(super) async fn confirm(server: &Server, name: &Name) -> Result<(), StoreError> {
    server.confirm(name).await.map_err(|failed| after_an_effect(failed.into()))
}

/// A server that takes no writes can still give the answers that need none.
async fn answer_without_writing(
    server: &Server,
    name: &Name,
    request: &BeginRequest,
    failed: Failed,
) -> Result<Begun, StoreError> {
    match read_answer(server, name, request, &failed).await {
        Ok(Some(answer)) => Ok(answer),
        Err(error) if error.kind() == StoreErrorKind::Undecodable => Err(error),
        // The first failure tells more than what came of asking further.
        Ok(None) | Err(_) => Err(failed.into()),
    }
}

/// The answer to a `begin` that the server refused to write; `None` if the record does not have it.
pub(super) async fn read_answer(
    server: &Server,
    name: &Name,
    request: &BeginRequest,
    failed: &Failed,
) -> Result<Option<Begun>, StoreError> {
    if !failed.leaves_reads() {
        return Ok(None);
    }
    let Some(bytes) = server.read(name).await? else { return Ok(None) };
    match decide(server, name, request, Looked::at(bytes, Duration::MAX)?).await? {
        Decided::Answer(answer) => Ok(Some(answer)),
        Decided::Write { .. } | Decided::Gone => Ok(None),
    }
}

/// What the holder of a record does with it.
pub(super) async fn settle<A>(
    server: &Server,
    key: &RecordKey,
    attempt: &AttemptId,
    value: Option<&Value>,
    step: impl Fn(Option<Living>) -> Step<A>,
) -> Result<A, StoreError> {
    let name = Name::of(key);
    let guess = Looked::held_by(attempt);
    let looked = match step(Some(guess.living())) {
        // What would not be written cannot turn out to be another record either.
        (_, Write::Keep) => look(server, &name).await?,
        _ => Some(guess),
    };
    change(server, &name, looked, value, step).await
}

/// What an operator does with a record, whoever holds it.
pub(super) async fn operate<A>(
    server: &Server,
    key: &RecordKey,
    value: Option<&Value>,
    step: impl Fn(Option<Living>) -> Step<A>,
) -> Result<A, StoreError> {
    let name = Name::of(key);
    let looked = look(server, &name).await?;
    change(server, &name, looked, value, step).await
}

/// Asks the table and writes what it says, until the record is the one the table was asked about.
async fn change<A>(
    server: &Server,
    name: &Name,
    mut looked: Option<Looked>,
    value: Option<&Value>,
    step: impl Fn(Option<Living>) -> Step<A>,
) -> Result<A, StoreError> {
    for _ in 0..ROUNDS {
        let (answer, write) = step(looked.as_ref().map(Looked::living));
        let next = match write {
            Write::Keep => {
                confirm(server, name).await?;
                return Ok(answer);
            }
            Write::Delete => Next::Nothing,
            Write::Put { head, ttl } => Next::Bytes { bytes: wire::encode(&head, value), ttl },
        };
        let replaced = match (&looked, &next) {
            (Some(looked), _) => server.replace(name, &looked.seen(), &next).await?,
            (None, Next::Bytes { bytes, ttl }) => recreate(server, name, bytes, *ttl).await?,
            (None, Next::Nothing) => return Ok(answer),
        };
        match replaced {
            Replaced::Done => return Ok(answer),
            Replaced::Changed(None) => looked = None,
            Replaced::Changed(Some(_)) | Replaced::Alive => looked = look(server, name).await?,
        }
    }
    Err(contended())
}

/// Writes a record that had vanished, also on a server that is full.
async fn recreate(
    server: &Server,
    name: &Name,
    bytes: &[u8],
    ttl: Duration,
) -> Result<Replaced, StoreError> {
    match server.create(name, bytes, ttl).await {
        Ok(None) => Ok(Replaced::Done),
        Ok(found) => Ok(Replaced::Changed(found)),
        Err(failed) if failed.failure() == Failure::Full => {
            Ok(server.create_when_full(name, bytes, ttl).await?)
        }
        Err(failed) => Err(failed.into()),
    }
}

pub(super) async fn renew(
    server: &Server,
    requests: impl Iterator<Item = (&RecordKey, &AttemptId, Duration)>,
) -> Vec<Result<Renewed, StoreError>> {
    let (renewals, requests): (Vec<_>, Vec<_>) = requests
        .map(|(key, attempt, lease)| {
            let name = Name::of(key);
            let bytes = processing(attempt);
            let ttl = attempt.claim.linger().saturating_add(lease);
            (Renewal { name, bytes, ttl }, (attempt, lease))
        })
        .unzip();
    let answers = server.renew(&renewals).await;
    let each = renewals.iter().zip(requests).zip(answers).map(
        |((Renewal { name, .. }, (attempt, lease)), answer)| async move {
            match answer {
                Ok(true) => Ok(Renewed::Extended),
                Ok(false) => renew_unknown(server, name, attempt, lease).await,
                Err(failed) => Err(failed.into()),
            }
        },
    );
    super::join(each).await
}

/// Renews a record that is not what its holder thinks; it may still be its holder's.
async fn renew_unknown(
    server: &Server,
    name: &Name,
    attempt: &AttemptId,
    lease: Duration,
) -> Result<Renewed, StoreError> {
    for _ in 0..ROUNDS {
        let looked = look(server, name).await?;
        let ttl = match table::renew(looked.as_ref().map(Looked::living), attempt, lease) {
            (_, Write::Put { ttl, .. }) => ttl,
            (answer, _) => return Ok(answer),
        };
        let Some(Looked { bytes, .. }) = looked else { return Ok(Renewed::Lost) };
        let renewal = Renewal { name: name.clone(), bytes, ttl };
        match server.renew(&[renewal]).await.pop() {
            Some(Ok(true)) => return Ok(Renewed::Extended),
            Some(Err(failed)) => return Err(failed.into()),
            Some(Ok(false)) | None => {}
        }
    }
    Err(contended())
}

pub(super) async fn get(server: &Server, key: &RecordKey) -> Result<Option<Record>, StoreError> {
    let looked = look(server, &Name::of(key)).await?;
    Ok(looked.map(|Looked { found, ttl, .. }| Record::new(found.head, found.value, ttl)))
}

async fn look(server: &Server, name: &Name) -> Result<Option<Looked>, StoreError> {
    match server.look(name).await? {
        Some((bytes, ttl)) => Looked::at(bytes, ttl).map(Some),
        None => Ok(None),
    }
}
