//! Values that are understood only with the names of the function's parameters at hand.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::parse::ParseStream;
use syn::{Expr, Lit, LitStr, Meta, Token};

use super::ends;
use crate::args;
use crate::mistake::mistake;
use crate::source::source;
use crate::synonyms::snake_case;
use crate::value::{configured, literal};

/// The error in a quoted value, if the parameters tell what was meant.
pub(super) fn refusal(meta: &Meta, parameters: &[String]) -> Option<syn::Error> {
    let (name, text) = quoted(meta)?;
    macro_variable(name, text, parameters).or_else(|| braces(name, text, parameters))
}

/// `name = "text"`
fn quoted(meta: &Meta) -> Option<(&Ident, &LitStr)> {
    let Meta::NameValue(pair) = meta else { return None };
    match literal(&pair.value)? {
        Lit::Str(text) => Some((pair.path.get_ident()?, text)),
        _ => None,
    }
}

/// `key = "$key"` inside of `macro_rules!`. A parameter of that name is one of the shell's variables,
/// which `key` translates.
fn macro_variable(name: &Ident, text: &LitStr, parameters: &[String]) -> Option<syn::Error> {
    let value = text.value();
    let (before, after) = value.split_once('$')?;
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
    let (variable, rest) = after.split_at(end);
    let is_name = syn::parse_str::<Ident>(variable).is_ok();
    let argument = args::find(&name.to_string())?;
    if is_name && argument.is_key && is_from_macro(text) && (rest.starts_with('.') || before == "(")
    {
        return Some(macro_path(name, text, variable));
    }
    if !is_name || rest.starts_with('.') || is_parameter(variable, parameters) {
        return None;
    }
    let is_whole = before.is_empty() && rest.is_empty();
    if !is_whole && !argument.is_key {
        return None;
    }
    let snake = snake_case(variable);
    if argument.is_key && is_parameter(&snake, parameters) {
        let what = format!("`${variable}` does not stand for a parameter");
        return Some(mistake(text, what, format!("`{name} = \"{before}{{{snake}}}{rest}\"`")));
    }
    let what = format!("`${variable}` is not replaced inside quotes");
    let help = match is_whole {
        true => format!("a variable of a macro stands without them: `{name} = ${variable}`"),
        // A path, which needs no quotes.
        false if before.ends_with('.') && rest.is_empty() && argument.is_key => {
            return Some(mistake(
                text,
                what,
                format!("without quotes it is: `{name} = {before}${variable}`"),
            ));
        }
        false => format!(
            "pass the text as a whole, to a variable `${variable}:literal` of the macro: `{name} = \
             ${variable}`"
        ),
    };
    // An environment variable has no place in an argument either.
    let is_setting = matches!(argument.name, "expire" | "wait" | "lease" | "max_run" | "message");
    if is_setting && is_whole && !is_from_macro(text) {
        let value = if argument.name == "message" { "text" } else { "time" };
        return Some(mistake(text, what, format!("{help}; {}", configured(name, value))));
    }
    let is_offered = argument.is_key && !(is_whole && is_from_macro(text));
    let help = match parameters.first().filter(|_| is_offered) {
        Some(parameter) => {
            format!("{help}; for a parameter: `{name} = \"{before}{{{parameter}}}{rest}\"`")
        }
        None => help,
    };
    Some(mistake(text, what, help))
}

/// `key = "$req.id"`, `key = "($req.id, $user)"` and `key = "order:$req.id"` inside of `macro_rules!`.
fn macro_path(name: &Ident, text: &LitStr, variable: &str) -> syn::Error {
    let what = format!("`${variable}` is not replaced inside quotes");
    let value = text.value();
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '?');
    let path = |after: &str| {
        let end = after.find(|c| !is_path(c)).unwrap_or(after.len());
        let end = end + if after[end..].starts_with("()") { 2 } else { 0 };
        format!("${}", &after[..end])
    };
    let paths: Vec<_> = value.split('$').skip(1).map(path).collect();
    let help = match paths.as_slice() {
        [only] if *only == value => format!("without quotes it is: `{name} = {value}`"),
        _ if value.starts_with('(') => format!("without quotes it is: `{name} = {value}`"),
        [only] => {
            format!("without quotes, and without the text around it, it is: `{name} = {only}`")
        }
        several => {
            let tuple = several.join(", ");
            format!("without quotes, and without the text between, it is: `{name} = ({tuple})`")
        }
    };
    mistake(text, what, help)
}

