//! The verbs as methods of a store.

use super::connection::go_on;
use super::exchange::{Action, Exchange, next};
use super::request::{
    BeginRequest, Begun, Binding, Failure, Forget, Forgotten, IfGone, Progress, Request,
    Resolution, Resolve, Resolved, Update, Updated,
};
use crate::key::RecordKey;
use crate::store::future::all;
use crate::store::{
    Answer, AttemptId, Decided, Store, StoreError, StoreErrorKind, StoreFuture, Swapped, Value,
};
use std::sync::Arc;
use std::time::Duration;

/// The verbs, as methods of every [`Store`].
///
/// A local store answers them without waiting.
pub trait StoreExt: Store {
    /// Executes a request. If the store answers at once, so does this.
    fn execute<'a, R>(&'a self, key: &'a RecordKey, request: R) -> Answer<'a, R::Answer>
    where
        R: Request + Send + 'a,
        R::Answer: Unpin,
    {
        let mut answer = None;
        let decided = self.decide(key, &mut |found| {
            // Taken apart by its fields: a pattern would copy the record once more.
            let step = request.step(found);
            let next = next(&request, &step.1);
            answer = Some(step.0);
            next
        });
        match decided {
            Some(Ok(Decided::Done)) => StoreFuture::ready(answer.ok_or_else(not_asked)),
            Some(Ok(Decided::DoneWithoutValue)) => {
                StoreFuture::ready(answer.map(R::without_value).ok_or_else(not_asked))
            }
            Some(Err(error)) => StoreFuture::ready(Err(error)),
            None => in_messages(self, key, request),
        }
    }

