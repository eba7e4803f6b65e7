//! Arguments that do not begin with a name.

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use syn::parse::ParseStream;
use syn::{Expr, Lit, LitStr, Token};

use super::{TokenTree, written_value};
use crate::args;
use crate::mistake::mistake;
use crate::source::source;
use crate::value::{Mode, literal, peel};

/// The error for an argument that does not begin with a name.
pub(super) fn positional(input: ParseStream<'_>) -> syn::Error {
    let ahead = input.fork();
    let what = "arguments are written `name = value`";
    if let Some(error) = quoted_name(&ahead.fork()) {
        return error;
    }
    if let Ok(group) = ahead.fork().parse::<Group>()
        && let inside = innermost(&group)
        && let Some(what) = surrounded(&group).or_else(|| surrounded(&inside))
    {
        let help = format!("`#[idempotent({})]`", source(&inside.stream()));
        return mistake(group, what, help);
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
        Some(Lit::Int(_)) => format!("`expire = {text}`"),
        Some(Lit::Str(lit)) if Mode::NAMES.contains(&lit.value().as_str()) => {
            format!("`mode = {text}`")
        }
        Some(Lit::Str(lit)) if lit.value().starts_with(|c: char| c.is_ascii_digit()) => {
            format!("`expire = {text}`")
        }
        _ if is_name_value() => format!("`#[idempotent(key = {text})]`"),
        _ => format!("`key = {text}`"),
    };
    mistake(peel(&value), what, help)
}

/// The problem of a group around the arguments: braces, or a second pair of parentheses.
fn surrounded(group: &Group) -> Option<&'static str> {
    let mut tokens = group.stream().into_iter();
    let is_argument = match (tokens.next(), tokens.next()) {
        (Some(first), Some(second)) => {
            args::find(&first.to_string()).is_some()
                && matches!(second.to_string().as_str(), "=" | ",")
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

/// `"key" = ..`
fn quoted_name(input: ParseStream<'_>) -> Option<syn::Error> {
    let name: LitStr = input.parse().ok()?;
    input.parse::<Token![=]>().ok()?;
    let word = name.value();
    let value = written_value(input);
    let help = match (args::find(&word), value) {
        (Some(_), Some(value)) => format!("`{word} = {value}`"),
        (Some(argument), None) => format!("`{}`", argument.example),
        (None, _) => "`key = \"req.order_id\", expire = 300`".to_owned(),
    };
    Some(mistake(&name, "names of arguments are written without quotes", help))
}
