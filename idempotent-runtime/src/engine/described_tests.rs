//! The documentation of the engine, compared with its files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const DOCS: &str = include_str!("mod.rs");

fn engine() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine")
}

/// The files with production code, and their text without unit tests.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            _ if name.ends_with("_tests") => {}
            true => found.extend(sources(&path)),
            false => {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("\n#[cfg(test)]").next().unwrap().to_owned();
                found.push((path, code));
            }
        }
    }
    found
}

/// The types that act when they are dropped.
fn guards(code: &str) -> impl Iterator<Item = String> {
    let named = |line: &str| {
        let line = line.trim_start();
        let (_, named) = line.starts_with("impl").then(|| line.split_once("Drop for "))??;
        let name: String = named.chars().take_while(|it| it.is_alphanumeric()).collect();
        Some(name)
    };
    code.lines().filter_map(named).collect::<Vec<_>>().into_iter()
}

#[test]
fn the_table_of_guards_has_every_type_that_acts_when_it_is_dropped() {
    let rows = DOCS.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let listed: BTreeSet<_> = rows.map(|row| row.split('`').next().unwrap().to_owned()).collect();
    let sources = sources(&engine());
    let written: BTreeSet<_> = sources.iter().flat_map(|(_, code)| guards(code)).collect();
    assert_eq!(listed, written);
}

#[test]
fn every_file_is_named() {
    let docs: String = DOCS.lines().filter(|line| line.starts_with("//!")).collect();
    for (path, _) in sources(&engine()) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let named = [format!("`{name}`"), format!("::{name}`")];
        assert!(name == "mod" || named.iter().any(|it| docs.contains(it)), "{name} is not named");
    }
}
