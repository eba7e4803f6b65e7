//! Compiler messages: mistakes are reported where they are made, and read well.
//!
//! A crate of its own with few dependencies: they are built again for it, and every mistake is built with them.
#![cfg(test)]

#[test]
fn mistakes_are_reported_where_they_are_made() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
