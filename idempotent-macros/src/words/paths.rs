//! Paths in examples, which start at a parameter `req`.

use crate::suggest::quoted_list;

/// Says behind the code with the first of the `invented` fields that they are examples.
pub(super) fn marked(help: &str, first: &str, invented: &[String]) -> String {
    let fields = quoted_list(invented);
    let mark = match invented {
        [_] => format!(" ({fields} stands for a field of your own)"),
        _ => format!(" ({fields} stand for fields of your own)"),
    };
    let code = help.find(first).unwrap_or_default();
    let end = help[code..].find('`').map_or(help.len(), |end| code + end + 1);
    let end = end + usize::from(help[end..].starts_with('?'));
    format!("{}{mark}{}", &help[..end], &help[end..])
}

/// Replaces every path that starts at `req`.
pub(super) fn replace_paths(text: &str, mut replace: impl FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("req.") {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let path = &rest[at..];
        let mut end = path.find(|c| !is_name(c)).unwrap_or(path.len());
        for tail in ["()", "?"] {
            end += if path[end..].starts_with(tail) { tail.len() } else { 0 };
        }
        out.push_str(&rest[..at]);
        match rest[..at].ends_with(is_name) {
            true => out.push_str(&path[..end]),
            false => out.push_str(&replace(&path[..end])),
        }
        rest = &path[end..];
    }
    out.push_str(rest);
    out
}
