//! Errors of a call: the one place where a finding turns into an error.

use crate::backoff::Backoff;
use crate::config::{Config, Mode};
use crate::engine::flight::{MOST_FAILED, NotGranted, Prepared};
use crate::error::{Error, ErrorKind};
use crate::observe::LoggedKey;
use crate::store::{StoreError, StoreErrorKind};
use std::time::Duration;

impl Prepared<'_> {
    /// The error of a call that was not granted an attempt, and for which no answer is replayed.
    pub(crate) fn refusal(&self, found: NotGranted) -> Error {
        match found {
            NotGranted::Succeeded { .. } if self.policy.mode != Mode::Strong => {
                self.error(ErrorKind::Duplicate)
            }
            NotGranted::Succeeded { .. } => self.error(ErrorKind::ResultUnavailable),
            NotGranted::FailedFinal { .. } => {
                self.error(ErrorKind::FailedBefore).with_message("its error was not kept")
            }
            NotGranted::Exhausted { max_attempts } => {
                let text = format!(
                    "the body has started {max_attempts} times without an answer, as often as \
                     `max_attempts` allows"
                );
                self.error(ErrorKind::FailedBefore).with_message(text)
            }
            NotGranted::InFlight { lease_left } => self.in_progress(lease_left),
            NotGranted::FailedTwice => self.after_failures(MOST_FAILED),
            NotGranted::Taken { retry_after } => {
                self.error(ErrorKind::Duplicate).with_retry_after(retry_after)
            }
            NotGranted::Mismatch => self.error(ErrorKind::Mismatch),
            NotGranted::Indeterminate { number } => {
                let text = format!("attempt {number} began and never ended; resolve it to go on");
                self.error(ErrorKind::Indeterminate).with_message(text)
            }
            NotGranted::OverLimit { limit } => self.over_limit(limit),
            NotGranted::Refused(error) if error.kind() == StoreErrorKind::Contended => {
                self.in_progress(self.policy.lease).with_source(error)
            }
            NotGranted::Refused(error) | NotGranted::TooLate(error) => self.store_error(error),
            NotGranted::Disabled => {
                self.error(ErrorKind::Misconfigured).with_message("the instance is disabled")
            }
        }
    }

    /// An error of this call. Duplicates and calls in progress carry the function's message.
    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        let config = self.engine().config.load();
        let error = Error::new(kind, &self.operation).with_key(self.logged_key(&config));
        match kind {
            ErrorKind::Duplicate | ErrorKind::InProgress => {
                let message = self.options.message.as_deref().unwrap_or(&config.message);
                error.with_message(message)
            }
            _ => error,
        }
    }

    /// The error of a call that the store refused.
    pub(crate) fn store_error(&self, error: StoreError) -> Error {
        self.blame(Error::from_store(error, &self.operation))
    }

    /// Adds the key of this call to an error.
    pub(crate) fn blame(&self, error: Error) -> Error {
        error.with_key(self.logged_key(&self.engine().config.load()))
    }

    /// The error of a call that makes no further attempt because so many failed while it waited.
    pub(crate) fn after_failures(&self, failed: u32) -> Error {
        let text = "the attempts that this call waited for failed, and it makes no further one";
        let error = self.error(ErrorKind::InProgress).with_message(text);
        error.with_retry_after(self.backs_off(failed))
    }

    /// The pause before another call with the key, after so many failed attempts.
    ///
    /// It differs from caller to caller, so that those that waited together do not return together.
    pub(crate) fn backs_off(&self, failed: u32) -> Duration {
        let mut backoff = Backoff::new(self.engine().config.load().retry_interval);
        let pauses = std::iter::repeat_with(|| backoff.pause());
        let pause = pauses.take(failed as usize + 1).last().unwrap_or_default();
        self.options.ask_again(pause)
    }

    pub(crate) fn logged_key(&self, config: &Config) -> String {
        LoggedKey { key: &self.key, in_full: config.log_keys }.to_string()
    }

    /// The error of a call whose key is held for so long, if its holder has died.
    fn in_progress(&self, lease_left: Duration) -> Error {
        self.error(ErrorKind::InProgress).with_retry_after(self.options.ask_again(lease_left))
    }

    /// The error of a call whose body would be one too many in this process.
    fn over_limit(&self, limit: usize) -> Error {
        let text = match self.policy.may_run() {
            true => {
                format!("{limit} bodies run in this process, as many as `max_concurrent` allows")
            }
            false => "the key has no answer yet, and the call asked for repeats only".to_owned(),
        };
        self.error(ErrorKind::StoreFull).with_message(text)
    }
}
