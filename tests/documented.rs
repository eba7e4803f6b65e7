//! `docs/observability.md` names exactly what the code emits: events with their levels and fields,
//! metrics with their kinds and labels, outcomes with their problems, and the fields of the span.
//! `docs/http-differences.md` names all problems by status, `docs/errors.md` all kinds of errors. A table of settings has each with its default.
//! An example that cannot be compiled where it is shown is compiled elsewhere.
#![allow(missing_docs)]

use idempotent_http::problem;
use idempotent_runtime::observe::{Ending, names};
use idempotent_runtime::problem::ProblemType;
use idempotent_runtime::store::Verb;
use idempotent_runtime::{Config, Error, ErrorKind};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The rows of the table under a heading of `docs/observability.md`, as cells.
fn table(heading: &str) -> Vec<Vec<String>> {
    table_of("docs/observability.md", heading)
}

/// The rows of the table under a heading of a page, as cells.
fn table_of(page: &str, heading: &str) -> Vec<Vec<String>> {
    let page = fs::read_to_string(workspace().join(page)).unwrap();
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).expect(heading);
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| row.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect();
    let rows: Vec<_> = rows.map(cells).collect();
    assert!(!rows.is_empty(), "no table under {heading}");
    rows
}

/// The words in backquotes.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn only(cell: &str) -> String {
    let words = quoted(cell);
    assert_eq!(words.len(), 1, "{cell}");
    words.into_iter().next().unwrap()
}

/// All sources of the crates that users depend on, without their tests.
fn sources() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                walk(&path, found);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for package in ["idempotent-runtime", "idempotent-http", "idempotent-queue"] {
        walk(&workspace().join(package).join("src"), &mut found);
    }
    let code = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()
    };
    found.iter().map(code).collect()
}

/// One call of a macro: its arguments, split at the commas outside of brackets and quotes.
fn arguments(after: &str) -> Vec<String> {
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    let mut found = vec![String::new()];
    for letter in after.chars() {
        let last = found.last_mut().unwrap();
        match letter {
            _ if escaped => escaped = false,
            '\\' if in_text => escaped = true,
            '"' => in_text = !in_text,
            '(' | '[' | '{' if !in_text => depth += 1,
            ')' | ']' | '}' if !in_text && depth == 0 => break,
            ')' | ']' | '}' if !in_text => depth -= 1,
            ',' if !in_text && depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        last.push(letter);
    }
    let found = found.iter().map(|argument| argument.trim().to_owned());
    found.filter(|argument| !argument.is_empty()).collect()
}

/// The calls of the macro `name` in the sources.
fn calls(name: &str) -> Vec<Vec<String>> {
    let opening = format!("{name}!(");
    let sources = sources();
    let found = sources.iter().flat_map(|source| source.split(&opening).skip(1).map(arguments));
    found.collect()
}

fn literal(argument: &str) -> Option<&str> {
    argument.strip_prefix('"')?.strip_suffix('"')
}

/// The name of a field: `%error`, `?pause`, `key = ..`, `operation`.
fn field(argument: &str) -> String {
    let name = argument.split('=').next().unwrap().trim();
    name.trim_start_matches(['%', '?']).to_owned()
}

/// Message and level, and each set of fields with which it is emitted.
type Events = BTreeMap<(String, String), BTreeSet<BTreeSet<String>>>;

fn emitted() -> Events {
    let mut events = Events::new();
    for level in ["error", "warn", "info", "debug", "trace"] {
        for arguments in calls(&format!("tracing::{level}")) {
            let (target, rest) = arguments.split_first().unwrap();
            assert_eq!(target, "target: \"idempotent\"", "every event has the one target");
            let (message, fields) = rest.split_last().unwrap();
            let message = literal(message).unwrap_or_else(|| panic!("no message: {rest:?}"));
            let fields = fields.iter().map(|argument| field(argument)).collect();
            let event = (level.to_owned(), message.to_owned());
            events.entry(event).or_default().insert(fields);
        }
    }
    events
}

#[test]
fn the_documented_events_are_those_that_are_emitted() {
    let mut documented = Events::new();
    for row in table("Events") {
        let [level, message, fields, _] = &row[..] else { panic!("{row:?}") };
        let event = (level.clone(), only(message));
        documented.entry(event).or_default().insert(quoted(fields));
    }
    let emitted = emitted();
    assert!(emitted.len() > 10, "the sources were not read: {emitted:?}");
    let missing: Vec<_> = emitted.iter().filter(|(k, v)| documented.get(k) != Some(v)).collect();
    let unknown: Vec<_> = documented.iter().filter(|(k, v)| emitted.get(k) != Some(v)).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "emitted and not documented so: {missing:#?}\ndocumented and not emitted so: {unknown:#?}"
    );
}

