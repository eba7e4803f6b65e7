//! Names that are not arguments, and the argument that was meant.

use proc_macro2::{Ident, TokenStream};
use syn::parse::ParseStream;
use syn::{Expr, Lit, LitStr, Meta, Token};

use super::by_value::{likely, limits};
use super::neighbours::Neighbours;
use super::separators::separator;
use super::{not_kept, written_value};
use crate::args::{self, Argument};
use crate::key;
use crate::mistake::{Mistakes, mistake};
use crate::source::source;
use crate::suggest::{nearest, quoted_list};
use crate::synonyms::{self, Synonym, by_a_word_of_it};
use crate::value::{Mode, literal};

/// The error for a name that is not one of an argument.
pub(super) fn unknown(
    name: &Ident,
    rest: ParseStream<'_>,
    parameters: &[String],
    neighbours: &Neighbours,
) -> syn::Error {
    let word = name.to_string();
    let ahead = rest.fork();
    let has_value = separator(&ahead).is_some() || ahead.parse::<Token![=]>().is_ok();
    let value = has_value.then(|| written_value(&ahead)).flatten();
    let value = value.map(|value| with_unit(&word, &value).unwrap_or(value));
    let snake = synonyms::snake_case(&word);
    let stranger = Stranger { snake: &snake, value, parameters, neighbours };
    mistake(name, format!("unknown argument `{word}`"), stranger.help(rest))
}

/// An unknown argument, and what stands around it.
struct Stranger<'a> {
    /// Its name in the spelling of Rust.
    snake: &'a str,
    value: Option<String>,
    parameters: &'a [String],
    neighbours: &'a Neighbours,
}

