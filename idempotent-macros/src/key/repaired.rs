//! Quoted keys that are no expressions: what they look like, and the same as a key.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::{Expr, ExprTuple, Lit, LitStr};

use super::{from_expression, quoted};
use crate::mistake::mistake;
use crate::source::source;

/// Help for a field whose name is a keyword.
pub(crate) const RENAMED: &str = "the name that the field has in the struct; if it is the same: ";

/// The problem of `event.type`, and the same with a raw name.
pub(crate) fn keyword(text: &str) -> Option<(String, String)> {
    fn raw(tokens: TokenStream, found: &mut Option<String>) -> TokenStream {
        let mut after_dot = false;
        let replace = |token: TokenTree| {
            let is_field = std::mem::replace(&mut after_dot, token.to_string() == ".");
            match token {
                TokenTree::Ident(word)
                    if is_field && word != "await" && is_keyword(&word.to_string()) =>
                {
                    found.get_or_insert_with(|| word.to_string());
                    Ident::new_raw(&word.to_string(), word.span()).into()
                }
                TokenTree::Group(group) => {
                    Group::new(group.delimiter(), raw(group.stream(), found)).into()
                }
                token => token,
            }
        };
        tokens.into_iter().map(replace).collect()
    }
    // `self` and some others are no raw names.
    fn is_keyword(word: &str) -> bool {
        let is_name = |text: &str| syn::parse_str::<Ident>(text).is_ok();
        !is_name(word) && is_name(&format!("r#{word}"))
    }
    let mut found = None;
    let tokens = raw(text.parse().ok()?, &mut found);
    let word = found?;
    syn::parse2::<Expr>(tokens.clone()).ok()?;
    Some((format!("`{word}` is a keyword of Rust"), source(&tokens)))
}

/// The error for `'nightly'` and `'order:' + id`, texts of other languages.
pub(super) fn in_single_quotes(name: &Ident, text: &LitStr) -> Option<syn::Error> {
    let value = text.value();
    let fixed = value.trim().strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    if let Some(fixed) =
        fixed.filter(|fixed| !fixed.contains(['\'', '"', '\\']) && !fixed.is_empty())
    {
        let what = format!("`'{fixed}'` is a text, and not a field path");
        let help = format!("for one key of all calls: `{name} = const \"{fixed}\"`");
        return Some(mistake(text, what, help));
    }
    let expr = quoted::parse_text::<Expr>(&value.replace('\'', "\""), text.span()).ok()?;
    matches!(expr, Expr::Binary(_)).then(|| from_expression(name, &expr).err())?
}

/// Returns `true` for text that is none of an expression, which as a constant would be the same for every
/// call.
pub(super) fn looks_fixed(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | ':' | '/');
    text.chars().all(is_plain) && !text.contains("::")
}

/// The problem of a parenthesis or a bracket without its counterpart, and the text with both.
pub(super) fn unclosed(text: &str) -> Option<(String, String)> {
    let (open, close) = [('(', ')'), ('[', ']')]
        .into_iter()
        .find(|(open, close)| text.matches(*open).count() != text.matches(*close).count())?;
    let is_open = text.matches(open).count() > text.matches(close).count();
    let (alone, partner, closed) = match is_open {
        true => (open, close, format!("{text}{close}")),
        false => (close, open, format!("{open}{text}")),
    };
    let closed = match syn::parse_str(&closed) {
        Ok(Expr::Array(array)) => format!("({})", source(&array.elems)),
        // A pair around a path does nothing.
        Ok(Expr::Paren(paren)) => source(&paren.expr),
        Ok(_) => closed,
        // Several are missing: tuples do not nest.
        Err(_) => {
            let flat = format!("({})", text.replace([open, close], ""));
            syn::parse_str::<ExprTuple>(&flat).ok()?;
            flat
        }
    };
    Some((format!("`{alone}` without `{partner}`"), closed))
}

/// A constant as it stands after `const`: a literal and the path of a constant as they are, other
/// text in quotes.
pub(super) fn fixed(text: &str) -> String {
    let is_constant = syn::parse_str::<syn::Path>(text).is_ok_and(|path| {
        let last = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        !last.contains(char::is_lowercase)
    });
    match is_constant || syn::parse_str::<Lit>(text).is_ok() {
        true => text.to_owned(),
        false => format!("\"{}\"", text.trim_matches(['\'', '\\', '"'])),
    }
}

/// An operator of another language that stands between a value and another one to take without it, and the
/// expression with `||` in its place.
pub(super) fn fallback(text: &str) -> Option<(&'static str, Expr)> {
    ["??", "?:", " or "].into_iter().find_map(|operator| {
        let (first, second) = text.split_once(operator)?;
        let expr =
            syn::parse_str(&format!("{first} || {second}").replace(operator, " || ")).ok()?;
        Some((operator.trim(), expr))
    })
}

/// Returns `true` for several names with nothing but space between them.
pub(super) fn is_words(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_name = |word: &str| syn::parse_str::<Ident>(word).is_ok();
    words.clone().count() > 1 && words.all(is_name) && !text.starts_with("mut ")
}

/// `order:{req.id}` for `order:req.id`, in which the braces were left out.
pub(super) fn with_braces(text: &str) -> Option<String> {
    let is_field = |text: &str| syn::parse_str::<syn::ExprField>(text).is_ok();
    let mut found = false;
    let pieces = text.split_inclusive([':', '/', '|']).map(|piece| {
        let field = piece.trim_end_matches([':', '/', '|']);
        match is_field(field) {
            true => {
                found = true;
                format!("{{{field}}}{}", &piece[field.len()..])
            }
            false => piece.to_owned(),
        }
    });
    let template: String = pieces.collect();
    found.then_some(template)
}
