//! What the tests share: a ledger outside any store, and instances on clocks that can be moved.
#![allow(missing_docs)]
