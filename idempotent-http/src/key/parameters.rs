//! Parameters of an item, as RFC 9651 writes them: `;p=1;q="text";r`.

/// Returns `true` if the whole text consists of parameters.
pub(super) fn are_well_formed(text: &str) -> bool {
    let mut rest = Rest(text.as_bytes());
    while !rest.0.is_empty() {
        if parameter(&mut rest).is_none() {
            return false;
        }
    }
    true
}

/// The remaining text. Every parser consumes what it reads, and returns `None` if that is
/// malformed.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    fn take_while(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !is_wanted(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }
}

fn parameter(rest: &mut Rest<'_>) -> Option<()> {
    rest.take(b';')?;
    rest.take_while(|byte| byte == b' ');
    if !matches!(rest.next()?, b'a'..=b'z' | b'*') {
        return None;
    }
    rest.take_while(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
    match rest.0.first() {
        Some(b'=') => {
            rest.next();
            value(rest)
        }
        _ => Some(()),
    }
}

fn value(rest: &mut Rest<'_>) -> Option<()> {
    match rest.0.first()? {
        b'-' | b'0'..=b'9' => number(rest).map(drop),
        b'"' => string(rest),
        b'A'..=b'Z' | b'a'..=b'z' | b'*' => {
            rest.take_while(is_token);
            Some(())
        }
        b':' => binary(rest),
        b'?' => {
            rest.next();
            matches!(rest.next()?, b'0' | b'1').then_some(())
        }
        b'@' => {
            rest.next();
            matches!(number(rest)?, Number::Integer).then_some(())
        }
        b'%' => display_string(rest),
        _ => None,
    }
}

enum Number {
    Integer,
    Decimal,
}

fn number(rest: &mut Rest<'_>) -> Option<Number> {
    if rest.0.first() == Some(&b'-') {
        rest.next();
    }
    let whole = rest.take_while(|byte| byte.is_ascii_digit()).len();
    if rest.0.first() != Some(&b'.') {
        return (1..=15).contains(&whole).then_some(Number::Integer);
    }
    rest.next();
    let fraction = rest.take_while(|byte| byte.is_ascii_digit()).len();
    ((1..=12).contains(&whole) && (1..=3).contains(&fraction)).then_some(Number::Decimal)
}

fn string(rest: &mut Rest<'_>) -> Option<()> {
    rest.take(b'"')?;
    loop {
        match rest.next()? {
            b'"' => return Some(()),
            b'\\' if matches!(rest.next()?, b'"' | b'\\') => {}
            b'\\' => return None,
            0x20..=0x7e => {}
            _ => return None,
        }
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

/// Base64 between colons, with or without padding.
fn binary(rest: &mut Rest<'_>) -> Option<()> {
    rest.take(b':')?;
    let digits =
        rest.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')).len();
    let padding = rest.take_while(|byte| byte == b'=').len();
    rest.take(b':')?;
    let is_whole = match padding {
        0 => digits % 4 != 1,
        1 | 2 => (digits + padding).is_multiple_of(4),
        _ => false,
    };
    is_whole.then_some(())
}

/// Percent-encoded Unicode text: `%"f%c3%bcr"`.
fn display_string(rest: &mut Rest<'_>) -> Option<()> {
    rest.take(b'%')?;
    rest.take(b'"')?;
    let mut text = Vec::new();
    loop {
        match rest.next()? {
            b'"' => return std::str::from_utf8(&text).ok().map(drop),
            b'%' => text.push(hex(rest.next()?)? << 4 | hex(rest.next()?)?),
            byte @ 0x20..=0x7e => text.push(byte),
            _ => return None,
        }
    }
}

/// A hexadecimal digit; upper case is not allowed.
fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_read() {
        for text in [
            "",
            ";p",
            ";p;q",
            ";  p",
            ";*p_1-a.b*=1",
            ";p=-12",
            ";p=123456789012345",
            ";p=-123456789012.125",
            r#";p="""#,
            r#";p="a, b; \" \\ c""#,
            ";p=token:/a*;q=*",
            ";p=:aGVsbG8=:",
            ";p=:aGVsbG8:",
            ";p=::",
            ";p=?1;q=?0",
            ";p=@1659578233",
            r#";p=%"f%c3%bcr 100 %25""#,
        ] {
            assert!(are_well_formed(text), "{text}");
        }
    }

    #[test]
    fn what_rfc_9651_does_not_know_is_refused() {
        for text in [
            "p",
            ";",
            ";;",
            "; ",
            ";p;",
            "; =1",
            ";P=1",
            ";1=1",
            ";pQ=1",
            ";p=",
            ";p =1",
            ";p= 1",
            ";p=1 ",
            ";p=1;",
            ";p=-",
            ";p=1234567890123456",
            ";p=1234567890123.1",
            ";p=1.",
            ";p=.5",
            ";p=1.1234",
            r#";p="open"#,
            r#";p="\x""#,
            ";p=\"\u{e4}\"",
            ";p='a'",
            ";p=:a:",
            ";p=:aGVsbG8==:",
            ";p=:a-b_:",
            ";p=:aGVs",
            ";p=?2",
            ";p=@1.5",
            ";p=@",
            r#";p=%"%C3%BC""#,
            r#";p=%"%c3""#,
            r#";p=%"open"#,
            ";p=%a",
            ";p=1,",
            r#";p=1, "b""#,
        ] {
            assert!(!are_well_formed(text), "{text}");
        }
    }
}
