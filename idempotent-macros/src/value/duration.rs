//! Durations: integers are seconds, strings carry their units, anything else is a constant.
//!
//! Files and the environment of the runtime read the same strings; `tests/durations.txt` lists them
//! for both.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Expr, ExprUnary, Lit, LitInt, LitStr, UnOp};

use super::{Value, literal};
use crate::list::source;
use crate::mistake::mistake;

/// A duration that is not zero.
#[derive(Debug)]
pub(crate) struct Length(Duration);

/// A time to wait; zero means not to wait.
#[derive(Debug)]
pub(crate) struct Wait(Duration);

#[derive(Debug)]
enum Duration {
    Millis(u64),
    /// A constant expression of type `Duration`.
    Constant(Expr),
}

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const ALL_UNITS: &str = "`ms`, `s`, `m`, `h`, `d`";

impl Value for Length {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        match Duration::read(name, value)? {
            Duration::Millis(0) => {
                let what = format!("`{name}` must not be zero");
                Err(mistake(value, what, format!("`{name} = \"5m\"`")))
            }
            duration => Ok(Self(duration)),
        }
    }
}

impl Length {
    /// The length, if it is known here: a constant is not.
    pub(crate) fn millis(&self) -> Option<u64> {
        match self.0 {
            Duration::Millis(millis) => Some(millis),
            Duration::Constant(_) => None,
        }
    }

    /// The name in `expire = TTL`.
    pub(crate) fn word(&self) -> Option<&Ident> {
        self.0.word()
    }
}

impl Wait {
    /// The name in `wait = WAIT`.
    pub(crate) fn word(&self) -> Option<&Ident> {
        self.0.word()
    }
}

impl Value for Wait {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        Duration::read(name, value).map(Self)
    }
}

impl Duration {
    fn word(&self) -> Option<&Ident> {
        match self {
            Self::Constant(Expr::Path(path)) => path.path.get_ident(),
            _ => None,
        }
    }

    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        match (value, literal(value)) {
            (Expr::Paren(paren), _) => Self::read(name, &paren.expr),
            (_, Some(Lit::Int(seconds))) => from_integer(name, seconds).map(Self::Millis),
            (_, Some(Lit::Str(text))) => from_text(name, text).map(Self::Millis),
            (_, Some(Lit::Float(float))) => {
                let help = smaller_unit(name, float.base10_digits(), "s");
                Err(mistake(float, format!("`{name}` takes whole seconds"), help))
            }
            (Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }), _) => {
                let what = format!("`{name}` must not be negative");
                let help = match source(expr).as_str() {
                    // As in the commands of Redis.
                    "1" => format!("nothing is kept forever; for a long time: `{name} = \"365d\"`"),
                    positive => format!("`{name} = {positive}`"),
                };
                Err(mistake(value, what, help))
            }
            (Expr::Binary(_), _) => {
                let what =
                    format!("`{name}` takes a number or a string with a unit, not arithmetic");
                let help = match product(value) {
                    Some(seconds) => format!("`{name} = \"{}\"`", shortest(seconds)),
                    None => format!("`{name} = \"24h\"`"),
                };
                Err(mistake(value, what, help))
            }
            (Expr::Path(path), _)
                if path.path.segments.first().is_some_and(|s| s.ident == "Self") =>
            {
                let what = format!("`{name}` is fixed for all types, so it cannot use `Self`");
                let help = "name the type that the constant belongs to";
                Err(mistake(&path.path.segments[0], what, help))
            }
            (_, Some(_)) | (Expr::Closure(_) | Expr::Tuple(_) | Expr::Reference(_), None) => Err(
                mistake(value, format!("`{name}` takes a duration"), format!("`{name} = \"5m\"`")),
            ),
            _ => Ok(Self::Constant(value.clone())),
        }
    }
}

