//! Durations as text: whole numbers with their units, and help for other notations.

use proc_macro2::Ident;

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

pub(super) const ALL_UNITS: &str = "`ms`, `s`, `m`, `h`, `d`";

/// The reason for which a text is not a duration.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused<'a> {
    NoNumber,
    Negative(&'a str),
    NoUnit(&'a str),
    UnknownUnit { number: &'a str, unit: &'a str },
    Fraction { number: &'a str, unit: &'a str },
    OutOfOrder,
    TooLong,
}

/// Reads whole numbers with their units, from the largest unit to the smallest: `90s`, `1h30m`.
pub(super) fn millis(text: &str) -> Result<u64, Refused<'_>> {
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
    pub(super) fn explain(&self, name: &Ident, value: &str) -> (String, String) {
        if is_placeholder(value) {
            let what = format!("`\"{value}\"` is not a duration: nothing in it is replaced");
            return (what, configured(name, "time"));
        }
        let proposal = translated(value);
        let propose = |other: String| match &proposal {
            Some(text) => format!("`{name} = \"{text}\"`"),
            None => other,
        };
        match self {
            Self::NoNumber | Self::TooLong => {
                let is_constant = value.contains(char::is_uppercase)
                    && syn::parse_str::<syn::ExprPath>(value).is_ok();
                let is_endless = matches!(
                    value.to_lowercase().as_str(),
                    "never" | "forever" | "infinite" | "infinity" | "none" | "max" | "unlimited"
                );
                let help = match is_constant && proposal.is_none() && !is_endless {
                    _ if is_endless => endless(name),
                    true => format!("a constant stands without quotes: `{name} = {value}`"),
                    false => propose(format!("`{name} = \"5m\"`")),
                };
                (format!("`\"{value}\"` is not a duration"), help)
            }
            Self::Negative(positive) => {
                let unit = &value[1 + positive.len()..];
                let help = match value {
                    // As in the commands of Redis.
                    "-1" => endless(name),
                    _ => format!("`{name} = \"{positive}{unit}\"`"),
                };
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
                if proposal.as_deref() == Some(value.replace(' ', "").as_str()) {
                    let what = format!("`\"{value}\"` has a space in it");
                    return (what, propose(String::new()));
                }
                let what = format!("unknown unit `{}` in `\"{value}\"`", unit.trim());
                let help = match &proposal {
                    Some(text) => format!("the units are {ALL_UNITS}: `{name} = \"{text}\"`"),
                    None => format!("the units are {ALL_UNITS}: `{name} = \"5m\"`"),
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

/// Returns `true` for a text that other frameworks replace with a property: `${ttl}`, `#{ttl}`, `{ttl}`, `%s`.
pub(crate) fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    let is_printf = ["%s", "%d", "%v"].iter().any(|printf| text.contains(printf));
    let is_variable = text.starts_with(['$', '%', '@']) && text.chars().any(char::is_alphabetic);
    is_printf || is_variable || text.contains('{')
}

/// Help for a value that is known only when the program starts. `value` is a variable that has it.
pub(crate) fn configured(name: &Ident, value: &str) -> String {
    format!(
        "for a value that is known only when the program starts, leave `{name}` out, and set it for all functions: {}",
        installed(&format!("with_{name}({value})"))
    )
}

/// An instance with this setting in its configuration, for all functions.
pub(crate) fn installed(setting: &str) -> String {
    format!(
        "`idempotent_runtime::Idempotency::builder().config(idempotent_runtime::Config::new().{setting}).build()?.install()?`"
    )
}

/// Help for a time without an end.
pub(super) fn endless(name: &Ident) -> String {
    match name.to_string().as_str() {
        "wait" => "a duplicate waits for a limited time: `wait = \"30s\"`; as good as without a limit: `wait = \"24h\"`".to_owned(),
        "lease" => "a lease is renewed while the body runs: `lease = \"30s\"`".to_owned(),
        "max_run" => "a body that hangs frees its key: `max_run = \"24h\"`".to_owned(),
        _ => format!("every record ends; ten years: `{name} = \"3650d\"`"),
    }
}

/// `5m` for `5 minutes`, `1h30m` for `1 hour 30 min` and `PT1H30M`.
pub(super) fn translated(text: &str) -> Option<String> {
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
        let word =
            word.trim_matches([' ', '_']).trim_end_matches("and").trim_end_matches([',', ' ']);
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

/// Seconds in the largest unit that divides them.
pub(super) fn shortest(seconds: u64) -> String {
    let units = UNITS.iter().rev().filter(|(_, millis)| millis.is_multiple_of(1_000));
    let mut whole = units.filter(|(_, millis)| seconds.is_multiple_of(millis / 1_000));
    whole
        .next()
        .map_or_else(String::new, |(unit, millis)| format!("{}{unit}", seconds / (millis / 1_000)))
}

/// Milliseconds in the largest unit that divides them.
pub(crate) fn shortest_millis(millis: u64) -> String {
    match millis.is_multiple_of(1_000) {
        true => shortest(millis / 1_000),
        false => format!("{millis}ms"),
    }
}

/// `"90m"` for `1.5` hours.
pub(super) fn smaller_unit(name: &Ident, number: &str, unit: &str) -> String {
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
