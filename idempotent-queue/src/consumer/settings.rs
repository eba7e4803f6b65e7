//! The settings of a consumer, which its tasks share.

use crate::settlement::Pauses;
use crate::{Message, Terms};
use idempotent_runtime::Idempotency;
use idempotent_runtime::ambient::Ambient;
use std::sync::Arc;
use std::time::Duration;
use tracing::Span;

/// Headers that a key is looked for in, in this order.
const KEY_HEADERS: [&str; 2] = [crate::KEY_HEADER, "idempotent-token"];

/// The longest pause, and time between signals: a day.
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// A function that chooses the key by which a message is ordered.
pub(super) type OrderedBy = Box<dyn Fn(&Message) -> Option<String> + Send + Sync>;

/// A function that makes the span of a message.
pub(super) type SpanOf = Box<dyn Fn(&Message) -> Span + Send + Sync>;

/// The settings of a consumer.
pub(super) struct Settings {
    pub(super) idem: Idempotency,
    pub(super) name: Arc<str>,
    pub(super) concurrency: usize,
    pub(super) prefetch: Option<usize>,
    pub(super) max_attempts: Option<u32>,
    pub(super) pauses: Pauses,
    /// `None`: it follows the lease.
    pub(super) heartbeat: Option<Duration>,
    pub(super) drain: Duration,
    pub(super) key_headers: Vec<String>,
    pub(super) scope_header: Option<String>,
    pub(super) key_from_id: bool,
    pub(super) ordered_by: Option<OrderedBy>,
    pub(super) span: Option<SpanOf>,
}

impl Settings {
    pub(super) fn new(idem: &Idempotency, name: Arc<str>) -> Self {
        Self {
            idem: idem.clone(),
            name,
            concurrency: 16,
            prefetch: None,
            max_attempts: None,
            pauses: Pauses { first: Duration::from_secs(1), longest: Duration::from_secs(60) },
            heartbeat: None,
            drain: Duration::from_secs(30),
            key_headers: KEY_HEADERS.map(str::to_owned).to_vec(),
            scope_header: None,
            key_from_id: false,
            ordered_by: None,
            span: None,
        }
    }

    /// The largest number of deliveries that are not settled.
    pub(super) fn prefetch(&self) -> usize {
        self.prefetch.unwrap_or(0).max(self.concurrency)
    }

    /// The time between two signals that a message is still being handled.
    pub(super) fn heartbeat(&self) -> Duration {
        // Read each time: the configuration can be replaced while the consumer runs.
        let chosen = self.heartbeat.unwrap_or_else(|| self.idem.config().lease / 3);
        chosen.clamp(Duration::from_millis(1), LONGEST)
    }

    pub(super) fn terms(&self) -> Terms {
        Terms {
            consumer: (*self.name).to_owned(),
            prefetch: self.prefetch(),
            max_attempts: self.max_attempts,
            heartbeat: self.heartbeat(),
        }
    }

    /// Token, scope and limit of a call, from the headers of its message. `None` if the scope is missing.
    pub(super) fn ambient(&self, message: &Message) -> Option<Ambient> {
        let named = self.key_headers.iter().find_map(|name| message.header(name));
        let token = named.or_else(|| message.id().filter(|_| self.key_from_id));
        let mut ambient = match &self.scope_header {
            None => Ambient::new().scope(&*self.name),
            Some(header) => {
                let value = message.header(header).filter(|value| !value.is_empty())?;
                Ambient::new().scope((&*self.name, value))
            }
        };
        if let Some(token) = token {
            ambient = ambient.token(token);
        }
        ambient.max_attempts = self.max_attempts;
        Some(ambient)
    }
}
