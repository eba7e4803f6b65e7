//! Durations: integers are seconds, strings carry their units, anything else is a constant.
//!
//! Files and the environment of the runtime read the same strings; `tests/durations.txt` lists them
//! for both.

mod text;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Expr, ExprUnary, Lit, LitInt, LitStr, Member, UnOp};

use self::text::{ALL_UNITS, Refused, endless, millis, shortest, smaller_unit, translated};
pub(crate) use self::text::{configured, installed, is_placeholder, shortest_millis};
use super::{Value, literal};
use crate::mistake::mistake;
use crate::source::source;

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

impl Value for Length {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        match Duration::read(name, value)? {
            Duration::Millis(0) => {
                let what = format!("`{name}` must not be zero");
                let help = match name == "expire" {
                    true => format!("`{name} = \"5m\"`; {}", endless(name)),
                    false => endless(name),
                };
                Err(mistake(value, what, help))
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

    /// The constant, if the length is one.
    pub(crate) fn constant(&self) -> Option<&Expr> {
        self.0.constant()
    }
}

impl Wait {
    /// The constant, if the time is one.
    pub(crate) fn constant(&self) -> Option<&Expr> {
        self.0.constant()
    }
}

impl Value for Wait {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        Duration::read(name, value).map(Self)
    }
}

impl Duration {
    fn constant(&self) -> Option<&Expr> {
        match self {
            Self::Constant(expr) => Some(expr),
            Self::Millis(_) => None,
        }
    }

    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        if let Some(error) = unit_of_number(name, value) {
            return Err(error);
        }
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
                    "1" => endless(name),
                    positive => format!("`{name} = {positive}`"),
                };
                Err(mistake(value, what, help))
            }
            (Expr::Path(path), _) if path.path.is_ident("None") => {
                let what = format!("`{name}` takes a duration");
                Err(mistake(value, what, format!("leave `{name}` out; {}", endless(name))))
            }
            (Expr::Call(call), _) if call.args.len() == 1 && source(&call.func) == "Some" => {
                let help = format!("`{name} = {}`", source(&call.args));
                Err(mistake(value, format!("`{name}` takes a duration"), help))
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
            (_, Some(Lit::Bool(switch))) => {
                let what = format!("`{name}` takes a duration");
                let help = match (name.to_string().as_str(), switch.value) {
                    ("wait", false) => "not to wait: `wait = 0`".to_owned(),
                    (_, false) => format!("leave `{name}` out; {}", endless(name)),
                    (_, true) => crate::args::find(&name.to_string())
                        .map_or_else(String::new, |known| format!("`{}`", known.example)),
                };
                Err(mistake(value, what, help))
            }
            (_, Some(_))
            | (Expr::Closure(_) | Expr::Tuple(_) | Expr::Reference(_) | Expr::Range(_), None) => {
                Err(mistake(
                    value,
                    format!("`{name}` takes a duration"),
                    format!("`{name} = \"5m\"`"),
                ))
            }
            _ => Ok(Self::Constant(value.clone())),
        }
    }
}

/// The error for `10.minutes` and `10.minutes()`, as in Ruby and Kotlin. Numbers have no such constants.
fn unit_of_number(name: &Ident, value: &Expr) -> Option<syn::Error> {
    let (number, unit) = match value {
        Expr::Field(field) => match &field.member {
            Member::Named(unit) => (&*field.base, unit),
            Member::Unnamed(_) => return None,
        },
        Expr::MethodCall(call) if call.args.is_empty() => (&*call.receiver, &call.method),
        _ => return None,
    };
    let number = match literal(number)? {
        Lit::Int(number) => number.base10_digits().to_owned(),
        Lit::Float(number) => number.base10_digits().to_owned(),
        _ => return None,
    };
    let short = translated(&format!("1 {unit}"));
    let short = short.as_deref().and_then(|text| text.strip_prefix('1'));
    let help = match (translated(&format!("{number} {unit}")), short) {
        (Some(text), _) => format!("`{name} = \"{text}\"`"),
        (None, Some(short)) => smaller_unit(name, &number, short),
        (None, None) if matches!(value, Expr::Field(_)) => format!("`{name} = \"5m\"`"),
        (None, None) => return None,
    };
    Some(mistake(value, format!("the unit of `{name}` stands in quotes, with its number"), help))
}

