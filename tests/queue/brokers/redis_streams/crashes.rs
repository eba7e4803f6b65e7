//! Consumers in processes of their own that die.

use super::{GROUP, Stream};
use crate::crashes::{InProcesses, Place, REDELIVERED_AFTER, crashes};
use support::redis::{RedisServer, installed};

impl InProcesses for Stream {
    type Server = RedisServer;

    async fn open_on_own_server() -> (Self, RedisServer) {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = RedisServer::start_with(&installed(), &durable);
        (Self::on(&server.url()).await, server)
    }

    async fn open_for_processes() -> Self {
        Self::shared().await
    }

    fn restart(server: &mut RedisServer) -> bool {
        server.restart();
        true
    }

    fn place(&self) -> Place {
        Place::RedisStream {
            url: self.url.clone(),
            stream: self.name.clone(),
            group: GROUP.to_owned(),
            claim_after_ms: REDELIVERED_AFTER.as_millis() as u64,
        }
    }
}

crashes!(Stream);
