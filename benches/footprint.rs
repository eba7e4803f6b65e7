//! How many bytes a record takes in the memory store.
//!
//! `cargo bench --bench footprint`. Counts live bytes of the allocator, with its own rounding.
#![allow(missing_docs, clippy::print_stdout)]
fn main() {}