impl Stranger<'_> {
    fn help(&self, rest: ParseStream<'_>) -> String {
        let Self { snake, neighbours, .. } = self;
        let value = self.value.as_deref();
        let names = || args::ARGUMENTS.iter().map(|argument| argument.name);
        // Of names of several words, a part may mean something else.
        let long = || names().filter(|name| name.contains('_'));
        if Mode::of(snake).is_some() && value != Some("false") {
            return neighbours.put_into(&match value {
                None | Some("true") => format!("`mode = \"{snake}\"`"),
                Some(value) => format!("`mode = \"{snake}\", expire = {value}`"),
            });
        }
        if let Some(own) = args::find(snake) {
            return self.did_you_mean(own.name);
        }
        match synonyms::find(snake) {
            Some(Synonym::Of("expire")) if unit_beside(rest).is_some() => {
                let (number, unit) = (value.unwrap_or_default(), unit_beside(rest));
                let number = number.trim_matches('"').to_owned();
                self.with_value(format!("\"{number}{}\"", unit.unwrap_or_default()))
                    .did_you_mean("expire")
            }
            Some(synonym) => self.meant(synonym),
            None => {
                match nearest(snake, long()).map(Synonym::Of).or_else(|| by_a_word_of_it(snake)) {
                    Some(synonym) => self.meant(synonym),
                    None => match nearest(snake, names()) {
                        Some(near) => self.did_you_mean(near),
                        None => likely(value, self.parameters, neighbours).unwrap_or_else(|| {
                            format!("the arguments are {}", quoted_list(names()))
                        }),
                    },
                }
            }
        }
    }

    /// The same with another value.
    fn with_value(&self, value: String) -> Self {
        Self { value: Some(value), ..*self }
    }

    /// Help for a name of another library.
    fn meant(&self, synonym: Synonym) -> String {
        let Self { neighbours, .. } = self;
        let value = self.value.as_deref();
        match synonym {
            // A kind of lock, and not its time.
            Synonym::Of("lease") if value.is_some_and(is_kind) => {
                neighbours.put_into(synonyms::ONE)
            }
            Synonym::Of(near) => self.did_you_mean(near),
            Synonym::Limit => limits(value, neighbours),
            Synonym::Say(help) => neighbours.put_into(&self.said(help)),
        }
    }

    /// Help in other words, with the value that was given.
    fn said(&self, help: &str) -> String {
        let Self { snake, parameters, neighbours, .. } = self;
        let value = self.value.as_deref();
        match help {
            synonyms::CONVERT => match converted(value) {
                Some(template) => format!("a template makes the key: `key = \"{template}\"`"),
                None => help.to_owned(),
            },
            synonyms::STORE => match self.as_instance() {
                Some(path) => format!("`with = {path}`{}", synonyms::INSTANCE),
                None => help.to_owned(),
            },
            synonyms::HOOK => match value.filter(|value| refusal("on_replay", value).is_none()) {
                Some(hook) => help.replace("count_replay", hook.trim_matches('"')),
                None => help.to_owned(),
            },
            synonyms::ERRORS if neighbours.value("final_errors").is_some() => {
                "remove it: every error frees the key, except those that `final_errors = OrderError::is_final` keeps"
                    .to_owned()
            }
            synonyms::PREFIX => {
                let help = match value.filter(|value| refusal("name", value).is_none()) {
                    Some(name) => {
                        help.replace("\"orders.create\"", name).replace("\"orders\"", name)
                    }
                    None => help.to_owned(),
                };
                match neighbours.value("name") {
                    Some(_) => format!("remove it: {help}"),
                    None => help,
                }
            }
            synonyms::ENDED => match value.and_then(|value| accepted("max_run", value)) {
                Some(time) => help.replace("\"5m\"", &time),
                None => help.to_owned(),
            },
            synonyms::HELD => match value.and_then(|value| accepted("max_run", value)) {
                Some(time) => help.replace("\"1h\"", &time),
                None => help.to_owned(),
            },
            synonyms::CRASHED if value == Some("false") => {
                "`abandon = \"block\"` runs no body again whose process has crashed".to_owned()
            }
            synonyms::CRASHED if neighbours.value("abandon") == Some("\"block\"") => {
                "`abandon = \"retry\"` runs the body again after the lease of a process that has crashed".to_owned()
            }
            synonyms::WINDOW => match value.and_then(|value| accepted("expire", value)) {
                Some(time) => help.replace("\"5s\"", &time),
                None => help.replace("\"5s\"", neighbours.value("expire").unwrap_or("\"5s\"")),
            },
            synonyms::BLOCKING => {
                help.replace("\"5s\"", neighbours.value("wait").unwrap_or("\"5s\""))
            }
            synonyms::VERSION => match self.versioned() {
                Some(name) => format!("make it part of the name: `name = \"{name}\"`"),
                None => help.to_owned(),
            },
            synonyms::UNIT => match value.and_then(|unit| self.with_unit_of(unit)) {
                Some(duration) => format!("write the unit into the duration: `{duration}`"),
                None => help.to_owned(),
            },
            synonyms::STRONG if value == Some("false") => {
                "`mode = \"reject\"` refuses a duplicate".to_owned()
            }
            synonyms::UNLESS | synonyms::CONDITION => {
                let retention = not_kept::retention(snake, value, parameters);
                match (help == synonyms::UNLESS, retention) {
                    (_, Some(retention)) => format!("{}{retention}", synonyms::UNLESS),
                    (true, None) if not_kept::is_known_before(value, parameters) => {
                        synonyms::CONDITION.to_owned()
                    }
                    (true, None) => format!("{}{}", synonyms::UNLESS, not_kept::open()),
                    (false, None) => help.to_owned(),
                }
            }
            help => help.to_owned(),
        }
    }

    /// A path from a parameter, or a constant: it may be an instance.
    fn as_instance(&self) -> Option<String> {
        let mut path = syn::parse_str::<Expr>(self.value.as_deref()?).ok()?;
        while let Expr::Reference(reference) = path {
            path = *reference.expr;
        }
        let is_path = matches!(path, Expr::Field(_) | Expr::Path(_));
        let text = source(&path);
        let root = text.split('.').next()?;
        let is_known = self.parameters.iter().any(|parameter| parameter == root)
            || root.rsplit("::").next()?.chars().all(|c| c.is_uppercase() || c == '_');
        (is_path && is_known && self.neighbours.value("with").is_none()).then_some(text)
    }

    /// The name of the operation with a version in the value: `orders.create.v2`.
    fn versioned(&self) -> Option<String> {
        let version = self.value.as_deref()?.trim_matches('"').trim_start_matches('v');
        let name = syn::parse_str::<LitStr>(self.neighbours.value("name")?).ok()?.value();
        let is_version = version.starts_with(|c: char| c.is_ascii_digit());
        is_version.then(|| format!("{name}.v{version}"))
    }

    /// The first duration of the list that is a number, with this unit: `expire = "5m"`.
    fn with_unit_of(&self, unit: &str) -> Option<String> {
        let unit = short_unit(unit)?;
        let name = ["expire", "wait", "lease", "max_run"].into_iter().find(|name| {
            let value = self.neighbours.value(name).map(|value| value.trim_matches('"'));
            value.is_some_and(|value| value.parse::<u64>().is_ok())
        })?;
        let number = self.neighbours.value(name)?.trim_matches('"');
        Some(format!("{name} = \"{number}{unit}\""))
    }

    /// Proposes another name, with the value that was given to the unknown one if the other takes it.
    fn did_you_mean(&self, name: &str) -> String {
        let Self { neighbours, .. } = self;
        let is_key = args::find(name).is_some_and(|argument| argument.is_key);
        let value = self.value.clone().map(|value| match is_key {
            true => {
                let value = field_of_request(&value, self.parameters).unwrap_or(value);
                as_tuple(&value).unwrap_or(value)
            }
            false => accepted(name, &value).unwrap_or(value),
        });
        let taken = value.as_deref().filter(|value| refusal(name, value).is_none());
        match (neighbours.written(name), taken) {
            (Some(known), Some(value)) if known != format!("{name} = {value}") => {
                let both = is_key.then(|| together(neighbours.value(name)?, value)).flatten();
                let value = both.as_deref().unwrap_or(value);
                format!("did you mean `{name} = {value}` in place of `{known}`?")
            }
            (Some(known), _) => format!("remove it: `{known}` is there already"),
            (None, taken) if neighbours.leave_idle(name) => {
                let mode = neighbours.written("mode").unwrap_or_default();
                let strong = taken.map(|value| {
                    format!("; or `mode = \"strong\", {name} = {value}` in place of `{mode}`")
                });
                format!(
                    "remove it: `{mode}` leaves `{name}` nothing to do{}",
                    strong.unwrap_or_default()
                )
            }
            (None, _) => did_you_mean(name, value),
        }
    }
}

