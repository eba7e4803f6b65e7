//! Statements with their parameters written into them, so that several can be sent as one.
//!
//! Integers are written in digits, byte strings and texts as hexadecimal digits of their bytes. Only a
//! text of letters, digits and a few marks that mean nothing in a string is written as it is.

use super::{Database, Param, Statement};
use std::fmt::Write as _;

/// One text for several statements.
pub(crate) fn script(database: Database, statements: &[Statement<'_>]) -> String {
    let mut text = String::new();
    for (at, statement) in statements.iter().enumerate() {
        if at > 0 {
            text.push_str("; ");
        }
        push(&mut text, database, statement);
    }
    text
}

/// Appends a statement. A placeholder is `$` with digits, or a bare `?`; the statements of this
/// crate have neither in a string.
fn push(text: &mut String, database: Database, statement: &Statement<'_>) {
    let mark = if database == Database::Postgres { '$' } else { '?' };
    let mut rest = statement.text;
    let mut next = 0;
    while let Some(at) = rest.find(mark) {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let digits = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
        let number = match rest[..digits].parse::<usize>() {
            Ok(number) => number - 1,
            Err(_) => next,
        };
        rest = &rest[digits..];
        next = number + 1;
        match statement.params.get(number) {
            Some(param) => push_literal(text, database, param),
            // Refused by the database, as a missing parameter is.
            None => text.push(mark),
        }
    }
    text.push_str(rest);
}

fn push_literal(text: &mut String, database: Database, param: &Param<'_>) {
    let is_postgres = database == Database::Postgres;
    match (param, is_postgres) {
        (Param::Integer(Some(value)), true) => {
            let _ = write!(text, "({value})::bigint");
        }
        // MySQL takes digits alone after LIMIT; behind a sign, a negative number needs parentheses.
        (Param::Integer(Some(value @ 0..)), false) => {
            let _ = write!(text, "{value}");
        }
        (Param::Integer(Some(value)), false) => {
            let _ = write!(text, "({value})");
        }
        // Read by the parser. `decode` would be a function to be planned, and called.
        (Param::Bytes(Some(bytes)), true) => hex(text, "E'\\\\x", bytes, "'::bytea"),
        (Param::Bytes(Some(bytes)), false) => hex(text, "x'", bytes, "'"),
        (Param::Text(Some(value)), true) if value.bytes().all(is_plain) => {
            let _ = write!(text, "'{value}'::text");
        }
        (Param::Text(Some(value)), true) => {
            hex(text, "convert_from(decode('", value.as_bytes(), "', 'hex'), 'UTF8')");
        }
        (Param::Text(Some(value)), false) => {
            hex(text, "CONVERT(x'", value.as_bytes(), "' USING utf8mb4)");
        }
        (Param::Integer(None), true) => text.push_str("NULL::bigint"),
        (Param::Bytes(None), true) => text.push_str("NULL::bytea"),
        (Param::Text(None), true) => text.push_str("NULL::text"),
        (_, false) => text.push_str("NULL"),
    }
}

/// `true` for a character that means itself in a string of any database, whatever its settings.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" .:_-#".contains(&byte)
}

fn hex(text: &mut String, before: &str, bytes: &[u8], after: &str) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.reserve(before.len() + 2 * bytes.len() + after.len());
    text.push_str(before);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push_str(after);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Preparation;

    fn written(database: Database, text: &str, params: &[Param<'_>]) -> String {
        script(database, &[Statement { text, params, preparation: Preparation::Unnamed }])
    }

    #[test]
    fn parameters_are_digits() {
        let params = [Param::from(-7), Param::from("'; DROP"), Param::from(&b"\xff\0"[..])];
        assert_eq!(
            written(Database::Postgres, "SELECT $3, $1, $2", &params),
            "SELECT E'\\\\xff00'::bytea, (-7)::bigint, \
             convert_from(decode('273b2044524f50', 'hex'), 'UTF8')"
        );
        assert_eq!(
            written(Database::MySql, "SELECT ?, ?, ?", &params),
            "SELECT (-7), CONVERT(x'273b2044524f50' USING utf8mb4), x'ff00'"
        );
    }

    #[test]
    fn missing_values_have_a_type_where_the_database_needs_one() {
        let params = [Param::Bytes(None), Param::Integer(None), Param::Text(None)];
        let text = written(Database::Postgres, "SELECT $1, $2, $3", &params);
        assert_eq!(text, "SELECT NULL::bytea, NULL::bigint, NULL::text");
        assert_eq!(written(Database::MySql, "SELECT ?, ?, ?", &params), "SELECT NULL, NULL, NULL");
    }
}
