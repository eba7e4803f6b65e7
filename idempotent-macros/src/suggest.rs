//! "Did you mean": the nearest of a list of names.

use std::fmt::Display;

/// Returns the candidate nearest to `word`, if one is near enough to be a typing error.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .filter_map(|candidate| Some((distance_if_near(word, candidate)?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `` `a`, `b`, `c` ``
pub(crate) fn quoted_list(names: impl IntoIterator<Item = impl Display>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn distance_if_near(word: &str, candidate: &str) -> Option<usize> {
    let normal = |text: &str| text.to_lowercase().replace('-', "_");
    let (word, candidate) = (normal(word), normal(candidate));
    let (shorter, longer) =
        if word.len() < candidate.len() { (&word, &candidate) } else { (&candidate, &word) };
    if shorter.len() >= 3 && longer.starts_with(shorter.as_str()) {
        return Some(1);
    }
    let distance = edit_distance(&word, &candidate);
    let allowed = (longer.chars().count() / 3).max(1);
    (distance <= allowed && distance < shorter.chars().count()).then_some(distance)
}

/// Number of insertions, deletions, replacements and swaps of neighbours that turn `from` into
/// `to`.
fn edit_distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<_>, Vec<_>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replace = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["expire", "expire_with", "mode", "key", "on_replay"];

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        assert_eq!(nearest("exipre", NAMES), Some("expire"));
        assert_eq!(nearest("expires", NAMES), Some("expire"));
        assert_eq!(nearest("mod", NAMES), Some("mode"));
        assert_eq!(nearest("keys", NAMES), Some("key"));
        assert_eq!(nearest("Mode", NAMES), Some("mode"));
        assert_eq!(nearest("on-replay", NAMES), Some("on_replay"));
    }

    #[test]
    fn a_longer_form_of_a_name_is_recognised() {
        assert_eq!(nearest("request", ["req", "user"]), Some("req"));
    }

    #[test]
    fn a_different_word_is_not_mistaken_for_a_name() {
        assert_eq!(nearest("timeout", NAMES), None);
        assert_eq!(nearest("id", ["it"]), Some("it"));
        assert_eq!(nearest("a", ["b"]), None);
    }

    #[test]
    fn lists_are_quoted() {
        assert_eq!(quoted_list(["a", "b"]), "`a`, `b`");
    }
}