fn from_integer(name: &Ident, seconds: &LitInt) -> syn::Result<u64> {
    let suffix = seconds.suffix();
    let is_type = suffix.is_empty() || suffix.starts_with(['u', 'i']);
    if !is_type {
        let help = match UNITS.iter().any(|(unit, _)| *unit == suffix) {
            true => format!("`{name} = \"{seconds}\"`"),
            false => {
                format!("the units are {ALL_UNITS}: `{name} = \"{}s\"`", seconds.base10_digits())
            }
        };
        return Err(mistake(seconds, format!("`{seconds}` needs quotes"), help));
    }
    seconds
        .base10_parse::<u64>()
        .ok()
        .and_then(|seconds| seconds.checked_mul(1_000))
        .ok_or_else(|| too_long(name, seconds))
}

fn from_text(name: &Ident, text: &LitStr) -> syn::Result<u64> {
    let value = text.value();
    millis(&value).map_err(|refused| {
        let (what, help) = refused.explain(name, &value);
        match refused {
            Refused::TooLong => too_long(name, text),
            _ => mistake(text, what, help),
        }
    })
}

/// The reason for which a text is not a duration.
#[derive(Debug, PartialEq, Eq)]
enum Refused<'a> {
    NoNumber,
    Negative(&'a str),
    NoUnit(&'a str),
    UnknownUnit { number: &'a str, unit: &'a str },
    Fraction { number: &'a str, unit: &'a str },
    OutOfOrder,
    TooLong,
}

/// Reads whole numbers with their units, from the largest unit to the smallest: `90s`, `1h30m`.
fn millis(text: &str) -> Result<u64, Refused<'_>> {
    let mut rest = text;
    let mut sum = 0_u64;
    let mut smallest = None;
    loop {
        let is_number = |c: char| matches!(c, '0'..='9' | '.' | '_' | '-');
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let (unit, after) =
            after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        if number.is_empty() {
            return Err(Refused::NoNumber);
        }
        if let Some(positive) = number.strip_prefix('-') {
            return Err(Refused::Negative(positive));
        }
        if unit.is_empty() {
            return Err(Refused::NoUnit(number));
        }
        let Some((_, factor)) = UNITS.iter().find(|(known, _)| *known == unit) else {
            return Err(Refused::UnknownUnit { number, unit });
        };
        if number.contains('.') {
            return Err(Refused::Fraction { number, unit });
        }
        let digits = number.replace('_', "");
        if !number.starts_with(|c: char| c.is_ascii_digit()) || digits.contains('-') {
            return Err(Refused::NoNumber);
        }
        if smallest.is_some_and(|smallest| *factor >= smallest) {
            return Err(Refused::OutOfOrder);
        }
        smallest = Some(*factor);
        let length = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
        sum = length.and_then(|length| sum.checked_add(length)).ok_or(Refused::TooLong)?;
        if after.is_empty() {
            return Ok(sum);
        }
        rest = after;
    }
}

impl Refused<'_> {
    /// The problem, and a help that can be typed.
    fn explain(&self, name: &Ident, value: &str) -> (String, String) {
        let proposal = translated(value);
        let propose = |other: String| match &proposal {
            Some(text) => format!("`{name} = \"{text}\"`"),
            None => other,
        };
        match self {
            Self::NoNumber | Self::TooLong => {
                let is_constant = value.contains(char::is_uppercase)
                    && syn::parse_str::<syn::ExprPath>(value).is_ok();
                let help = match is_constant && proposal.is_none() {
                    true => format!("a constant stands without quotes: `{name} = {value}`"),
                    false => propose(format!("`{name} = \"5m\"`")),
                };
                (format!("`\"{value}\"` is not a duration"), help)
            }
            Self::Negative(positive) => {
                let unit = &value[1 + positive.len()..];
                let help = format!("`{name} = \"{positive}{unit}\"`");
                (format!("`{name}` must not be negative"), help)
            }
            Self::NoUnit(number) if *number == value => {
                let help = format!("`{name} = \"{number}s\"`, or `{name} = {number}` for seconds");
                (format!("`\"{value}\"` has no unit"), help)
            }
            Self::NoUnit(number) => {
                let what = format!("`{number}` has no unit in `\"{value}\"`");
                (what, format!("the units are {ALL_UNITS}: `{name} = \"{value}m\"`"))
            }
            Self::UnknownUnit { unit, .. } => {
                let what = format!("unknown unit `{}` in `\"{value}\"`", unit.trim());
                let help = match &proposal {
                    Some(text) => format!("the units are {ALL_UNITS}: `{name} = \"{text}\"`"),
                    None => format!("the units are {ALL_UNITS}"),
                };
                (what, help)
            }
            Self::Fraction { number, unit } => {
                let what = format!("`\"{value}\"` is not a whole number of `{unit}`");
                (what, smaller_unit(name, number, unit))
            }
            Self::OutOfOrder => {
                let what = format!("the units of `\"{value}\"` are not in order");
                (what, format!("the largest first, and each once: `{name} = \"1h30m\"`"))
            }
        }
    }
}

