//! Exponential backoff with jitter, never shorter than the pause that the server asks for.

use rand::RngExt as _;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pauses {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Pauses {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, next: first, longest }
    }

    /// The pause before the next attempt.
    ///
    /// The time that the server asks for is a lower bound, and the backoff is the other: a server that asks for
    /// nothing, or whose clock makes it ask for nothing, is not asked in a loop. A server that names a
    /// time knows better than a backoff of more than a second. Up to a half is added at random, at
    /// most half of the longest backoff, so that clients which were told the same time do not come
    /// back together.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let full = match asked {
            Some(_) => self.next.min(SECOND.max(self.first)),
            None => self.next,
        };
        self.next = self.next.saturating_mul(2).min(self.longest);
        let least = asked.unwrap_or_default().max(full / 2);
        let spread = least.min(self.longest).max(full) / 2;
        least.saturating_add(spread.mul_f64(rand::rng().random::<f64>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_vary() {
        let mut pauses = Pauses::new(millis(100), millis(400));
        for full in [100, 200, 400, 400, 400] {
            let pause = pauses.next(None);
            assert!(pause >= millis(full / 2) && pause <= millis(full), "{pause:?} of {full}");
        }
    }

    #[test]
    fn a_server_that_asks_for_less_than_the_backoff_gets_the_backoff() {
        let mut pauses = Pauses::new(millis(100), millis(400));
        for full in [100, 200, 400, 400, 400] {
            let pause = pauses.next(Some(Duration::ZERO));
            assert!(pause >= millis(full / 2) && pause <= millis(full), "{pause:?} of {full}");
        }
    }

    #[test]
    fn a_server_that_names_a_time_is_asked_about_once_a_second() {
        let mut pauses = Pauses::new(millis(100), millis(10_000));
        for _ in 0..20 {
            assert!(pauses.next(Some(SECOND)) <= millis(1_500));
        }
        assert!(pauses.next(Some(Duration::ZERO)) >= millis(500));
        assert!(pauses.next(None) >= millis(5_000));
    }

    #[test]
    fn a_server_that_asks_for_more_gets_it_and_a_spread() {
        for (asked, most) in [(1_000, 1_200), (300, 450), (60_000, 60_200)] {
            let pauses: Vec<_> = (0..64)
                .map(|_| Pauses::new(millis(100), millis(400)).next(Some(millis(asked))))
                .collect();
            let within = |pause: &Duration| (millis(asked)..=millis(most)).contains(pause);
            assert!(pauses.iter().all(within), "{asked}: {pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "clients come back together");
        }
    }

    #[test]
    fn no_pause_is_too_long_to_be_counted() {
        let mut pauses = Pauses::new(Duration::MAX, Duration::MAX);
        assert!(pauses.next(None) >= Duration::MAX / 2);
        assert_eq!(pauses.next(Some(Duration::MAX)), Duration::MAX);
    }
}
