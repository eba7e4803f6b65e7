//! The pages of `docs/recipes`: each is in the index, and its code is that of a program, or is compiled.

use std::fs;
use std::path::{Path, PathBuf};

/// A page, and the program that it is about.
struct Page {
    name: String,
    text: String,
}

impl Page {
    /// The name of the program in this package that the page tells to run.
    fn program(&self) -> Option<&str> {
        let (_, after) =
            self.text.split_once("cargo run -p idempotent-recipe-examples --example ")?;
        after.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
    }

    /// The blocks of Rust, without indentation.
    fn blocks(&self) -> Vec<Vec<&str>> {
        let code = self.text.split("```").skip(1).step_by(2);
        code.filter_map(|block| Some(lines(block.strip_prefix("rust\n")?))).collect()
    }
}

/// The lines of a text, without indentation and without empty ones at its end.
fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim).collect()
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder with this extension, in order.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|it| it == extension)).collect();
    files.sort();
    files
}

fn recipes() -> PathBuf {
    package().join("../../docs/recipes")
}

fn pages() -> Vec<Page> {
    let read = |path: &PathBuf| Page {
        name: path.file_name().unwrap().to_str().unwrap().to_owned(),
        text: fs::read_to_string(path).unwrap(),
    };
    let pages = files(&recipes(), "md");
    pages.iter().map(read).filter(|page| page.name != "README.md").collect()
}

#[test]
fn code_on_a_page_is_code_of_its_program() {
    for page in pages() {
        let Some(program) = page.program() else { continue };
        let source = fs::read_to_string(package().join(format!("{program}.rs"))).unwrap();
        let source = lines(&source);
        let blocks = page.blocks();
        assert!(!blocks.is_empty(), "{} shows no code", page.name);
        for block in blocks {
            let is_there = source.windows(block.len()).any(|window| window == block);
            assert!(is_there, "{}: not in {program}.rs:\n{}", page.name, block.join("\n"));
        }
    }
}

#[test]
fn every_program_has_a_page() {
    let pages = pages();
    for source in files(package(), "rs") {
        let program = source.file_stem().unwrap().to_str().unwrap();
        let about = pages.iter().filter(|page| page.program() == Some(program)).count();
        assert_eq!(about, 1, "pages that tell to run {program}");
    }
}

/// Pages without a program here are documentation tests of `idempotent-sql`.
#[test]
fn every_page_is_checked_somewhere() {
    let compiled = fs::read_to_string(package().join("../../idempotent-sql/src/lib.rs")).unwrap();
    for page in pages().iter().filter(|page| page.program().is_none()) {
        let include = format!("docs/recipes/{}\"", page.name);
        assert!(compiled.contains(&include), "nothing compiles the code of {}", page.name);
    }
}

#[test]
fn the_index_has_every_page_and_no_other() {
    let index = fs::read_to_string(recipes().join("README.md")).unwrap();
    let mut linked: Vec<&str> =
        index.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    linked.sort_unstable();
    let pages = pages();
    assert_eq!(linked, pages.iter().map(|page| page.name.as_str()).collect::<Vec<_>>());
}