    /// Executes many requests, with the first messages of all of them sent together. The answers
    /// come in the order of the requests.
    fn execute_many<'a, R>(
        &'a self,
        requests: Vec<(RecordKey, R)>,
    ) -> StoreFuture<'a, Vec<Result<R::Answer, StoreError>>>
    where
        R: Request + Send + 'a,
        R::Answer: Unpin,
    {
        StoreFuture::new(async move {
            // A key stands beside its swap, or, if `rest` asks for its action again, by itself.
            let (mut swaps, mut unsent) = (Vec::with_capacity(requests.len()), Vec::new());
            let mut exchanges = Vec::with_capacity(requests.len());
            for (key, request) in requests {
                let mut exchange = Exchange::new(request);
                let is_sent = match exchange.action() {
                    Ok(Action::Swap(swap)) => {
                        swaps.push((key, swap));
                        true
                    }
                    _ => {
                        unsent.push(key);
                        false
                    }
                };
                exchanges.push((exchange, is_sent));
            }
            let mut swapped = self.swap_many(&swaps).await.into_iter();
            let (mut sent, mut unsent) = (swaps.iter(), unsent.iter());
            let each = exchanges.into_iter().filter_map(|(mut exchange, is_sent)| {
                if !is_sent {
                    return Some(rest(self, unsent.next()?, exchange));
                }
                let (key, _) = sent.next()?;
                Some(match swapped.next().map(|swapped| Ok(exchange.swapped(swapped?))) {
                    Some(Ok(Some(answer))) => StoreFuture::ready(Ok(answer)),
                    Some(Err(error)) => StoreFuture::ready(Err(error)),
                    Some(Ok(None)) | None => rest(self, key, exchange),
                })
            });
            all(each).await
        })
    }

    /// Asks for the right to run the body. See [`table::begin`](super::table::begin).
    fn begin<'a>(&'a self, key: &'a RecordKey, request: &BeginRequest) -> Answer<'a, Begun> {
        self.execute(key, *request)
    }

    /// Arms an attempt whose body is about to start: its key blocks if the body does not end. See
    /// [`table::arm`](super::table::arm).
    fn arm<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &AttemptId,
        linger: Duration,
    ) -> Answer<'a, Updated> {
        self.update(key, attempt, Progress::Armed { linger })
    }

    /// Renews the lease of an attempt. See [`table::renew`](super::table::renew).
    fn renew<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &AttemptId,
        lease: Duration,
    ) -> Answer<'a, Updated> {
        self.update(key, attempt, Progress::Renewed { lease })
    }

    /// Ends an attempt whose body returned a value. See
    /// [`table::complete`](super::table::complete).
    fn complete<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &AttemptId,
        value: Option<Value>,
        retention: Duration,
        if_gone: IfGone,
    ) -> Answer<'a, Updated> {
        self.update(key, attempt, Progress::Completed { value, retention, if_gone })
    }

    /// Ends an attempt whose body returned an error. See [`table::fail`](super::table::fail).
    fn fail<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &AttemptId,
        failure: Failure,
        retention: Duration,
    ) -> Answer<'a, Updated> {
        self.update(key, attempt, Progress::Failed { failure, retention })
    }

    /// Ends an attempt whose body started, and was dropped or panicked. See
    /// [`table::abandon`](super::table::abandon).
    fn abandon<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Updated> {
        self.update(key, attempt, Progress::Abandoned { retention, binding })
    }

    /// Ends an attempt whose body never started. See [`table::release`](super::table::release).
    fn release<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Updated> {
        self.update(key, attempt, Progress::Released { retention, binding })
    }

    /// Reports the progress of an attempt.
    fn update<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &AttemptId,
        to: Progress,
    ) -> Answer<'a, Updated> {
        self.execute(key, Update { attempt: *attempt, to })
    }

    /// Removes a record, or with `force` frees one that is held, and notifies other processes. See
    /// [`table::forget`](super::table::forget).
    ///
    /// A removal that was answered with an error may still take effect, also later: repeat it. No process is notified if the
    /// future is dropped.
    fn forget<'a>(&'a self, key: &'a RecordKey, force: bool) -> Answer<'a, Forgotten> {
        // A record that is not there may still be kept by a process that missed its end: an operator
        // can repeat what was not heard.
        let is_told = |forgotten: &Forgotten| *forgotten != Forgotten::Held;
        then_announce(self, key, self.execute(key, Forget { force }), is_told)
    }

    /// Ends an attempt whose outcome is unknown, and notifies other processes. See
    /// [`table::resolve`](super::table::resolve). After an error, or if the future is dropped, the same
    /// holds as for [`forget`](Self::forget).
    fn resolve<'a>(
        &'a self,
        key: &'a RecordKey,
        resolution: Resolution,
        retention: Duration,
    ) -> Answer<'a, Resolved> {
        let is_told = |resolved: &Resolved| *resolved == Resolved::Done;
        then_announce(self, key, self.execute(key, Resolve { resolution, retention }), is_told)
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// Announces the change of an operator once it is made, or may be. If the store answers at once, so does this.
fn then_announce<'a, S, A>(
    store: &'a S,
    key: &'a RecordKey,
    changed: Answer<'a, A>,
    is_told: impl Fn(&A) -> bool + Send + 'a,
) -> Answer<'a, A>
where
    S: Store + ?Sized,
    A: Send + Unpin + 'a,
{
    // A message about a record that is unchanged costs its hearers a question to the store, and one that is missing a
    // wrong answer.
    let is_told = move |answer: &Result<A, StoreError>| match answer {
        Ok(answer) => is_told(answer),
        Err(error) => error.may_have_taken_effect(),
    };
    let answer = match changed.now() {
        Ok(answer) if is_told(&answer) => answer,
        Ok(answer) => return StoreFuture::ready(answer),
        Err(pending) => {
            return StoreFuture::new(async move {
                let answer = pending.await;
                if is_told(&answer) {
                    store.announce_freed(key).await;
                }
                answer
            });
        }
    };
    match store.announce_freed(key).now() {
        Ok(()) => StoreFuture::ready(answer),
        Err(announced) => StoreFuture::new(async move {
            announced.await;
            answer
        }),
    }
}

/// The error of a store that decides without asking.
fn not_asked() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the store did not ask for a decision")
}

