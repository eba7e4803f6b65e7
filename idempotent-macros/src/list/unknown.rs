//! Names that are not arguments, and the argument that was meant.

use proc_macro2::{Ident, TokenStream};
use syn::parse::ParseStream;
use syn::{Expr, Lit, LitStr, Meta, Token};

use super::{not_kept, written_value};
use crate::args::{self, Argument};
use crate::key;
use crate::mistake::{Mistakes, mistake};
use crate::source::source;
use crate::suggest::{nearest, quoted_list};
use crate::synonyms::{self, Synonym, by_a_word_of_it};
use crate::value::{Mode, literal};

/// The error for a name that is not one of an argument.
pub(super) fn unknown(name: &Ident, rest: ParseStream<'_>, parameters: &[String]) -> syn::Error {
    let word = name.to_string();
    let value = match rest.fork().parse::<Token![=]>() {
        Ok(_) => {
            let ahead = rest.fork();
            let _ = ahead.parse::<Token![=]>();
            written_value(&ahead)
        }
        Err(_) => None,
    };
    let names = || args::ARGUMENTS.iter().map(|argument| argument.name);
    let value = value.map(|value| with_unit(&word, &value).unwrap_or(value));
    let snake = synonyms::snake_case(&word);
    let did_you_mean = |name: &str, value: Option<String>| {
        let is_key = args::find(name).is_some_and(|argument| argument.is_key);
        let value = value.map(|value| match is_key {
            true => field_of_request(&value, parameters).unwrap_or(value),
            false => value,
        });
        did_you_mean(name, value)
    };
    // Of names of several words, a part may mean something else.
    let long = || names().filter(|name| name.contains('_'));
    let own = args::find(&snake).map(|argument| argument.name);
    let help = match synonyms::find(&snake) {
        _ if Mode::NAMES.contains(&word.as_str()) && value.as_deref() != Some("false") => {
            match value.as_deref() {
                None | Some("true") => format!("`mode = \"{word}\"`"),
                Some(value) => format!("`mode = \"{word}\", expire = {value}`"),
            }
        }
        _ if own.is_some() => did_you_mean(own.unwrap_or_default(), value),
        Some(Synonym::Say(_)) if word == "convert" && converted(value.as_deref()).is_some() => {
            let template = converted(value.as_deref()).unwrap_or_default();
            format!("a template makes the key: `key = \"{template}\"`")
        }
        Some(Synonym::Say(synonyms::STRONG)) if value.as_deref() == Some("false") => {
            "`mode = \"reject\"` refuses a duplicate".to_owned()
        }
        Some(Synonym::Say(help @ (synonyms::UNLESS | synonyms::CONDITION))) => {
            let retention = not_kept::retention(&snake, value.as_deref(), parameters);
            match (help == synonyms::UNLESS, retention) {
                (_, Some(retention)) => format!("{}{retention}", synonyms::UNLESS),
                (true, None) if not_kept::is_known_before(value.as_deref(), parameters) => {
                    synonyms::CONDITION.to_owned()
                }
                (true, None) => format!("{}{}", synonyms::UNLESS, not_kept::open()),
                (false, None) => help.to_owned(),
            }
        }
        Some(Synonym::Say(help)) => help.to_owned(),
        Some(Synonym::Of("expire")) if unit_beside(rest).is_some() => {
            let (number, unit) = (value.unwrap_or_default(), unit_beside(rest).unwrap_or_default());
            let number = number.trim_matches('"').to_owned();
            did_you_mean("expire", Some(format!("\"{number}{unit}\"")))
        }
        Some(Synonym::Of(near)) => did_you_mean(near, value),
        Some(Synonym::Limit) => limits(value.as_deref()),
        None => {
            match nearest(&snake, long()).map(Synonym::Of).or_else(|| by_a_word_of_it(&snake)) {
                Some(Synonym::Of(near)) => did_you_mean(near, value),
                Some(Synonym::Say(help)) => help.to_owned(),
                Some(Synonym::Limit) => limits(value.as_deref()),
                None => match nearest(&snake, names()) {
                    Some(near) => did_you_mean(near, value),
                    None => format!("the arguments are {}", quoted_list(names())),
                },
            }
        }
    };
    mistake(name, format!("unknown argument `{word}`"), help)
}

