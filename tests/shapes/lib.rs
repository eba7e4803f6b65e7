//! Every supported shape of a function compiles without a warning, and runs.
#![cfg(test)]

use std::collections::BTreeSet;
use std::process::Command;
use std::{env, fs, thread};

/// Makes each file a module and a test that runs its `main`. They are built together, in one crate: a crate for each
/// takes ten times as long.
macro_rules! shapes {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[path = $path]
            #[allow(dead_code, clippy::ptr_arg, clippy::unnecessary_owned_empty_strings)]
            mod $name;
        )*

        mod shapes {
            $(
                #[test]
                fn $name() {
                    super::in_a_process_of_its_own(super::$name::main);
                }
            )*
        }

        const SHAPES: &[&str] = &[$($path),*];
    };
}

shapes! {
    ambient_key: "ambient-key.rs",
    async_trait: "async-trait.rs",
    attributes_and_docs: "attributes-and-docs.rs",
    complex_types: "complex-types.rs",
    derive: "derive.rs",
    detach: "detach.rs",
    durations: "durations.rs",
    error_types: "error-types.rs",
    every_argument: "every-argument.rs",
    fingerprint: "fingerprint.rs",
    free_function: "free-function.rs",
    generated_names_in_the_body: "generated-names-in-the-body.rs",
    generics: "generics.rs",
    impl_trait_return: "impl-trait-return.rs",
    instrument_above: "instrument-above.rs",
    instrument_below: "instrument-below.rs",
    instrument_with_async_trait: "instrument-with-async-trait.rs",
    keys: "keys.rs",
    lifetimes: "lifetimes.rs",
    macro_rules: "macro-rules.rs",
    methods: "methods.rs",
    nested_function: "nested-function.rs",
    not_send: "not-send.rs",
    optional_key_missing: "optional-key-missing.rs",
    outcome: "outcome.rs",
    own_types_with_known_names: "own-types-with-known-names.rs",
    patterns: "patterns.rs",
    reject_without_serde: "reject-without-serde.rs",
    renamed_crate: "renamed-crate.rs",
    result_alias: "result-alias.rs",
    send: "send.rs",
    send_async_trait: "send-async-trait.rs",
    send_axum: "send-axum.rs",
    shadowed_names: "shadowed-names.rs",
    trait_impl: "trait-impl.rs",
    transitions: "transitions.rs",
    unsafe_function: "unsafe-function.rs",
    ways_to_return: "ways-to-return.rs",
    window_without_serde: "window-without-serde.rs",
    with: "with.rs",
}

/// Names of functions and the default instance belong to a process, and the files know nothing of each other.
fn in_a_process_of_its_own(main: fn()) {
    const ALONE: &str = "IDEMPOTENT_SHAPE_ALONE";
    if env::var_os(ALONE).is_some() {
        return main();
    }
    let test = thread::current().name().expect("tests run on threads with their names").to_owned();
    let alone = Command::new(env::current_exe().unwrap())
        .args([&test, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&alone.stdout);
    let errors = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.success() && printed.contains("1 passed"), "{printed}{errors}");
}

#[test]
fn every_file_is_a_test() {
    let files: BTreeSet<_> = fs::read_dir(env!("CARGO_MANIFEST_DIR"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".rs") && name != "lib.rs")
        .collect();
    assert_eq!(files, SHAPES.iter().map(ToString::to_string).collect());
}