/// Goes on with an exchange whose first message did not end it. An answer that the record holds needs no further message,
/// and no future: that is how every repeat call ends.
fn rest<'a, S, R>(
    store: &'a S,
    key: &'a RecordKey,
    mut exchange: Exchange<R>,
) -> Answer<'a, R::Answer>
where
    S: Store + ?Sized,
    R: Request + Send + 'a,
    R::Answer: Unpin,
{
    match exchange.action() {
        Ok(Action::Answer(answer)) => StoreFuture::ready(Ok(answer)),
        Ok(action) => {
            StoreFuture::new(async move { go_on(&mut &*store, key, exchange, action).await })
        }
        Err(error) => StoreFuture::ready(Err(error)),
    }
}

/// Executes a request by loading and swapping, also on a store that can [decide](Store::decide), in a future that owns
/// what it needs.
///
/// Not an async function, which would keep the request a second time.
pub(crate) fn execute_owned<R>(
    store: Arc<dyn Store>,
    key: RecordKey,
    request: R,
) -> impl Future<Output = Result<R::Answer, StoreError>> + Send
where
    R: Request + Send,
    R::Answer: Unpin,
{
    let mut exchange = Exchange::new(request);
    async move {
        {
            // Borrowed, and gone before the rest: a future that is awaited by value is kept twice.
            let mut sent = first_sent(&*store, &key, &mut exchange);
            if let Some(sent) = &mut sent
                && let Some(answer) = exchange.swapped(sent.await?)
            {
                return Ok(answer);
            }
        }
        rest(&*store, &key, exchange).await
    }
}

/// Sends the first swap of an exchange. `None` if it begins otherwise: then its action is asked for again.
fn first_sent<'a, R>(
    store: &'a dyn Store,
    key: &'a RecordKey,
    exchange: &mut Exchange<R>,
) -> Option<Answer<'a, Swapped>>
where
    R: Request,
{
    match exchange.action() {
        Ok(Action::Swap(swap)) => Some(store.swap(key, swap)),
        Ok(_) => None,
        Err(error) => Some(StoreFuture::ready(Err(error))),
    }
}

/// Executes a request by loading and swapping. If the store answers at once, so does this.
fn in_messages<'a, S, R>(store: &'a S, key: &'a RecordKey, request: R) -> Answer<'a, R::Answer>
where
    S: Store + ?Sized,
    R: Request + Send + 'a,
    R::Answer: Unpin,
{
    let mut exchange = Exchange::new(request);
    loop {
        match exchange.action() {
            Ok(Action::Load) => match store.load(key).now() {
                Ok(Ok(loaded)) => exchange.loaded(loaded),
                Ok(Err(error)) => return StoreFuture::ready(Err(error)),
                Err(pending) => {
                    return StoreFuture::new(async move {
                        exchange.loaded(pending.await?);
                        rest(store, key, exchange).await
                    });
                }
            },
            Ok(Action::Swap(swap)) => match store.swap(key, swap).now() {
                Ok(Ok(swapped)) => {
                    if let Some(answer) = exchange.swapped(swapped) {
                        return StoreFuture::ready(Ok(answer));
                    }
                }
                Ok(Err(error)) => return StoreFuture::ready(Err(error)),
                Err(pending) => {
                    return StoreFuture::new(async move {
                        match exchange.swapped(pending.await?) {
                            Some(answer) => Ok(answer),
                            None => rest(store, key, exchange).await,
                        }
                    });
                }
            },
            Ok(Action::Confirm(answer)) => match store.confirm(key).now() {
                Ok(confirmed) => return StoreFuture::ready(confirmed.map(|()| answer)),
                Err(pending) => {
                    return StoreFuture::new(async move { pending.await.map(|()| answer) });
                }
            },
            Ok(Action::Answer(answer)) => return StoreFuture::ready(Ok(answer)),
            Err(error) => return StoreFuture::ready(Err(error)),
        }
    }
}
