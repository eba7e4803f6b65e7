//! Detects keys of one map that are written alike.
//!
//! Keys are compared by a hash of their written form. A collision refuses a value that could have
//! been kept, which is safe, and happens once in 2^64 pairs.

use std::cell::RefCell;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Hash of the written form of one key.
pub(super) struct KeyDigest(RefCell<DefaultHasher>);

impl KeyDigest {
    pub(super) fn new() -> Self {
        // Random, so that an attacker cannot choose keys that collide.
        static SEED: OnceLock<RandomState> = OnceLock::new();
        Self(RefCell::new(SEED.get_or_init(RandomState::new).build_hasher()))
    }

    pub(super) fn feed(&self, kind: u8, bytes: &[u8]) {
        let mut hasher = self.0.borrow_mut();
        hasher.write_u8(kind);
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    }

    pub(super) fn finish(self) -> u64 {
        self.0.into_inner().finish()
    }
}

/// Hashes of the keys of one map so far.
#[derive(Default)]
pub(super) struct Keys(Vec<u64>);

impl Keys {
    pub(super) fn add(&mut self, hash: u64) {
        self.0.push(hash);
    }

    pub(super) fn repeat(mut self) -> bool {
        self.0.sort_unstable();
        self.0.windows(2).any(|pair| pair[0] == pair[1])
    }
}