fn from_integer(name: &Ident, seconds: &LitInt) -> syn::Result<u64> {
    let suffix = seconds.suffix();
    let is_type = suffix.is_empty() || suffix.starts_with(['u', 'i']);
    if !is_type {
        let help = match translated(&seconds.to_string()) {
            Some(text) => format!("`{name} = \"{text}\"`"),
            None => {
                format!("the units are {ALL_UNITS}: `{name} = \"{}s\"`", seconds.base10_digits())
            }
        };
        return Err(mistake(seconds, format!("`{seconds}` needs quotes"), help));
    }
    let number = seconds.base10_parse::<u64>().ok();
    let millis = number.and_then(|number| number.checked_mul(1_000));
    match (number, millis) {
        (Some(number), Some(_)) if number > longest_without_unit(name) => {
            let what = format!("`{name} = {seconds}` is {number} seconds, and needs its unit");
            let (millis, whole) = (shortest_millis(number), shortest(number));
            let help = match name == "lease" && number > LONGEST_LEASE {
                true => format!("for milliseconds `{name} = \"{millis}\"`; the longest is `24h`"),
                false => format!(
                    "for milliseconds `{name} = \"{millis}\"`, for seconds `{name} = \"{whole}\"`"
                ),
            };
            Err(mistake(seconds, what, help))
        }
        (_, Some(millis)) => Ok(millis),
        (_, None) => Err(too_long(name, seconds)),
    }
}

/// The longest lease in seconds.
const LONGEST_LEASE: u64 = 24 * 60 * 60;

/// The largest number of seconds that is taken without a unit. More is likely to be milliseconds:
/// nobody waits for the 83 minutes that `wait = 5000` says.
fn longest_without_unit(name: &Ident) -> u64 {
    match name.to_string().as_str() {
        "wait" | "lease" => 999,
        "max_run" => 24 * 60 * 60,
        _ => 366 * 24 * 60 * 60,
    }
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

fn too_long(name: &Ident, at: impl ToTokens) -> syn::Error {
    mistake(at, format!("`{name}` is too long"), format!("`{name} = \"3650d\"`"))
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
    fn a_number_that_looks_like_milliseconds_needs_its_unit() {
        let refused = |name: &str, value: Expr| Wait::read(&format_ident!("{name}"), &value).err();
        let error = refused("wait", parse_quote!(5000)).unwrap().to_string();
        assert_eq!(
            error,
            "`wait = 5000` is 5000 seconds, and needs its unit\n\
             help: for milliseconds `wait = \"5s\"`, for seconds `wait = \"5000s\"`"
        );
        for (name, most) in
            [("wait", 999), ("lease", 999), ("max_run", 86_400), ("expire", 31_622_400)]
        {
            let (most, more): (u64, u64) = (most, most + 1);
            assert!(refused(name, parse_quote!(#most)).is_none(), "{name}");
            assert!(refused(name, parse_quote!(#more)).is_some(), "{name}");
        }
    }

    #[test]
    fn zero_is_refused_except_for_wait() {
        let help = "`expire = \"5m\"`; every record ends; ten years: `expire = \"3650d\"`";
        error(parse_quote!(0), "`expire` must not be zero", help);
        error(parse_quote!("0ms"), "`expire` must not be zero", help);
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
            ("1 hour and 30 min", "hour and", "1h30m"),
        ] {
            error(
                parse_quote!(#text),
                &format!("unknown unit `{unit}` in `\"{text}\"`"),
                &format!("the units are {ALL_UNITS}: `expire = \"{help}\"`"),
            );
        }
        error(parse_quote!("1h 30m"), "`\"1h 30m\"` has a space in it", "`expire = \"1h30m\"`");
        error(
            parse_quote!("5x"),
            "unknown unit `x` in `\"5x\"`",
            "the units are `ms`, `s`, `m`, `h`, `d`: `expire = \"5m\"`",
        );
    }

    #[test]
    fn a_unit_without_quotes_is_answered_with_quotes() {
        let value: Expr = syn::parse_str("5m").unwrap();
        error(value, "`5m` needs quotes", "`expire = \"5m\"`");
        let value: Expr = syn::parse_str("5min").unwrap();
        error(value, "`5min` needs quotes", "`expire = \"5m\"`");
        let value: Expr = syn::parse_str("5x").unwrap();
        error(
            value,
            "`5x` needs quotes",
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
