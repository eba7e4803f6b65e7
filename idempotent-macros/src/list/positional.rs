//! Arguments that do not begin with a name.

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Lit, LitStr, Token};

use super::neighbours::Neighbours;
use super::separators::{listed, separator};
use super::unknown::{refusal, together};
use super::{TokenTree, is_constant, written_value};
use crate::args;
use crate::mistake::mistake;
use crate::source::source;
use crate::value::{Mode, literal, peel};

/// The error for an argument that does not begin with a name.
pub(super) fn positional(input: ParseStream<'_>, neighbours: &Neighbours) -> syn::Error {
    let ahead = input.fork();
    let what = "arguments are written `name = value`";
    if let Some(error) = quoted_name(&ahead.fork()) {
        return error;
    }
    if let Ok(group) = ahead.fork().parse::<Group>()
        && let inside = innermost(&group)
        && let Some(what) = surrounded(&group).or_else(|| surrounded(&inside))
    {
        let list = listed.parse2(inside.stream()).unwrap_or_else(|_| source(&inside.stream()));
        return mistake(group, what, format!("`#[idempotent({list})]`"));
    }
    if let Ok(not) = ahead.fork().parse::<syn::ExprUnary>()
        && let Some(flag) = args::find(&source(&not.expr)).filter(|argument| !argument.takes_value)
    {
        let what = format!("`{}` is off unless it is given", flag.name);
        return mistake(&not, what, format!("remove it, or write `{} = false`", flag.name));
    }
    let Ok(value) = ahead.parse::<Expr>() else {
        let at: TokenStream =
            input.fork().parse::<TokenTree>().map(|tree| tree.0).unwrap_or_default();
        return mistake(at, what, "`key = \"req.order_id\", expire = 300`");
    };
    let value = match value {
        Expr::Paren(paren) => *paren.expr,
        value => value,
    };
    let text = source(&value);
    if let Expr::Assign(named) = &value {
        let left = source(&named.left);
        let help = match left.rsplit(['.', ':']).next().and_then(args::find) {
            Some(argument) => format!("`{} = {}`", argument.name, source(&named.right)),
            None => "`key = \"req.order_id\", expire = 300`".to_owned(),
        };
        return mistake(peel(&value), what, help);
    }
    let help = match literal(&value) {
        None if matches!(value, Expr::Range(_) | Expr::Unary(_)) => {
            "`key = \"req.order_id\", expire = 300`".to_owned()
        }
        None if is_duration(&value) => format!("`expire = {text}`"),
        None if matches!(&value, Expr::Path(path) if path.path.segments.last().is_some_and(|last| is_constant(&last.ident))) =>
        {
            return mistake(peel(&value), what, for_constant(&text, neighbours));
        }
        Some(Lit::Int(_)) => format!("`expire = {text}`"),
        Some(Lit::Str(lit)) if Mode::NAMES.contains(&lit.value().as_str()) => {
            format!("`mode = {text}`")
        }
        Some(Lit::Str(lit)) if lit.value().starts_with(|c: char| c.is_ascii_digit()) => {
            format!("`expire = {text}`")
        }
        _ if is_name_value() => format!("`#[idempotent(key = {text})]`"),
        _ => return mistake(peel(&value), what, for_key(&text, neighbours)),
    };
    mistake(peel(&value), what, neighbours.put_into(&help))
}

/// Help for a path: the key, or another part of the one that is there.
pub(super) fn for_key(path: &str, neighbours: &Neighbours) -> String {
    let is_part = refusal("key", path).is_none();
    let both = neighbours.value("key").filter(|_| is_part).and_then(|key| together(key, path));
    neighbours.put_into(&format!("`key = {}`", both.as_deref().unwrap_or(path)))
}

/// Help for a constant: the arguments that take one, and are not there.
fn for_constant(constant: &str, neighbours: &Neighbours) -> String {
    let choices = [
        ("for a time", "expire", ""),
        ("for one key of all calls", "key", "const "),
        ("for the text of a refusal", "message", ""),
    ];
    let open = choices.iter().filter(|(_, name, _)| neighbours.value(name).is_none());
    let proposed = |name: &str, before: &str| format!("`{name} = {before}{constant}`");
    match open.collect::<Vec<_>>().as_slice() {
        [] => neighbours.put_into(&proposed("expire", "")),
        several => several
            .iter()
            .map(|(use_of_it, name, before)| format!("{use_of_it}: {}", proposed(name, before)))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// Returns `true` for a time by its words: `retention::PAYMENTS`, `Duration::from_secs(5)`, `ORDER_TTL`.
fn is_duration(value: &Expr) -> bool {
    let (path, is_call) = match value {
        Expr::Path(path) => (path, false),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => (path, true),
            _ => return false,
        },
        _ => return false,
    };
    let is_time = |word: &str| {
        let words =
            ["retention", "ttl", "expire", "expiry", "expiration", "lifetime", "duration", "age"];
        word.split('_').any(|part| words.contains(&part))
    };
    let is_whole =
        is_call || path.path.segments.last().is_some_and(|last| is_constant(&last.ident));
    let mut segments = path.path.segments.iter();
    is_whole && segments.any(|segment| is_time(&segment.ident.to_string().to_lowercase()))
}

/// The problem of a group around the arguments: braces, or a second pair of parentheses.
fn surrounded(group: &Group) -> Option<&'static str> {
    let mut tokens = group.stream().into_iter();
    let is_argument = match (tokens.next(), tokens.next()) {
        (Some(first), Some(second)) => {
            args::find(&first.to_string()).is_some()
                && matches!(second.to_string().as_str(), "=" | "," | ":")
        }
        (Some(first), None) => args::find(&first.to_string()).is_some(),
        _ => false,
    };
    match group.delimiter() {
        Delimiter::Brace => Some("arguments stand in the parentheses, without braces"),
        Delimiter::Parenthesis if is_argument => Some("arguments stand in one pair of parentheses"),
        Delimiter::Bracket if is_argument => {
            Some("arguments stand in the parentheses, without brackets")
        }
        _ => None,
    }
}

/// The last of several groups that hold nothing but another one.
fn innermost(group: &Group) -> Group {
    match syn::parse2::<Group>(group.stream()) {
        Ok(inside) => innermost(&inside),
        Err(_) => group.clone(),
    }
}

/// Returns `true` for `#[idempotent = ..]`, whose value arrives as one in parentheses does.
fn is_name_value() -> bool {
    let attribute = Span::call_site().source_text().unwrap_or_default();
    let after = attribute.split_once("idempotent").map(|(_, after)| after.trim_start());
    after.is_some_and(|after| after.starts_with('='))
}

/// `"key" = ..`, `"key": ..`
fn quoted_name(input: ParseStream<'_>) -> Option<syn::Error> {
    let name: LitStr = input.parse().ok()?;
    if separator(input).is_none() {
        input.parse::<Token![=]>().ok()?;
    }
    let word = name.value();
    let value = written_value(input);
    let help = match (args::find(&word), value) {
        (Some(_), Some(value)) => format!("`{word} = {value}`"),
        (Some(argument), None) => format!("`{}`", argument.example),
        (None, _) => "`key = \"req.order_id\", expire = 300`".to_owned(),
    };
    Some(mistake(&name, "names of arguments are written without quotes", help))
}
