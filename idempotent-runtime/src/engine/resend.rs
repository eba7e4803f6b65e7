//! Resending: a message that was not answered is sent a few times, with growing pauses in between.

use crate::backoff::Backoff;
use crate::store::{StoreError, StoreErrorKind};
use std::time::Duration;

/// The most times that a message is sent before its caller is refused.
const SENDS: u32 = 3;
/// The first pause between two of them.
pub(in crate::engine) const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The sends of one message. Every message of the protocol can be repeated.
#[derive(Debug)]
pub(crate) struct Resend {
    sends: u32,
    backoff: Backoff,
    unanswered: bool,
}

impl Resend {
    /// A message that is about to be sent for the first time.
    pub(crate) fn new() -> Self {
        Self { sends: 1, backoff: Backoff::new(FIRST_PAUSE), unanswered: false }
    }

    /// The pause after which the message is to be sent again; `None` if this error is its answer.
    pub(crate) fn after(&mut self, error: &StoreError) -> Option<Duration> {
        self.unanswered |= error.may_have_taken_effect();
        match error.kind() {
            StoreErrorKind::Unavailable | StoreErrorKind::Contended if self.once_more() => {
                Some(self.pause())
            }
            _ => None,
        }
    }

    /// The pause after a race that was lost. It counts as a send, and the message may be sent again
    /// however often it lost: its sender limits the time.
    pub(crate) fn after_race(&mut self) -> Duration {
        self.once_more();
        self.pause()
    }

    /// The next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        self.backoff.pause()
    }

    /// `true` if the message may be sent once more, which is then taken for done.
    pub(crate) fn once_more(&mut self) -> bool {
        let more = self.sends < SENDS;
        self.sends += u32::from(more);
        more
    }

    /// `true` if a copy that was sent may have had an effect, or may have one yet, although it was
    /// not answered.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "effects inside Redis ask"))]
    pub(crate) fn was_unanswered(&self) -> bool {
        self.unanswered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_a_few_times_and_only_if_it_was_not_answered() {
        let lost = || StoreError::new(StoreErrorKind::Unavailable, "lost");
        let mut resend = Resend::new();
        assert!(!resend.was_unanswered());
        let pauses: Vec<_> = std::iter::from_fn(|| resend.after(&lost())).collect();
        assert_eq!(pauses.len() as u32, SENDS - 1);
        assert!(pauses.iter().all(|pause| *pause >= FIRST_PAUSE / 2));
        assert!(resend.was_unanswered());
        let mut resend = Resend::new();
        let full = StoreError::new(StoreErrorKind::Full, "full");
        assert_eq!((resend.after(&full), resend.was_unanswered()), (None, false));
        assert!(resend.after(&lost().without_effect()).is_some());
        assert!(!resend.was_unanswered());
    }

    #[test]
    fn races_that_were_lost_count_and_do_not_end_a_message() {
        let mut resend = Resend::new();
        for _ in 0..10 {
            assert!(resend.after_race() >= FIRST_PAUSE / 2);
        }
        assert!(!resend.once_more());
    }
}