fn too_long(name: &Ident, at: impl ToTokens) -> syn::Error {
    mistake(at, format!("`{name}` is too long"), format!("`{name} = \"3650d\"`"))
}

/// `5m` for `5 minutes`, `1h30m` for `1 hour 30 min` and `PT1H30M`.
fn translated(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let text = match text.strip_prefix('p') {
        Some(iso) => iso.replace('t', ""),
        None => text,
    };
    let mut rest = text.as_str();
    let mut short = String::new();
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '_';
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let (word, after) =
            after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let word = word.trim().trim_end_matches("and").trim_end_matches([',', ' ']);
        let number = number.replace('_', "").parse::<u64>().ok()?;
        short.push_str(&match word {
            word if word.starts_with("mil") || word.starts_with("ms") => format!("{number}ms"),
            word if word.starts_with("mo") => format!("{}d", number.checked_mul(30)?),
            word if word.starts_with('m') => format!("{number}m"),
            word if word.starts_with('s') => format!("{number}s"),
            word if word.starts_with('h') => format!("{number}h"),
            word if word.starts_with('d') => format!("{number}d"),
            word if word.starts_with('w') => format!("{}d", number.checked_mul(7)?),
            word if word.starts_with('y') => format!("{}d", number.checked_mul(365)?),
            _ => return None,
        });
        rest = after;
    }
    millis(&short).is_ok().then_some(short)
}

/// The value of a product of integers such as `24 * 60 * 60`.
fn product(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Paren(paren) => product(&paren.expr),
        Expr::Binary(binary) if matches!(binary.op, syn::BinOp::Mul(_)) => {
            product(&binary.left)?.checked_mul(product(&binary.right)?)
        }
        _ => match literal(expr)? {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
    }
}

/// Seconds in the largest unit that divides them.
fn shortest(seconds: u64) -> String {
    let units = UNITS.iter().rev().filter(|(_, millis)| millis.is_multiple_of(1_000));
    let mut whole = units.filter(|(_, millis)| seconds.is_multiple_of(millis / 1_000));
    whole
        .next()
        .map_or_else(String::new, |(unit, millis)| format!("{}{unit}", seconds / (millis / 1_000)))
}

/// `"90m"` for `1.5` hours.
fn smaller_unit(name: &Ident, number: &str, unit: &str) -> String {
    let position = UNITS.iter().position(|(known, _)| *known == unit).unwrap_or_default();
    let whole = UNITS[..position].iter().rev().find_map(|(smaller, millis)| {
        let factor = UNITS[position].1 / millis;
        let number = number.replace('_', "").parse::<f64>().ok()? * factor as f64;
        (number.fract() == 0.0 && (1.0..1e15).contains(&number))
            .then(|| format!("{number}{smaller}"))
    });
    match whole {
        Some(text) => format!("`{name} = \"{text}\"`"),
        None => "write a whole number, in a smaller unit if need be".to_owned(),
    }
}

