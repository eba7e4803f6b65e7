//! Features of a server, and the commands to use with them.
//!
//! They follow from the server's version, which is read at connect. A server that lacks a command
//! of its version refuses it, which has no effect: from then on the commands that every server has
//! are used.

use super::error::misconfigured;
use crate::store::StoreError;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// Product and version of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerVersion {
    product: Product,
    version: (u16, u16),
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Product {
    Redis,
    Valkey,
}

/// The oldest server that can be used.
const OLDEST: (u16, u16) = (6, 2);

impl ServerVersion {
    /// Reads the answer to `INFO server`.
    pub(super) fn parse(info: &str) -> Result<Self, StoreError> {
        let valkey = field(info, "valkey_version");
        let product = if valkey.is_some() { Product::Valkey } else { Product::Redis };
        let text = valkey
            .or_else(|| field(info, "redis_version"))
            .ok_or_else(|| misconfigured("the server does not tell its version"))?;
        let mut numbers = text.split('.').map_while(|number| number.parse().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if product == Product::Redis && version < OLDEST {
            return Err(misconfigured(format!(
                "redis {text} is too old\nhelp: use Redis 6.2 or later, or Valkey"
            )));
        }
        Ok(Self { product, version, text: text.to_owned() })
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product = match self.product {
            Product::Redis => "redis",
            Product::Valkey => "valkey",
        };
        write!(formatter, "{product} {}", self.text)
    }
}

/// The value of a line of `INFO`.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The command that deletes a record if it has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeleteIfEqual {
    Script,
    /// `DELEX key IFEQ value`.
    Delex,
    /// `DELIFEQ key value`.
    Delifeq,
}

/// The features of the server.
#[derive(Debug)]
pub(super) struct Features {
    set_nx_get: AtomicBool,
    set_ifeq: AtomicBool,
    delete: AtomicU8,
    moves: AtomicBool,
    /// `SSUBSCRIBE` and `SPUBLISH`.
    pub(super) sharded_pubsub: bool,
}

impl Features {
    pub(super) fn of(server: &ServerVersion) -> Self {
        use Product::{Redis, Valkey};
        let ServerVersion { product, version, .. } = *server;
        let delete = match product {
            Redis if version >= (8, 4) => DeleteIfEqual::Delex,
            Valkey if version >= (9, 0) => DeleteIfEqual::Delifeq,
            _ => DeleteIfEqual::Script,
        };
        let ifeq = match product {
            Redis => version >= (8, 4),
            Valkey => version >= (8, 1),
        };
        Self {
            set_nx_get: AtomicBool::new(product == Valkey || version >= (7, 0)),
            set_ifeq: AtomicBool::new(ifeq),
            delete: AtomicU8::new(delete as u8),
            moves: AtomicBool::new(product == Valkey || version >= (7, 0)),
            sharded_pubsub: product == Valkey || version >= (7, 0),
        }
    }

    /// `SET key value NX GET PX ttl`.
    pub(super) fn set_nx_get(&self) -> bool {
        self.set_nx_get.load(Relaxed)
    }

    pub(super) fn without_set_nx_get(&self) {
        self.set_nx_get.store(false, Relaxed);
    }

    /// `SET key value IFEQ old GET PX ttl`.
    pub(super) fn set_ifeq(&self) -> bool {
        self.set_ifeq.load(Relaxed)
    }

    pub(super) fn without_set_ifeq(&self) {
        self.set_ifeq.store(false, Relaxed);
    }

    /// A large record is better [moved](super::moved) than given to a script. Redis 6.2 hashes some of its bytes, later
    /// servers all of them.
    pub(super) fn moves(&self) -> bool {
        self.moves.load(Relaxed)
    }

    pub(super) fn without_moves(&self) {
        self.moves.store(false, Relaxed);
    }

    pub(super) fn delete(&self) -> DeleteIfEqual {
        match self.delete.load(Relaxed) {
            it if it == DeleteIfEqual::Delex as u8 => DeleteIfEqual::Delex,
            it if it == DeleteIfEqual::Delifeq as u8 => DeleteIfEqual::Delifeq,
            _ => DeleteIfEqual::Script,
        }
    }

    pub(super) fn without_delete(&self) {
        self.delete.store(DeleteIfEqual::Script as u8, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(info: &str) -> (bool, bool, DeleteIfEqual, bool, bool) {
        let features = Features::of(&ServerVersion::parse(info).unwrap());
        let Features { sharded_pubsub, .. } = features;
        (
            features.set_nx_get(),
            features.set_ifeq(),
            features.delete(),
            features.moves(),
            sharded_pubsub,
        )
    }

    #[test]
    fn commands_follow_from_the_version() {
        use DeleteIfEqual::{Delex, Delifeq, Script};
        let redis = |version| features(&format!("# Server\r\nredis_version:{version}\r\n"));
        assert_eq!(redis("6.2.14"), (false, false, Script, false, false));
        assert_eq!(redis("7.0.15"), (true, false, Script, true, true));
        assert_eq!(redis("8.0.2"), (true, false, Script, true, true));
        assert_eq!(redis("8.6.1"), (true, true, Delex, true, true));
        let valkey = |version| {
            features(&format!(
                "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:{version}\r\n"
            ))
        };
        assert_eq!(valkey("8.1.1"), (true, true, Script, true, true));
        assert_eq!(valkey("9.1.0"), (true, true, Delifeq, true, true));
    }

    #[test]
    fn a_server_that_is_too_old_is_refused_with_its_version() {
        let error = ServerVersion::parse("redis_version:5.0.14\r\n").unwrap_err();
        assert!(error.to_string().starts_with("redis 5.0.14 is too old"), "{error}");
    }

    #[test]
    fn a_server_shows_its_name() {
        let server = ServerVersion::parse("redis_version:7.0.15\r\n").unwrap();
        assert_eq!(server.to_string(), "redis 7.0.15");
    }
}
