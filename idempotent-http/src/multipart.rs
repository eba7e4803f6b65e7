//! Parser for `multipart/form-data` bodies.
//!
//! A client generates a new boundary each time it sends a form. The payload consists of the parts
//! alone.

use crate::headers::has_media_type;
use http::header::{CONTENT_TYPE, HeaderMap};

/// The longest boundary, by RFC 2046.
const LONGEST_BOUNDARY: usize = 70;

/// The parts of a form, with its preamble before them and its epilogue after them. `None` if the body
/// is not a form in parts, or a malformed one.
pub(crate) fn parts<'a>(headers: &HeaderMap, body: &'a [u8]) -> Option<Vec<&'a [u8]>> {
    if !has_media_type(headers, "multipart/form-data") {
        return None;
    }
    split(body, &boundary(headers)?)
}

/// The values of the fields with this name. A malformed form has none.
pub(crate) fn fields(headers: &HeaderMap, body: &[u8], wanted: &str) -> Vec<String> {
    let parts = parts(headers, body).unwrap_or_default();
    let named = parts.into_iter().filter_map(field).filter(|(name, _)| name == wanted);
    named.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
}

/// The boundary that the content type names.
fn boundary(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (_, parameters) = text.split_once(';')?;
    let boundary = parameter(parameters, "boundary")?;
    (1..=LONGEST_BOUNDARY).contains(&boundary.len()).then_some(boundary)
}

/// The value of a parameter in `a=b; c="d"`; `None` if it is missing, malformed or given twice.
fn parameter(mut text: &str, wanted: &str) -> Option<String> {
    let mut found = None;
    while !text.trim().is_empty() {
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let (value, rest) = rest.split_at(rest.find(';').unwrap_or(rest.len()));
                (value.trim_end().to_owned(), rest)
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) && found.replace(value).is_some() {
            return None;
        }
        text = match rest.trim_start() {
            "" => "",
            rest => rest.strip_prefix(';')?,
        };
    }
    found
}

/// The text up to the closing quote, and the rest after it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(characters.next()?),
            character => value.push(character),
        }
    }
}

/// The preamble, the parts, and the epilogue.
fn split<'a>(body: &'a [u8], boundary: &str) -> Option<Vec<&'a [u8]>> {
    let delimiter = format!("\r\n--{boundary}");
    let delimiter = delimiter.as_bytes();
    // The first boundary has no line break before it, unless there is a preamble.
    let (before, mut rest) = match body.strip_prefix(&delimiter[2..]) {
        Some(rest) => (&body[..0], rest),
        None => cut(body, delimiter)?,
    };
    let mut parts = vec![before];
    loop {
        if let Some(after) = rest.strip_prefix(b"--") {
            parts.push(after);
            return Some(parts);
        }
        // White space may follow a boundary. With any other text it is a different boundary.
        let space = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
        let (part, next) = cut(rest[space..].strip_prefix(b"\r\n")?, delimiter)?;
        parts.push(part);
        rest = next;
    }
}

/// The text before and after `wanted`, which begins with a carriage return.
fn cut<'a>(text: &'a [u8], wanted: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut from = 0;
    loop {
        from += text[from..].iter().position(|byte| *byte == b'\r')?;
        if let Some(after) = text[from..].strip_prefix(wanted) {
            return Some((&text[..from], after));
        }
        from += 1;
    }
}

/// Name and value of a part that is a field.
fn field(part: &[u8]) -> Option<(String, &[u8])> {
    let (head, value) = cut(part, b"\r\n\r\n")?;
    let head = std::str::from_utf8(head).ok()?;
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    let (kind, parameters) = disposition.split_once(';')?;
    let is_field = kind.trim().eq_ignore_ascii_case("form-data");
    // Browsers write a quote in a name as `%22`.
    let name = parameter(parameters, "name").filter(|_| is_field)?.replace("%22", "\"");
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(content_type: &str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, content_type.parse().unwrap())])
    }

    fn form(boundary: &str, token: &str) -> String {
        format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"token\"\r\n\r\n{token}\r\n\
             --{boundary}\r\nContent-Disposition: form-data; filename=\"a;b\"; name=file\r\n\
             content-type: text/plain\r\n\r\none\r\ntwo\r\n--{boundary}--\r\n"
        )
    }

    #[test]
    fn the_boundary_is_a_token_or_quoted() {
        for (content_type, expected) in [
            ("multipart/form-data; boundary=abc", Some("abc")),
            ("multipart/form-data;charset=utf-8 ; Boundary=\"a b\"", Some("a b")),
            ("multipart/form-data; boundary=\"a\\\"b\"; x=y", Some("a\"b")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/form-data; boundary=\"open", None),
            ("multipart/form-data; boundary=a; boundary=b", None),
        ] {
            assert_eq!(boundary(&headers(content_type)).as_deref(), expected, "{content_type}");
        }
        let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
        assert_eq!(boundary(&headers(&long)), None);
    }

    #[test]
    fn parts_do_not_depend_on_the_boundary() {
        let read = |boundary: &str, body: &str| {
            let headers = headers(&format!("multipart/form-data; boundary={boundary}"));
            parts(&headers, body.as_bytes()).map(|parts| parts.concat())
        };
        let one = read("one", &form("one", "k-1"));
        assert!(one.is_some());
        assert_eq!(one, read("two", &form("two", "k-1")));
        assert_ne!(one, read("two", &form("two", "k-2")));
        assert_eq!(read("two", &form("one", "k-1")), None);
    }

    #[test]
    fn what_stands_around_the_parts_is_kept_and_what_is_malformed_is_refused() {
        let split = |text: &'static str| split(text.as_bytes(), "b");
        let parts = |all: &[&'static str]| Some(all.iter().map(|it| it.as_bytes()).collect());
        assert_eq!(split("--b--"), parts(&["", ""]));
        assert_eq!(split("--b\r\nx\r\n--b--"), parts(&["", "x", ""]));
        assert_eq!(split("pre\r\n--b \t\r\nx\r\n--b--post"), parts(&["pre", "x", "post"]));
        assert_eq!(split("--b\r\n\r\n--b\r\ny\r\n--b--"), parts(&["", "", "y", ""]));
        for bad in
            ["", "x", "--b", "--b\r\nx", "--b\r\nx\r\n--b", "--bc\r\nx\r\n--b--", "--b\nx\n--b--"]
        {
            assert_eq!(split(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn fields_are_found_by_their_name() {
        let headers = headers("multipart/form-data; boundary=b");
        let fields = |body: &str, name: &str| fields(&headers, body.as_bytes(), name);
        let body = form("b", "k-1");
        assert_eq!(fields(&body, "token"), ["k-1"]);
        assert_eq!(fields(&body, "file"), ["one\r\ntwo"]);
        assert!(fields(&body, "other").is_empty());
        assert!(fields("--b\r\nbroken", "token").is_empty());
    }
}
