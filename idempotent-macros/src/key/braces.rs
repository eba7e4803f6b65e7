//! Braces that are text in a message, as those of JSON.

use syn::{Expr, ExprTuple, LitStr};

/// The first braces that are text, and the literal with such braces doubled. Holes with a path in them stay.
pub(super) fn doubled(template: &LitStr) -> Option<(String, String)> {
    let text = template.value();
    if text.contains("{{") {
        // The user knows.
        return None;
    }
    let mut first = None;
    let doubled = double(&text, &mut first, false)?;
    Some((first?, like(template, &doubled)))
}

/// The text with the braces doubled that are text. `inside` says that the text is in such braces itself.
fn double(text: &str, first: &mut Option<String>, inside: bool) -> Option<String> {
    let Some(open) = text.find('{') else {
        return (!text.contains('}')).then(|| text.to_owned());
    };
    let close = open + partner(&text[open..])?;
    let (before, content, after) = (&text[..open], &text[open + 1..close], &text[close + 1..]);
    if before.contains('}') {
        return None;
    }
    let braces = if is_path(content) {
        format!("{{{content}}}")
    } else if inside || is_text(content) {
        first.get_or_insert_with(|| text[open..=close].to_owned());
        format!("{{{{{}}}}}", double(content, first, true)?)
    } else {
        return None;
    };
    Some(format!("{before}{braces}{}", double(after, first, inside)?))
}

/// The position of the brace that closes the first one.
fn partner(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, letter)| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// Returns `true` for a path, which may have a format after it.
fn is_path(content: &str) -> bool {
    let (path, format) = content.split_once(':').unwrap_or((content, ""));
    // A space may fill a format, but is followed by an alignment.
    let is_value =
        format.strip_prefix(' ').is_some_and(|value| value.starts_with(char::is_alphanumeric));
    let is_path = matches!(
        syn::parse_str(path),
        Ok(Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_) | Expr::Try(_))
    );
    is_path && !is_value && !content.contains(['"', '\'', ','])
}

/// Returns `true` for what is not code and has quotes, spaces or colons in it.
fn is_text(content: &str) -> bool {
    let content = content.trim();
    content.contains(['"', '\'', ':', ' ', '\n'])
        && syn::parse_str::<Expr>(content).is_err()
        && syn::parse_str::<ExprTuple>(&format!("({content})")).is_err()
}

/// Another text in a literal of the same kind: raw if that is.
fn like(template: &LitStr, text: &str) -> String {
    let token = template.token().to_string();
    match (token.starts_with('r'), token.split_once('"'), token.rsplit_once('"')) {
        (true, Some((start, _)), Some((_, end))) => format!("{start}\"{text}\"{end}"),
        _ => LitStr::new(text, template.span()).token().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_doubled(template: &str, expected: &str) {
        let template: LitStr = syn::parse_str(template).unwrap();
        assert_eq!(doubled(&template).expect("text in braces").1, expected);
    }

    #[test]
    fn braces_of_json_are_doubled() {
        is_doubled(r##"r#"{"error": "duplicate"}"#"##, r##"r#"{{"error": "duplicate"}}"#"##);
        is_doubled(r#""{\"error\": 3}""#, r#""{{\"error\": 3}}""#);
        is_doubled(
            r##"r#"{"order": {req.id}, "of": {"user": "{user:?}"}, "none": {}}"#"##,
            r##"r#"{{"order": {req.id}, "of": {{"user": "{user:?}"}}, "none": {{}}}}"#"##,
        );
        is_doubled("\"{'error': 'duplicate'}\"", "\"{{'error': 'duplicate'}}\"");
        is_doubled("\"{code: 3}\"", "\"{{code: 3}}\"");
        is_doubled("\"{order exists} {id}\"", "\"{{order exists}} {id}\"");
    }

    #[test]
    fn other_braces_are_left_to_the_template() {
        for template in ["{id}", "{id: >8}", "{a, b}", "{a + 1}", "{{\"a\": 1}}", "{\"a\": 1", "{}"]
        {
            assert_eq!(doubled(&LitStr::new(template, proc_macro2::Span::call_site())), None);
        }
    }
}