/// Returns `true` for a word, as the kind of a lock: `"until_executed"`, `true`.
fn is_kind(value: &str) -> bool {
    let word = value.trim_matches('"');
    let has_number = word.contains(|c: char| c.is_ascii_digit());
    !has_number
        && word.starts_with(|c: char| c.is_alphabetic())
        && refusal("lease", value).is_some()
}

/// The tuple of two keys that are paths.
pub(super) fn together(first: &str, second: &str) -> Option<String> {
    let path = |value: &str| match syn::parse_str::<LitStr>(value) {
        Ok(text) => Some(text.value()).filter(|text| !text.contains('{')),
        Err(_) => Some(value.to_owned()).filter(|text| !text.starts_with("const ")),
    };
    let members = |path: String| match syn::parse_str::<syn::ExprTuple>(&path) {
        Ok(tuple) => source(&tuple.elems),
        Err(_) => path,
    };
    Some(format!("\"({}, {})\"", members(path(first)?), members(path(second)?)))
}

/// The unit in an argument further on in the list: `m` for `timeUnit = TimeUnit.MINUTES`.
fn unit_beside(rest: ParseStream<'_>) -> Option<&'static str> {
    let text = rest.fork().parse::<TokenStream>().ok()?.to_string();
    let unit = ["timeUnit", "time_unit", "unit"]
        .iter()
        .find_map(|name| text.split_once(&format!("{name} =")))?
        .1;
    short_unit(unit.split(',').next()?)
}

/// `m` for `TimeUnit.MINUTES`.
fn short_unit(unit: &str) -> Option<&'static str> {
    let unit = unit.to_lowercase();
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

/// The error for a value of an argument, if it does not take it.
pub(super) fn refusal(name: &str, value: &str) -> Option<String> {
    let Ok(tokens) = format!("{name} = {value}").parse::<TokenStream>() else {
        return Some(String::new());
    };
    let mut mistakes = Mistakes::default();
    args::Args::parse(tokens, &[], &mut mistakes);
    mistakes.or(()).err().map(|error| error.to_string())
}

/// The value, if the argument takes it, or else the only one that its error proposes: `"5m"` for `"5 minutes"`.
pub(super) fn accepted(name: &str, value: &str) -> Option<String> {
    let Some(error) = refusal(name, value) else { return Some(value.to_owned()) };
    let (_, help) = error.split_once("\nhelp: ")?;
    let code = help.split('`').skip(1).step_by(2);
    let mut proposed = code.filter_map(|code| code.strip_prefix(&format!("{name} = ")));
    let only = proposed.next()?;
    proposed.next().is_none().then(|| only.to_owned())
}

/// Proposes another name, with the value that was given to the unknown one if the other takes it.
fn did_you_mean(name: &str, value: Option<String>) -> String {
    let refusal = |value: &str| refusal(name, value);
    match (args::find(name), value) {
        (Some(Argument { takes_value: true, .. }), Some(value)) if refusal(&value).is_none() => {
            format!("did you mean `{name} = {value}`?")
        }
        // The argument has a help for this value.
        (Some(Argument { takes_value: true, .. }), Some(value)) if is_answered(name, &value) => {
            let error = refusal(&value).unwrap_or_default();
            error.split_once("\nhelp: ").map_or_else(String::new, |(_, help)| help.to_owned())
        }
        (Some(Argument { takes_value: true, example, .. }), _) => {
            format!("did you mean `{example}`?")
        }
        _ => format!("did you mean `{name}`?"),
    }
}

/// Returns `true` for a number without a unit, which may be two of them, and for a closure in the place of a
/// function.
fn is_answered(name: &str, value: &str) -> bool {
    let error = refusal(name, value).unwrap_or_default();
    let is_function = matches!(name, "on_replay" | "expire_with" | "final_errors");
    error.contains("\nhelp: for milliseconds") || (is_function && value.starts_with('|'))
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
