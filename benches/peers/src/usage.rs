//! Processor time and traffic, of this process and of a server.

use crate::servers::Server;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;

/// Counters of a process and of a server since they started.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Seconds of processor time of this process.
    pub client: f64,
    /// Seconds of processor time of the server.
    pub server: f64,
    /// Bytes that the server read.
    pub received: f64,
    /// Bytes that the server wrote.
    pub sent: f64,
}

impl Usage {
    /// The counters at this moment.
    pub async fn now(server: &Server) -> Self {
        let info = server.info("all").await;
        let server = number(&info, "used_cpu_user") + number(&info, "used_cpu_sys");
        let received = number(&info, "total_net_input_bytes");
        let sent = number(&info, "total_net_output_bytes");
        Self { client: process_time(), server, received, sent }
    }

    /// The part that was added since.
    pub fn since(self, before: Self) -> Self {
        Self {
            client: self.client - before.client,
            server: self.server - before.server,
            received: self.received - before.received,
            sent: self.sent - before.sent,
        }
    }
}

/// Seconds of processor time of this process.
pub fn process_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A number of `INFO`.
///
/// # Panics
/// The server does not tell it.
pub fn number(info: &HashMap<String, String>, name: &str) -> f64 {
    let text = info.get(name).unwrap_or_else(|| panic!("INFO has no `{name}`"));
    text.parse().unwrap_or_else(|_| panic!("`{name}` of INFO is `{text}`, not a number"))
}