impl ToTokens for Duration {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let span = Span::mixed_site();
        tokens.extend(match self {
            Self::Millis(millis) if millis.is_multiple_of(1_000) => {
                let seconds = proc_macro2::Literal::u64_unsuffixed(millis / 1_000);
                quote_spanned!(span=> ::core::time::Duration::from_secs(#seconds))
            }
            Self::Millis(millis) => {
                let millis = proc_macro2::Literal::u64_unsuffixed(*millis);
                quote_spanned!(span=> ::core::time::Duration::from_millis(#millis))
            }
            Self::Constant(expr) => expr.to_token_stream(),
        });
    }
}

impl ToTokens for Length {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

impl ToTokens for Wait {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

#[cfg(test)]
mod tests {
    use quote::{format_ident, quote};
    use syn::parse_quote;

    use super::*;

    fn expire(value: Expr) -> Result<String, String> {
        Length::read(&format_ident!("expire"), &value)
            .map(|length| length.to_token_stream().to_string())
            .map_err(|error| error.to_string())
    }

    fn secs(seconds: u64) -> Result<String, String> {
        let seconds = proc_macro2::Literal::u64_unsuffixed(seconds);
        Ok(quote!(::core::time::Duration::from_secs(#seconds)).to_string())
    }

    fn millis(millis: u64) -> Result<String, String> {
        let millis = proc_macro2::Literal::u64_unsuffixed(millis);
        Ok(quote!(::core::time::Duration::from_millis(#millis)).to_string())
    }

    fn error(value: Expr, what: &str, help: &str) {
        assert_eq!(expire(value), Err(format!("{what}\nhelp: {help}")));
    }

    #[test]
    fn integers_are_seconds() {
        assert_eq!(expire(parse_quote!(300)), secs(300));
        assert_eq!(expire(parse_quote!(1_000)), secs(1_000));
        assert_eq!(expire(parse_quote!(0x10)), secs(16));
        assert_eq!(expire(parse_quote!(5u64)), secs(5));
    }

    #[test]
    fn strings_carry_their_unit() {
        assert_eq!(expire(parse_quote!("300ms")), millis(300));
        assert_eq!(expire(parse_quote!("2000ms")), secs(2));
        assert_eq!(expire(parse_quote!("30s")), secs(30));
        assert_eq!(expire(parse_quote!("5m")), secs(300));
        assert_eq!(expire(parse_quote!("24h")), secs(86_400));
        assert_eq!(expire(parse_quote!("7d")), secs(604_800));
        assert_eq!(expire(parse_quote!("1_000s")), secs(1_000));
        assert_eq!(expire(parse_quote!("1h30m")), secs(5_400));
        assert_eq!(expire(parse_quote!("1m30s500ms")), millis(90_500));
        assert_eq!(expire(parse_quote!((300))), secs(300));
    }

    #[test]
    fn several_units_stand_in_order() {
        error(
            parse_quote!("30m1h"),
            "the units of `\"30m1h\"` are not in order",
            "the largest first, and each once: `expire = \"1h30m\"`",
        );
        error(
            parse_quote!("1h30"),
            "`30` has no unit in `\"1h30\"`",
            "the units are `ms`, `s`, `m`, `h`, `d`: `expire = \"1h30m\"`",
        );
    }

    #[test]
    fn the_texts_that_files_and_the_environment_read_are_read_alike() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/durations.txt");
        let list = std::fs::read_to_string(path).unwrap();
        let lines = list.lines().filter_map(|line| line.strip_prefix('"')?.rsplit_once("\" "));
        let mut read = 0;
        for (text, expected) in lines {
            let literal = LitStr::new(text, Span::call_site());
            let millis = from_text(&format_ident!("wait"), &literal).map(|it| it.to_string());
            assert_eq!(millis.unwrap_or_else(|_| "refused".to_owned()), expected, "{text:?}");
            read += 1;
        }
        assert!(read > 40, "{read} lines");
    }

    #[test]
    fn constants_are_left_alone() {
        assert_eq!(expire(parse_quote!(TTL)), Ok("TTL".to_owned()));
        assert_eq!(
            expire(parse_quote!(Duration::from_secs(5))),
            Ok("Duration :: from_secs (5)".to_owned())
        );
    }

    #[test]
    fn zero_is_refused_except_for_wait() {
        error(parse_quote!(0), "`expire` must not be zero", "`expire = \"5m\"`");
        error(parse_quote!("0ms"), "`expire` must not be zero", "`expire = \"5m\"`");
        let wait = Wait::read(&format_ident!("wait"), &parse_quote!(0)).unwrap();
        assert_eq!(Ok(wait.to_token_stream().to_string()), secs(0));
    }

    #[test]
    fn negative_durations_are_refused() {
        error(parse_quote!(-5), "`expire` must not be negative", "`expire = 5`");
        error(parse_quote!("-5m"), "`expire` must not be negative", "`expire = \"5m\"`");
    }

    #[test]
    fn fractions_are_answered_with_a_smaller_unit() {
        error(parse_quote!(1.5), "`expire` takes whole seconds", "`expire = \"1500ms\"`");
        error(
            parse_quote!("1.5h"),
            "`\"1.5h\"` is not a whole number of `h`",
            "`expire = \"90m\"`",
        );
        error(
            parse_quote!("0.5d"),
            "`\"0.5d\"` is not a whole number of `d`",
            "`expire = \"12h\"`",
        );
        error(
            parse_quote!("0.5ms"),
            "`\"0.5ms\"` is not a whole number of `ms`",
            "write a whole number, in a smaller unit if need be",
        );
    }

    #[test]
    fn a_unit_is_required_in_a_string() {
        error(
            parse_quote!("300"),
            "`\"300\"` has no unit",
            "`expire = \"300s\"`, or `expire = 300` for seconds",
        );
    }

    #[test]
    fn other_units_are_translated() {
        for (text, unit, help) in [
            ("5min", "min", "5m"),
            ("5 minutes", "minutes", "5m"),
            ("10sec", "sec", "10s"),
            ("3hours", "hours", "3h"),
            ("2 days", "days", "2d"),
            ("1w", "w", "7d"),
            ("10msec", "msec", "10ms"),
            ("5M", "M", "5m"),
            ("1h 30m", "h", "1h30m"),
            ("1 hour and 30 min", "hour and", "1h30m"),
        ] {
            error(
                parse_quote!(#text),
                &format!("unknown unit `{unit}` in `\"{text}\"`"),
                &format!("the units are {ALL_UNITS}: `expire = \"{help}\"`"),
            );
        }
        error(
            parse_quote!("5x"),
            "unknown unit `x` in `\"5x\"`",
            "the units are `ms`, `s`, `m`, `h`, `d`",
        );
    }

    #[test]
    fn a_unit_without_quotes_is_answered_with_quotes() {
        let value: Expr = syn::parse_str("5m").unwrap();
        error(value, "`5m` needs quotes", "`expire = \"5m\"`");
        let value: Expr = syn::parse_str("5min").unwrap();
        error(
            value,
            "`5min` needs quotes",
            "the units are `ms`, `s`, `m`, `h`, `d`: `expire = \"5s\"`",
        );
    }

    #[test]
    fn overflow_is_refused() {
        for value in [
            parse_quote!(18446744073709551615),
            parse_quote!(99999999999999999999),
            parse_quote!("99999999999999999999s"),
            parse_quote!("18446744073709551615d"),
        ] {
            error(value, "`expire` is too long", "`expire = \"3650d\"`");
        }
    }

    #[test]
    fn other_things_are_not_durations() {
        for (text, help) in [
            ("", "5m"),
            ("five", "5m"),
            ("m", "5m"),
            ("h5", "5m"),
            ("PT90S", "90s"),
            ("P1DT2H", "1d2h"),
        ] {
            error(
                parse_quote!(#text),
                &format!("`\"{text}\"` is not a duration"),
                &format!("`expire = \"{help}\"`"),
            );
        }
        for value in
            [parse_quote!(true), parse_quote!('c'), parse_quote!((1, 2)), parse_quote!(|| 1)]
        {
            error(value, "`expire` takes a duration", "`expire = \"5m\"`");
        }
        error(
            parse_quote!(60 * 60),
            "`expire` takes a number or a string with a unit, not arithmetic",
            "`expire = \"1h\"`",
        );
        error(
            parse_quote!(Self::TTL),
            "`expire` is fixed for all types, so it cannot use `Self`",
            "name the type that the constant belongs to",
        );
    }
}
