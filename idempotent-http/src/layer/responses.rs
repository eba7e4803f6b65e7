//! Settings about responses that are kept.

use super::IdempotencyLayer;
use crate::headers::HeaderChoices;
use http::{HeaderMap, HeaderName, StatusCode};
use std::sync::Arc;
use std::time::Duration;

impl IdempotencyLayer {
    /// Sets the longest pause in a response that is stored; 100 milliseconds by default.
    ///
    /// A response is read whole before its client gets any of it. One that does not announce its
    /// length may be a stream: if it pauses for longer than this, or has not ended ten times as long
    /// after its first pause, it is streamed to its client, and a repeat is told that the result
    /// was not retained (409). A pause before the first piece of the body counts, one before the
    /// head does not. A response that announces its length is waited for, however slowly it comes.
    ///
    /// Zero streams every response that is not complete at once.
    #[must_use]
    pub fn stream_after(self, pause: Duration) -> Self {
        self.with(|it| it.stream_after = pause)
    }

    /// Replays this header, although by default it belongs to one exchange or person.
    ///
    /// Replaying `Set-Cookie` hands the first caller's cookies to the caller of a repeat. Do so
    /// only if a [`scope`](Self::scope) makes that the same person. Headers of a connection, such
    /// as `Transfer-Encoding` and those that `Connection` names, are never replayed.
    #[must_use]
    pub fn replay_header(self, name: HeaderName) -> Self {
        self.choose_header(|it| it.replay(name))
    }

    /// Excludes this header from replays, because it belongs to one exchange or one person.
    #[must_use]
    pub fn never_replay_header(self, name: HeaderName) -> Self {
        self.choose_header(|it| it.never_replay(name))
    }

    fn choose_header(self, choose: impl FnOnce(&mut HeaderChoices)) -> Self {
        self.with(|it| choose(Arc::make_mut(it.header_choices.get_or_insert_default())))
    }

    /// Chooses the retention of a response by its status and headers. `None` keeps it as long as
    /// the others; zero does not keep it, and frees the key.
    ///
    /// The function is called for responses that are to be stored. A panic in it is logged and
    /// counts as `None`.
    ///
    /// ```
    /// use idempotent_http::IdempotencyLayer;
    /// use idempotent_runtime::Idempotency;
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// let layer = IdempotencyLayer::new(&idem, "shop").retention_by(|status, _| {
    ///     status.is_client_error().then_some(Duration::from_secs(60))
    /// });
    /// # drop(layer);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn retention_by(
        self,
        retention: impl Fn(StatusCode, &HeaderMap) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.retention_by = Some(Arc::new(retention)))
    }

    /// Takes the retention of responses from `expire` of the instance's configuration, and follows
    /// its changes.
    #[must_use]
    pub fn retention_from_config(self) -> Self {
        self.with(|it| it.retention = None)
    }
}