/// The unit in an argument further on in the list: `m` for `timeUnit = TimeUnit.MINUTES`.
fn unit_beside(rest: ParseStream<'_>) -> Option<&'static str> {
    let text = rest.fork().parse::<TokenStream>().ok()?.to_string();
    let unit = ["timeUnit", "time_unit", "unit"]
        .iter()
        .find_map(|name| text.split_once(&format!("{name} =")))?
        .1;
    let unit = unit.split(',').next()?.to_lowercase();
    let last = unit.trim().trim_matches('"').rsplit(['.', ':', ' ']).next()?.to_owned();
    Some(match last.as_str() {
        "milliseconds" | "millis" | "ms" => "ms",
        "seconds" | "second" | "secs" | "s" => "s",
        "minutes" | "minute" | "mins" | "min" | "m" => "m",
        "hours" | "hour" | "h" => "h",
        "days" | "day" | "d" => "d",
        _ => return None,
    })
}

/// `"500ms"` for the value of `wait_ms = 500`.
fn with_unit(name: &str, value: &str) -> Option<String> {
    let number: u64 = value.replace('_', "").parse().ok()?;
    let unit = match synonyms::snake_case(name).rsplit_once('_')?.1 {
        "ms" | "millis" | "milliseconds" | "msec" | "msecs" => "ms",
        "min" | "mins" | "minutes" => "m",
        "hours" | "hour" | "hrs" => "h",
        "days" | "day" => "d",
        _ => return None,
    };
    Some(format!("\"{number}{unit}\""))
}

/// The template for `r#"{ format!("{}:{}", user, id) }"#`, or for one path.
fn converted(value: Option<&str>) -> Option<String> {
    let code = syn::parse_str::<LitStr>(value?).ok()?.value();
    let block = syn::parse_str::<syn::Block>(&code).ok()?;
    let [syn::Stmt::Expr(expr, None)] = block.stmts.as_slice() else { return None };
    match expr {
        Expr::Macro(call) if call.mac.path.is_ident("format") => key::formatted(&call.mac.tokens),
        Expr::MethodCall(call) => Some(source(&call.receiver)),
        Expr::Path(_) | Expr::Field(_) => Some(source(expr)),
        _ => None,
    }
}

/// `"req.order_id"` for `"order_id"`, which is no parameter. The help names the parameter of the function.
fn field_of_request(value: &str, parameters: &[String]) -> Option<String> {
    let word = syn::parse_str::<LitStr>(value).ok()?.value();
    let is_field = syn::parse_str::<Ident>(&word).is_ok()
        && !parameters.is_empty()
        && !parameters.contains(&word);
    is_field.then(|| format!("\"req.{word}\""))
}

/// Proposes the arguments that limit a time, with the value that was given where they take it.
fn limits(value: Option<&str>) -> String {
    let limit = |name, example| match value.filter(|value| refusal(name, value).is_none()) {
        Some(value) => format!("`{name} = {value}`"),
        None => format!("`{name} = {example}`"),
    };
    format!(
        "{} limits how long a duplicate waits, {} how long an answer is kept, {} how long a body holds its key",
        limit("wait", "\"300ms\""),
        limit("expire", "\"5m\""),
        limit("max_run", "\"1h\""),
    )
}

/// The error for a value of an argument, if it does not take it.
fn refusal(name: &str, value: &str) -> Option<String> {
    let Ok(tokens) = format!("{name} = {value}").parse::<TokenStream>() else {
        return Some(String::new());
    };
    let mut mistakes = Mistakes::default();
    args::Args::parse(tokens, &[], &mut mistakes);
    mistakes.or(()).err().map(|error| error.to_string())
}

/// Proposes another name, with the value that was given to the unknown one if the other takes it.
fn did_you_mean(name: &str, value: Option<String>) -> String {
    let refusal = |value: &str| refusal(name, value);
    let value = value.map(|value| match args::find(name).filter(|argument| argument.is_key) {
        Some(_) => as_tuple(&value).unwrap_or(value),
        None => value,
    });
    match (args::find(name), value) {
        (Some(Argument { takes_value: true, .. }), Some(value)) if refusal(&value).is_none() => {
            format!("did you mean `{name} = {value}`?")
        }
        // Numbers without a unit are answered with two of them.
        (Some(Argument { takes_value: true, .. }), Some(value))
            if refusal(&value).is_some_and(|error| error.contains("\nhelp: for milliseconds")) =>
        {
            let error = refusal(&value).unwrap_or_default();
            error.split_once("\nhelp: ").map_or_else(String::new, |(_, help)| help.to_owned())
        }
        (Some(Argument { takes_value: true, example, .. }), _) => {
            format!("did you mean `{example}`?")
        }
        _ => format!("did you mean `{name}`?"),
    }
}

/// `"(a, b)"` for `["a", "b"]`.
fn as_tuple(value: &str) -> Option<String> {
    if let Ok(text) = syn::parse_str::<LitStr>(value) {
        let tuple = format!("({})", text.value());
        let members = syn::parse_str::<syn::ExprTuple>(&tuple).ok()?.elems.len();
        return (members > 1).then(|| format!("\"{tuple}\""));
    }
    let array = syn::parse_str::<syn::ExprArray>(value).ok()?;
    let member = |expr: &Expr| match literal(expr) {
        Some(Lit::Str(text)) => text.value(),
        _ => source(expr),
    };
    let members: Vec<_> = array.elems.iter().map(member).collect();
    Some(match members.as_slice() {
        [only] => format!("\"{only}\""),
        members => format!("\"({})\"", members.join(", ")),
    })
}

/// `key = "String"` beside `convert = ".."`, as the `cached` crate has it: the type of the key.
pub(super) fn is_type_of_key(meta: &Meta) -> bool {
    let Meta::NameValue(pair) = meta else { return false };
    match literal(&pair.value) {
        Some(Lit::Str(text)) if pair.path.is_ident("key") => {
            let text = text.value();
            text.starts_with(char::is_uppercase)
                || ["u", "i"].iter().any(|sign| {
                    text.strip_prefix(sign).is_some_and(|bits| bits.parse::<u8>().is_ok())
                })
        }
        _ => false,
    }
}
