//! Key expressions in the languages of other frameworks: `#req.id`, `#{req.id}`, `${req.id}`.

/// An expression of another language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) what: String,
    /// The same as a key of this crate.
    pub(super) translation: String,
}

/// Recognises the Spring expression language, shell variables and JavaScript templates.
///
/// A hash before a brace is text if a word ends there, as in `order#{req.id}`.
pub(super) fn recognise(key: &str) -> Option<Foreign> {
    if let Some(at) = key.find("${") {
        let hole = hole_after(&key[at..]);
        let what = format!("`${hole}` is written without `$`");
        return Some(Foreign { what, translation: key.replace("${", "{").replace('`', "") });
    }
    if let Some(path) = key.strip_prefix("$.") {
        let what = "`$` is not a parameter".to_owned();
        return Some(Foreign { what, translation: format!("req.{}", snake_fields(path)) });
    }
    if let Some((what, translation)) = placeholders(key) {
        return Some(Foreign { what, translation });
    }
    let starts = |at: usize| !key[..at].ends_with(|c: char| c.is_alphanumeric());
    if let Some(at) = key.find("#{").filter(|at| starts(*at)) {
        let hole = hole_after(&key[at..]);
        let what = format!("`#{hole}` is written without `#`");
        return Some(Foreign { what, translation: key.replace("#{", "{") });
    }
    spel(key)
}

/// `order:$id`, `order:%s` and `order:<id>`, which have no braces.
fn placeholders(key: &str) -> Option<(String, String)> {
    if key.contains(['{', '}']) {
        return None;
    }
    let path = |text: &str| {
        let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let end = text.find(|c| !is_path(c)).unwrap_or(text.len());
        let path = text[..end].trim_end_matches('.').to_owned();
        path.starts_with(|c: char| c.is_alphabetic()).then_some(path)
    };
    let (found, hole) = if let Some((_, after)) = key.split_once('$') {
        let path = path(after)?;
        (format!("${path}"), format!("{{{path}}}"))
    } else if let Some(after) = key.strip_prefix('@') {
        let path = path(after).filter(|path| path == after)?;
        return Some((format!("`@{path}` does not stand for a parameter"), path));
    } else if let Some(at) = key.find(':').filter(|at| *at == 0 || key[..*at].ends_with('/')) {
        let path = path(&key[at + 1..])?;
        (format!(":{path}"), format!("{{{path}}}"))
    } else if let Some((_, after)) =
        key.split_once('<').filter(|(before, _)| !before.ends_with("::"))
    {
        let path = path(after).filter(|path| after[path.len()..].starts_with('>'))?;
        (format!("<{path}>"), format!("{{{path}}}"))
    } else {
        let printf = ["%s", "%d", "%v"].into_iter().find(|printf| key.contains(printf))?;
        let fields = ["{req.order_id}", "{req.item}", "{req.user}"];
        let template =
            fields.iter().fold(key.to_owned(), |key, field| key.replacen(printf, field, 1));
        return Some((format!("`{printf}` does not stand for a parameter"), template));
    };
    Some((format!("`{found}` does not stand for a parameter"), key.replace(&found, &hole)))
}

/// `#req.id`, and concatenations such as `'order:' + #req.id`.
fn spel(key: &str) -> Option<Foreign> {
    if key.contains(['{', '}']) {
        return None;
    }
    let at = key.find('#')?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let name: String = key[at + 1..].chars().take_while(|c| is_name(*c)).collect();
    if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return None;
    }
    if at > 0 && !key[..at].ends_with([' ', '+', '(', ',']) {
        return None;
    }
    if is_position(&name) {
        let what = format!("`#{name}` does not name a parameter");
        return Some(Foreign { what, translation: "req.order_id".to_owned() });
    }
    let what = format!("`#{name}` is written without `#`");
    let translation = match key.contains('+') {
        true => key.split('+').map(|part| spel_part(part.trim())).collect(),
        false => snake_fields(&key.replace('#', "")),
    };
    Some(Foreign { what, translation })
}

/// Returns `true` for `p0`, `a0` and `root.args`.
fn is_position(name: &str) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    let number = first.strip_prefix(['p', 'a']).unwrap_or_default();
    first == "root" || (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// A part of a concatenation, as part of a template.
fn spel_part(part: &str) -> String {
    match part.strip_prefix('#') {
        Some(path) => format!("{{{}}}", snake_fields(path)),
        None => part.trim_matches(['\'', '"']).to_owned(),
    }
}

/// `req.order_id` for `req.orderId`, and `req.items.first()?` for `req.items[0]`.
fn snake_fields(path: &str) -> String {
    let fields: Vec<_> = path.split('.').map(crate::synonyms::snake_case).collect();
    fields.join(".").replace("[0]", ".first()?")
}

/// The braces that the text has after its first character.
fn hole_after(text: &str) -> &str {
    let end = text.find('}').map_or(text.len(), |end| end + 1);
    &text[1..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn translated(key: &str, what: &str, translation: &str) {
        let foreign = recognise(key).expect("the key is recognised");
        assert_eq!((foreign.what.as_str(), foreign.translation.as_str()), (what, translation));
    }

    #[test]
    fn variables_of_other_languages_are_translated() {
        translated("${req.id}", "`${req.id}` is written without `$`", "{req.id}");
        translated("order:${req.id}:x", "`${req.id}` is written without `$`", "order:{req.id}:x");
        translated("$.orderId", "`$` is not a parameter", "req.order_id");
        translated("$.items[0].id", "`$` is not a parameter", "req.items.first()?.id");
        translated("#ids[0]", "`#ids` is written without `#`", "ids.first()?");
        translated("o:$id", "`$id` does not stand for a parameter", "o:{id}");
        translated("o:<a.b>", "`<a.b>` does not stand for a parameter", "o:{a.b}");
        translated("/o/:id", "`:id` does not stand for a parameter", "/o/{id}");
        translated("@id", "`@id` does not stand for a parameter", "id");
        translated("#p0", "`#p0` does not name a parameter", "req.order_id");
        translated("o:%s", "`%s` does not stand for a parameter", "o:{req.order_id}");
        let two = "o:{req.order_id}:{req.item}";
        translated("o:%d:%d", "`%d` does not stand for a parameter", two);
        translated("#{req.id}", "`#{req.id}` is written without `#`", "{req.id}");
        translated("order:#{req.id}", "`#{req.id}` is written without `#`", "order:{req.id}");
        translated("#req.orderId", "`#req.orderId` is written without `#`", "req.order_id");
        translated("'order:' + #req.id", "`#req.id` is written without `#`", "order:{req.id}");
    }

    #[test]
    fn a_hash_that_is_text_is_left_alone() {
        for key in ["order#{req.id}", "req.id", "{req.id}", "#", "a#b", "{a}#b"] {
            assert_eq!(recognise(key), None, "{key}");
        }
    }
}
