//! What the compiler says: mistakes read well, and every supported shape compiles without a warning.

#[test]
fn mistakes_are_reported_where_they_are_made() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}

#[test]
fn every_kind_of_function_compiles_and_runs() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}
