//! Compiler messages: mistakes read well, and every supported shape compiles without a warning.
//!
//! A crate of its own, because every case is built with the dependencies of the crate it lies in.
#![cfg(test)]

#[test]
fn mistakes_are_reported_where_they_are_made() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}

#[test]
fn every_kind_of_function_compiles_and_runs() {
    trybuild::TestCases::new().pass("pass/*.rs");
}
