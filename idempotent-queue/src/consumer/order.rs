//! Turns of messages that have one key.
//!
//! The messages of a key form a chain: each waits until the one before it is settled. One that goes back
//! to the broker breaks the chain, and those behind it go back too, so that none overtakes it.

use std::collections::HashMap;
use tokio::sync::oneshot::{self, Receiver, Sender, error::TryRecvError};

/// The last message of each key that is in hand.
#[derive(Debug, Default)]
pub(super) struct Chains(HashMap<String, Receiver<()>>);

/// The place of a message among those of its key.
#[derive(Debug, Default)]
pub(super) struct Turn {
    before: Option<Receiver<()>>,
    /// `None` for a message without a key. Dropped without a word, it breaks the chain.
    behind: Option<Sender<()>>,
}

/// A message before this one went back to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Chains {
    /// The place behind the messages of this key. Called in the order of deliveries.
    pub(super) fn join(&mut self, key: String) -> Turn {
        // Each message in hand is the last of one key at most: what is above that has ended.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|_, last| is_in_hand(last));
            // Not again for the next message.
            self.0.reserve(self.0.len().max(8));
        }
        let (behind, ends) = oneshot::channel();
        // One that has gone back before is not in the way of its next delivery.
        let before =
            self.0.insert(key, ends).and_then(|mut last| is_in_hand(&mut last).then_some(last));
        Turn { before, behind: Some(behind) }
    }
}

fn is_in_hand(last: &mut Receiver<()>) -> bool {
    last.try_recv() == Err(TryRecvError::Empty)
}

impl Turn {
    /// Waits for the messages before this one. May be dropped, and called again.
    pub(super) async fn comes(&mut self) -> Result<(), Broken> {
        if let Some(before) = &mut self.before {
            before.await.map_err(|_| Broken)?;
            self.before = None;
        }
        Ok(())
    }

    /// No message is before this one.
    pub(super) fn has_come(&self) -> bool {
        self.before.is_none()
    }

    /// The message has a key, whose order is kept.
    pub(super) fn is_ordered(&self) -> bool {
        self.behind.is_some()
    }

    /// The message is settled, and the next one has its turn.
    pub(super) fn passes(self) {
        if let Some(behind) = self.behind {
            // One that is gone needs no turn.
            let _ = behind.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll(turn: &mut Turn) -> Poll<Result<(), Broken>> {
        pin!(turn.comes()).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_next_message_of_a_key_waits_and_other_keys_do_not() {
        let mut chains = Chains::default();
        let [mut first, mut second, mut other] = ["a", "a", "b"].map(|key| chains.join(key.into()));
        assert_eq!(poll(&mut first), Poll::Ready(Ok(())));
        assert_eq!(poll(&mut other), Poll::Ready(Ok(())));
        assert_eq!(poll(&mut second), Poll::Pending);
        first.passes();
        assert_eq!(poll(&mut second), Poll::Ready(Ok(())));
        assert_eq!(poll(&mut second), Poll::Ready(Ok(())), "its turn stays");
    }

    #[test]
    fn those_behind_one_that_goes_back_go_back_and_its_next_delivery_does_not() {
        let mut chains = Chains::default();
        let [first, mut second, mut third] = [(); 3].map(|()| chains.join("a".into()));
        drop(first);
        assert_eq!(poll(&mut second), Poll::Ready(Err(Broken)));
        assert_eq!(poll(&mut third), Poll::Pending, "they go back in their order");
        drop(second);
        assert_eq!(poll(&mut third), Poll::Ready(Err(Broken)));
        drop(third);
        assert_eq!(poll(&mut chains.join("a".into())), Poll::Ready(Ok(())));
    }

    #[test]
    fn keys_that_are_gone_take_no_room() {
        let mut chains = Chains::default();
        for key in 0..10_000 {
            chains.join(key.to_string()).passes();
        }
        assert!(chains.0.capacity() < 100, "{}", chains.0.capacity());
    }
}
