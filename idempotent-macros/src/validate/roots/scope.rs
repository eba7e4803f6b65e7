//! Words in `scope` that say who shares the records, as other libraries have them.

use crate::synonyms::snake_case;

const SHARED: [&str; 20] = [
    "all",
    "any",
    "app",
    "application",
    "cluster",
    "cluster_wide",
    "default",
    "distributed",
    "everyone",
    "everywhere",
    "global",
    "instance",
    "local",
    "machine",
    "node",
    "process",
    "public",
    "server",
    "shared",
    "singleton",
];

/// Help for such a word.
pub(super) fn shared(word: &str) -> Option<&'static str> {
    SHARED.contains(&snake_case(word).as_str()).then_some(
        "remove `scope`: all processes with the same store share its records; `scope` keeps the records of one tenant apart \
         from those of another",
    )
}