/// Returns `true` for a literal of the text of a `macro_rules!`, which the compiler shows in no way but this.
fn is_from_macro(text: &LitStr) -> bool {
    let span = format!("{:?}", text.span());
    span.starts_with('#') && !span.starts_with("#0 ")
}

/// `key = "order:id"`, in which the braces were left out.
fn braces(name: &Ident, text: &LitStr, parameters: &[String]) -> Option<syn::Error> {
    const SEPARATORS: [char; 5] = [':', '/', '|', '-', '#'];
    let value = text.value();
    let is_text = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || SEPARATORS.contains(&c);
    if !args::find(&name.to_string())?.is_key
        || !value.chars().all(is_text)
        || value.contains("::")
        || value.starts_with(SEPARATORS)
        || value.contains("/:")
    {
        return None;
    }
    let mut found = Vec::new();
    let pieces = value.split_inclusive(SEPARATORS).map(|piece| {
        let path = piece.trim_end_matches(SEPARATORS);
        let is_path = syn::parse_str::<Expr>(path).is_ok();
        match is_path && is_parameter(path.split('.').next().unwrap_or_default(), parameters) {
            true => {
                found.push(path);
                format!("{{{path}}}{}", &piece[path.len()..])
            }
            false => piece.to_owned(),
        }
    });
    let pieces: Vec<String> = pieces.collect();
    let first = found.first().filter(|_| pieces.len() > 1)?;
    let what = format!("`{first}` stands for a parameter only in braces");
    Some(mistake(text, what, format!("`{name} = \"{}\"`", pieces.concat())))
}

fn is_parameter(word: &str, parameters: &[String]) -> bool {
    parameters.iter().any(|parameter| parameter == word)
}

/// `key = "order-{}", id`, as in `println!`, and `key = "order-%d", id`: takes the values, and puts them into the template.
pub(super) fn positional(
    input: ParseStream<'_>,
    before: Option<&Meta>,
    parameters: &[String],
) -> Option<syn::Error> {
    let (name, text) = quoted(before?)?;
    let argument = args::find(&name.to_string())?;
    let value = text.value();
    let holes = ["{}", "%s", "%d", "%v"];
    let first = holes
        .into_iter()
        .filter(|hole| value.contains(hole))
        .min_by_key(|hole| value.find(hole))?;
    if !(argument.is_key || argument.is_text) {
        return None;
    }
    let value = holes.iter().fold(value, |value, hole| value.replace(hole, "{}"));
    let mut pieces = value.split("{}");
    let mut template = pieces.next()?.to_owned();
    let ahead = input.fork();
    let mut written = format!("{name} = {}", source(text));
    for piece in pieces {
        let path = bare(&ahead, parameters)?;
        template.push_str(&format!("{{{path}}}{piece}"));
        written.push_str(&format!(", {path}"));
        let _ = ahead.parse::<Token![,]>();
    }
    // The same again, on the input itself.
    for _ in value.matches("{}") {
        bare(input, parameters);
        let _ = input.parse::<Token![,]>();
    }
    let what = format!("`{first}` does not name a parameter");
    let help = format!("`{name} = \"{template}\"` in place of `{written}`");
    Some(mistake(text, what, help))
}

/// A path that starts at a parameter, and ends before a comma.
pub(super) fn bare(input: ParseStream<'_>, parameters: &[String]) -> Option<String> {
    let ahead = input.fork();
    let part: Expr = ahead.parse().ok().filter(|_| ends(&ahead))?;
    let text = source(&part);
    let root = text.split('.').next()?;
    let is_path = matches!(part, Expr::Field(_) | Expr::Path(_));
    if !is_path || args::find(root).is_some() || !is_parameter(root, parameters) {
        return None;
    }
    let _ = input.parse::<Expr>().map(ToTokens::into_token_stream);
    Some(text)
}