#[test]
fn all_events_are_written_so_that_this_test_sees_them() {
    for source in sources() {
        for macro_name in ["error!(", "warn!(", "info!(", "debug!(", "trace!(", "event!("] {
            for (start, _) in source.match_indices(macro_name) {
                let before = &source[..start];
                let is_other = before.ends_with('_') || before.ends_with(char::is_alphanumeric);
                let path = before.ends_with("tracing::") && macro_name != "event!(";
                assert!(
                    is_other || path,
                    "{}{macro_name}",
                    &before[before.len().saturating_sub(80)..]
                );
            }
        }
    }
}

#[test]
fn the_documented_metrics_are_those_that_are_counted() {
    // The constants of `names`, by their value.
    let text = ["idempotent-runtime", "idempotent-queue"].map(|package| {
        fs::read_to_string(workspace().join(package).join("src/observe/names.rs")).unwrap()
    });
    let text = text.concat();
    let constants: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.split_once(": &str = "))
        .map(|(name, value)| (name, literal(value.trim_end_matches(';')).unwrap()))
        .collect();
    let labels =
        ["CONSUMER", "KIND", "OPERATION", "OUTCOME", "PROBLEM", "RESULT", "SETTLEMENT", "VERB"];
    let labels = labels.map(|name| constants[name]);
    let mut known: BTreeSet<&str> = constants.values().copied().collect();
    known.retain(|value| !labels.contains(value));

    let mut documented = BTreeSet::new();
    for row in table("Metrics") {
        let [name, kind, used, _] = &row[..] else { panic!("{row:?}") };
        let name = only(name);
        // The constant's own description says kind and labels too.
        let constant = constants.iter().find(|(_, value)| **value == name);
        let (constant, _) = constant.unwrap_or_else(|| panic!("{name} is documented only"));
        let declared = format!("pub const {constant}:");
        let before = text.split(&declared).next().unwrap();
        let description: Vec<_> =
            before.lines().rev().take_while(|line| line.starts_with("///")).collect();
        let description = description.join(" ");
        assert!(description.to_lowercase().contains(&format!("/// {kind}")), "{name}: {kind}");
        for label in labels {
            let constant = constants.iter().find(|(_, value)| **value == label).unwrap().0;
            let mentioned = description.contains(&format!("[`{constant}`]"));
            assert_eq!(mentioned, quoted(used).contains(label), "{name}, {label}");
        }
        documented.insert(name);
    }
    let documented: BTreeSet<&str> = documented.iter().map(String::as_str).collect();
    assert_eq!(documented, known);
    let sources = sources().concat();
    for (constant, value) in &constants {
        assert!(
            sources.contains(&format!("names::{constant}")) || in_timer(&sources, constant),
            "{value} is never counted"
        );
    }
}

#[test]
fn the_documented_verbs_are_those_that_are_timed() {
    let rows = table("Metrics");
    let row = rows.iter().find(|row| only(&row[0]) == names::STORE_SECONDS).unwrap();
    let sources = sources().concat();
    let timed = sources.split("StoreTimer::start(&Verb::").skip(1);
    let mut timed: BTreeSet<&str> = timed.map(|rest| rest.split(')').next().unwrap()).collect();
    // Those that end an attempt are timed as the verb of the end.
    let ends = sources.split("impl End {\n    pub(super) fn verb(&self)").nth(1).unwrap();
    let ends = ends.split("\n    }\n").next().unwrap();
    timed.extend(ends.split("=> Verb::").skip(1).map(|rest| rest.split(',').next().unwrap()));
    let name = |verb: &Verb| timed.contains(&*format!("{verb:?}")).then(|| verb.name().to_owned());
    let timed: BTreeSet<String> = Verb::ALL.iter().filter_map(name).collect();
    assert_eq!(quoted(&row[3]), timed);
}

