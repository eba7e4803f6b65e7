//! For tests: a contract suite for stores, a store with faults, a clock that can be moved.
