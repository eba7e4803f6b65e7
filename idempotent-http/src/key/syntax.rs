//! The text of a key: a quoted string with parameters, or bare.

use super::{invalid, parameters};
use idempotent_runtime::problem::Problem;

/// The longest key, in characters.
pub(crate) const MAX_LENGTH: usize = 255;

/// The grammar of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// A quoted string, as in the draft standard, or the bare text.
    Lenient,
    /// A quoted string with parameters, both as in RFC 9651.
    Strict,
}

/// Parses the value of a header.
pub(crate) fn parse(line: &[u8], syntax: Syntax) -> Result<String, Problem> {
    let text = std::str::from_utf8(line.trim_ascii()).map_err(|_| not_ascii())?;
    match (text.strip_prefix('"'), syntax) {
        (Some(rest), _) => quoted(rest, syntax),
        (None, Syntax::Strict) if !text.is_empty() => {
            Err(invalid("the key must be a quoted string"))
        }
        (None, _) => bare(text),
    }
}

/// Parses the rest of a quoted string. Parameters are ignored.
fn quoted(rest: &str, syntax: Syntax) -> Result<String, Problem> {
    let plain = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\'));
    let (plain, rest) = rest.split_at(plain.unwrap_or(rest.len()));
    let mut key = plain.to_owned();
    let mut characters = rest.chars();
    loop {
        match characters.next() {
            None => return Err(invalid("the quotes of the key are not closed")),
            Some('"') => break,
            Some('\\') => match characters.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err(invalid("the key holds an escape that does not exist")),
            },
            Some(character) => key.push(character),
        }
    }
    let rest = characters.as_str();
    match syntax {
        _ if rest.is_empty() => {}
        Syntax::Strict if parameters::are_well_formed(rest) => {}
        Syntax::Strict => return Err(invalid("what follows the key is malformed")),
        Syntax::Lenient if is_one_member(rest.trim_start_matches([' ', '\t'])) => {}
        Syntax::Lenient => return Err(invalid("more than one key is given")),
    }
    checked(key)
}

/// Returns `true` if the text can be parameters of the string before it, well-formed or not. A
/// comma outside of quotes begins another key, and so may a quote that is not part of a value or is
/// never closed.
fn is_one_member(rest: &str) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    // The last character that is neither quoted nor space.
    let mut before = '"';
    for character in rest.chars() {
        if is_quoted {
            match character {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '"' => is_quoted = false,
                _ => {}
            }
            continue;
        }
        match character {
            ' ' | '\t' => continue,
            ';' => {}
            _ if before == '"' => return false,
            ',' => return false,
            '"' if before != '=' => return false,
            '"' => is_quoted = true,
            _ => {}
        }
        before = character;
    }
    !is_quoted
}

fn bare(text: &str) -> Result<String, Problem> {
    if text.contains([',', ' ', '\t']) {
        return Err(invalid("more than one key is given"));
    }
    if text.contains(['"', ';']) {
        return Err(invalid("a key with quotes or semicolons must be a quoted string"));
    }
    checked(text.to_owned())
}

pub(crate) fn checked(key: String) -> Result<String, Problem> {
    if key.is_empty() {
        return Err(invalid("the key is empty"));
    }
    if !key.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        return Err(not_ascii());
    }
    if key.len() > MAX_LENGTH {
        return Err(invalid("the key is longer than 255 characters"));
    }
    Ok(key)
}

fn not_ascii() -> Problem {
    invalid("the key holds characters that are not printable ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lenient(line: &str) -> Option<String> {
        parse(line.as_bytes(), Syntax::Lenient).ok()
    }

    fn strict(line: &str) -> Option<String> {
        parse(line.as_bytes(), Syntax::Strict).ok()
    }

    #[test]
    fn quoted_bare_and_with_parameters_are_one_key() {
        for line in ["\"k\"", "k", "\"k\";p=1", "  \"k\" ; p=1", "\tk ", r#""k";p="a, \", b""#] {
            assert_eq!(lenient(line).as_deref(), Some("k"), "{line}");
        }
        assert_eq!(lenient(r#""a\"b\\c""#).as_deref(), Some(r#"a"b\c"#));
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        let long = "x".repeat(256);
        let bad = [
            "",
            "\"\"",
            "  ",
            "\"open",
            r#""bad\escape""#,
            "a, b",
            "a b",
            "\"a\", \"b\"",
            "\"a\";p=1, \"b\"",
            r#""a";p="\"", "b""#,
            "\"a\" b",
            "k;p=1",
            "schlüssel",
            "\"schlüssel\"",
            &long,
        ];
        for line in bad {
            assert_eq!(lenient(line), None, "{line}");
        }
        assert_eq!(lenient(&"x".repeat(255)).map(|key| key.len()), Some(255));
        assert!(parse(b"\xff\xfe", Syntax::Lenient).is_err());
        assert!(parse(b"a\x07b", Syntax::Lenient).is_err());
    }

    #[test]
    fn what_may_be_a_second_key_is_refused_in_any_case() {
        for line in [
            r#""a"; "b""#,
            r#""a";p "b""#,
            r#""a";p="x"b"#,
            r#""a";p="x" "b""#,
            r#""a";p="open"#,
            r#""a";p=1,"#,
        ] {
            assert_eq!((lenient(line), strict(line)), (None, None), "{line}");
        }
    }

    #[test]
    fn malformed_parameters_are_refused_where_keys_are_strict() {
        for line in [r#""k";;"#, r#""k";"#, r#""k"; =1"#, r#""k";P=1"#, r#""k";a="#, r#""k" ;a=1"#]
        {
            assert_eq!((lenient(line).as_deref(), strict(line)), (Some("k"), None), "{line}");
        }
        for line in [r#""k";p=1"#, r#""k"; p"#, r#""k";p="a, b";*q=?0"#, r#"  "k";p=1  "#] {
            assert_eq!(strict(line).as_deref(), Some("k"), "{line}");
        }
    }

    #[test]
    fn strict_keys_are_quoted() {
        assert_eq!(strict("k"), None);
        assert_eq!(strict("\"k\"").as_deref(), Some("k"));
    }
}