/// `true` if a timer is declared for a histogram, by the macro that writes `names::` itself.
fn in_timer(sources: &str, constant: &str) -> bool {
    sources.split("timer! {").skip(1).any(|timer| {
        let declaration = timer.split('}').next().unwrap();
        declaration
            .split(|c: char| !c.is_ascii_uppercase() && c != '_')
            .any(|word| word == constant)
    })
}

#[test]
fn the_documented_outcomes_are_all_there_are() {
    let documented: Vec<String> = table("Outcomes").iter().map(|row| only(&row[0])).collect();
    let all = Ending::ALL.map(|ending| ending.as_str().to_owned());
    assert_eq!(documented, all);
}

#[test]
fn every_problem_is_named_under_its_outcome() {
    let mut documented = BTreeMap::<String, BTreeSet<String>>::new();
    for row in table("Outcomes") {
        let [outcome, .., problems] = &row[..] else { panic!("{row:?}") };
        documented.insert(only(outcome), quoted(problems));
    }
    let mut expected: BTreeMap<String, BTreeSet<String>> =
        Ending::ALL.iter().map(|ending| (ending.as_str().to_owned(), BTreeSet::new())).collect();
    let mut expect = |ending: Ending, kind: ProblemType| {
        expected.get_mut(ending.as_str()).unwrap().insert(kind.code().to_owned());
    };
    for kind in problem::all() {
        match kind {
            // Of the status service, whose requests are not calls.
            problem::UNKNOWN_KEY => {}
            // A response that broke off, or a panic, which an operation tells apart.
            problem::HANDLER_FAILED => {
                for ending in [kind.ending(), Ending::Panicked, Ending::Unprotected] {
                    expect(ending, kind);
                }
            }
            _ => expect(kind.ending(), kind),
        }
    }
    assert_eq!(documented, expected);
}

#[test]
fn every_problem_is_named_under_its_status() {
    let mut documented = BTreeSet::new();
    for row in table_of("docs/http-differences.md", "Answers that are not the handler's") {
        let [status, codes, _] = &row[..] else { panic!("{row:?}") };
        documented.extend(quoted(codes).into_iter().map(|code| (status.clone(), code)));
    }
    let all = problem::all();
    let all: BTreeSet<_> =
        all.map(|kind| (kind.status().to_string(), kind.code().to_owned())).collect();
    assert_eq!(documented, all);
}

#[test]
fn alerts_speak_of_outcomes_metrics_and_events_that_exist() {
    let outcomes: BTreeSet<&str> = Ending::ALL.iter().map(|ending| ending.as_str()).collect();
    let metrics: BTreeSet<String> = table("Metrics").iter().map(|row| only(&row[0])).collect();
    for row in table("Alerts") {
        for word in quoted(&row[0]) {
            let metric = |full: &String| {
                let short = full.strip_prefix("idempotent_").unwrap();
                short == word
                    || short.strip_suffix("_total") == Some(&word)
                    || short.strip_prefix("value_").is_some_and(|short| short.starts_with(&word))
            };
            let is_known = outcomes.contains(&*word) || metrics.iter().any(metric);
            assert!(is_known, "{word} in {row:?}");
        }
    }
}

#[test]
fn the_documented_fields_of_spans_are_their_own() {
    let spans: Vec<_> = ["error", "warn", "info", "debug", "trace"]
        .iter()
        .flat_map(|level| calls(&format!("{level}_span")))
        .collect();
    let own = spans.iter().filter(|span| span[0] == "target: \"idempotent\"");
    let own: BTreeMap<&str, Vec<String>> = own
        .map(|span| {
            let fields = span[2..].iter().map(|argument| field(argument));
            (literal(&span[1]).unwrap(), fields.collect())
        })
        .collect();
    let documented = |heading| table(heading).iter().map(|row| only(&row[0])).collect();
    let expected = [("idempotent", "Span"), ("consume", "Span of a message")];
    assert_eq!(own, expected.map(|(name, heading)| (name, documented(heading))).into());
}

