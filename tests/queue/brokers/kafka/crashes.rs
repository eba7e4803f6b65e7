//! Consumers and senders in processes of their own that die.

use super::Kafka;
use crate::crashes::{InProcesses, crashes};
use crate::place::Place;
use crate::producers::killed::killed_senders;
use crate::scenarios::Broker as _;

impl InProcesses for Kafka {
    /// The mock cluster keeps nothing.
    type Server = ();

    async fn open_on_own_server() -> (Self, ()) {
        (Self::open().await, ())
    }

    async fn open_for_processes() -> Self {
        Self::open().await
    }

    fn restart((): &mut ()) -> bool {
        false
    }

    async fn place(&self) -> Place {
        let config = self.config.config_map().into_iter();
        let config = config.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Place::Kafka { config, topic: self.topic.clone() }
    }
}

crashes!(Kafka);
killed_senders!(Kafka, Kept);