#[test]
fn every_kind_of_error_is_documented_with_its_disposition() {
    let rows = table_of("docs/errors.md", "Kinds");
    let documented: Vec<_> = rows.iter().map(|row| (only(&row[0]), quoted(&row[3]))).collect();
    let disposition = |kind: ErrorKind, retry_after_ms: Option<u64>| {
        let error = json!({ "kind": kind, "retry_after_ms": retry_after_ms });
        let error: Error = serde_json::from_value(error).unwrap();
        let disposition = format!("{:?}", error.disposition());
        disposition.split(' ').next().unwrap().to_owned()
    };
    let real: Vec<_> = ErrorKind::ALL
        .into_iter()
        .map(|kind| {
            let dispositions = [None, Some(1)].map(|after| disposition(kind, after));
            (format!("{kind:?}"), BTreeSet::from(dispositions))
        })
        .collect();
    assert_eq!(documented, real);
}

#[test]
fn every_disposition_of_a_kind_is_explained() {
    let explained: BTreeSet<_> =
        table_of("docs/errors.md", "Dispositions").iter().map(|row| only(&row[0])).collect();
    let used = table_of("docs/errors.md", "Kinds").into_iter().flat_map(|row| quoted(&row[3]));
    assert_eq!(explained, used.collect());
}

#[test]
fn every_setting_is_documented_with_its_default() {
    let mut pages = vec![workspace().join("README.md")];
    pages.extend(fs::read_dir(workspace().join("docs")).unwrap().map(|page| page.unwrap().path()));
    pages.retain(|page| page.is_file());
    let pages: Vec<_> = pages.iter().map(|page| fs::read_to_string(page).unwrap()).collect();
    let written = |config: Config| serde_json::to_value(config).unwrap();
    // Without a bound, there is nothing to be written.
    let names = written(Config::new().with_max_concurrent(1));
    let defaults = written(Config::new());
    for name in names.as_object().unwrap().keys() {
        let default = match defaults.get(name) {
            None => "none".to_owned(),
            Some(serde_json::Value::String(text)) => format!("`{text}`"),
            Some(other) => format!("`{other}`"),
        };
        let row = format!("\n| `{}` | {default} |", name.replace('-', "_"));
        assert!(pages.iter().any(|page| page.contains(&row)), "{row}");
    }
}

/// The names of the features that a package declares.
fn declared_features(package: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(workspace().join(package).join("Cargo.toml")).unwrap();
    let (_, features) = manifest.split_once("\n[features]\n").expect(package);
    let features = features.split("\n[").next().unwrap().lines();
    let names = features.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned()));
    names.filter(|name| !name.starts_with('#') && name != "default").collect()
}

#[test]
fn every_feature_is_in_the_table_of_its_crate() {
    for package in ["idempotent-runtime", "idempotent-http", "idempotent-queue", "idempotent-sql"] {
        let source = fs::read_to_string(workspace().join(package).join("src/lib.rs")).unwrap();
        let (_, table) = source.split_once("\n//! # Features\n").expect(package);
        let rows = table.lines().take_while(|line| line.starts_with("//!"));
        let cells = rows.filter_map(|line| line.strip_prefix("//! | ")?.split(" | ").next());
        let documented: BTreeSet<_> = cells.flat_map(quoted).collect();
        assert_eq!(documented, declared_features(package), "{package}");
    }
    let rows = table_of("docs/configuration.md", "Cargo features");
    let documented: BTreeSet<_> = rows.iter().flat_map(|row| quoted(&row[0])).collect();
    assert_eq!(documented, declared_features("idempotent-runtime"), "docs/configuration.md");
}

/// The only example of the attribute that is not compiled where it is shown: it needs `idempotent-sql`.
#[test]
fn the_example_of_a_transaction_is_compiled_in_the_guide_of_databases() {
    let read = |page: &str| fs::read_to_string(workspace().join(page)).unwrap();
    let reference = read("idempotent-runtime/docs/idempotent.md");
    let shown: Vec<&str> = reference.split("```ignore\n").skip(1).collect();
    assert_eq!(shown.len(), 1, "examples that are not compiled");
    let shown = shown[0].split("```").next().unwrap();
    assert!(read("docs/exactly-once.md").contains(shown), "{shown}");
}

#[test]
fn the_workflow_runs_every_step() {
    let script = fs::read_to_string(workspace().join("scripts/test")).unwrap();
    let (_, steps) = script.split_once("\nsteps=(").unwrap();
    let steps = steps.split(')').next().unwrap().split_whitespace();
    let workflow = fs::read_to_string(workspace().join(".github/workflows/ci.yml")).unwrap();
    let words: BTreeSet<_> = workflow.split_whitespace().collect();
    let left_out: Vec<_> = steps.filter(|step| !words.contains(step)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}
