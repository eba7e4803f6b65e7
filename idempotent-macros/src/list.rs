//! Splits `name = value, name, ..` into arguments, before the values are parsed.
//!
//! Unknown and repeated names, missing values and positional arguments are reported here and left
//! out, so that they do not cause further errors.

use darling::ast::NestedMeta;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Expr, Lit, Meta, Token, parse_quote, token};

use crate::args::{self, Argument};
use crate::mistake::{Mistakes, mistake};
use crate::suggest::{nearest, quoted_list};
use crate::value::{Mode, literal, peel};

/// Splits the argument list. Every returned entry has a known name and appears once.
pub(crate) fn split(arguments: TokenStream, mistakes: &mut Mistakes) -> Vec<NestedMeta> {
    let parser = |input: ParseStream<'_>| Ok(entries(input, mistakes));
    parser.parse2(arguments).unwrap_or_default()
}

fn entries(input: ParseStream<'_>, mistakes: &mut Mistakes) -> Vec<NestedMeta> {
    let mut metas: Vec<NestedMeta> = Vec::new();
    let mut names: Vec<Ident> = Vec::new();
    while !input.is_empty() {
        match entry(input) {
            Ok((name, _)) if names.contains(&name) => mistakes.push(repeated(&name)),
            Ok((name, meta)) => {
                names.push(name);
                metas.push(NestedMeta::Meta(meta));
            }
            Err(error) => {
                mistakes.push(error);
                skip_to_comma(input);
            }
        }
        if let Some(error) = missing_comma(input) {
            mistakes.push(error);
        }
    }
    metas
}

fn entry(input: ParseStream<'_>) -> syn::Result<(Ident, Meta)> {
    if !input.peek(syn::Ident::peek_any) || is_positional(input) {
        return Err(positional(input));
    }
    let name = input.call(Ident::parse_any)?;
    let Some(argument) = args::find(&name.to_string()) else {
        return Err(unknown(&name));
    };
    if input.peek(token::Paren) {
        return Err(parenthesised(&name, argument, &input.parse::<TokenTree>()?.0));
    }
    if ends(input) {
        return match argument.takes_value {
            true => Err(no_value(&name, argument)),
            false => Ok((name.clone(), Meta::Path(name.into()))),
        };
    }
    let Ok(eq_token) = input.parse::<Token![=]>() else {
        return Err(no_value(&name, argument));
    };
    if ends(input) {
        return Err(no_value(&name, argument));
    }
    let value = value(input, &name, argument)?;
    let meta = syn::MetaNameValue { path: name.clone().into(), eq_token, value };
    Ok((name, Meta::NameValue(meta)))
}

/// Parses a value. `const X` becomes the expression `const { X }`, which `key` expects.
fn value(input: ParseStream<'_>, name: &Ident, argument: &Argument) -> syn::Result<Expr> {
    if input.peek(Token![const]) && !input.peek2(token::Brace) {
        let const_token: Token![const] = input.parse()?;
        if ends(input) {
            let what = "`const` without a value";
            return Err(mistake(const_token, what, format!("`{name} = const \"nightly\"`")));
        }
        let value: Expr = input.parse()?;
        if !argument.is_key {
            let what = format!("`{name}` does not take `const`");
            let help = format!("remove `const`: `{name} = {}`", source(&value));
            return Err(mistake(const_token, what, help));
        }
        return Ok(parse_quote!(const { #value }));
    }
    let start = input.fork();
    input.parse().map_err(|_| {
        let at: TokenStream = start.parse::<TokenTree>().map(|tree| tree.0).unwrap_or_default();
        let what = format!("the value of `{name}` is not an expression");
        mistake(at, what, format!("`{}`", argument.example))
    })
}

/// Returns `true` for an identifier that continues as an expression: `req.order_id`, `a::b`.
fn is_positional(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let Ok(word) = ahead.call(Ident::parse_any) else {
        return true;
    };
    let goes_on = ahead.peek(Token![.]) || ahead.peek(Token![::]) || ahead.peek(Token![!]);
    goes_on && args::find(&word.to_string()).is_none()
}

fn positional(input: ParseStream<'_>) -> syn::Error {
    let ahead = input.fork();
    let what = "arguments are written `name = value`";
    let Ok(value) = ahead.parse::<Expr>() else {
        let at: TokenStream =
            input.fork().parse::<TokenTree>().map(|tree| tree.0).unwrap_or_default();
        return mistake(at, what, "`key = \"req.order_id\", expire = 300`");
    };
    let text = source(&value);
    let help = match literal(&value) {
        Some(Lit::Int(_)) => format!("`expire = {text}`"),
        Some(Lit::Str(lit)) if Mode::NAMES.contains(&lit.value().as_str()) => {
            format!("`mode = {text}`")
        }
        _ => format!("`key = {text}`"),
    };
    mistake(peel(&value), what, help)
}

fn unknown(name: &Ident) -> syn::Error {
    let word = name.to_string();
    let help = if Mode::NAMES.contains(&word.as_str()) {
        format!("`mode = \"{word}\"`")
    } else {
        match nearest(&word, args::ARGUMENTS.iter().map(|argument| argument.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let names = args::ARGUMENTS.iter().map(|argument| argument.name);
                format!("the arguments are {}", quoted_list(names))
            }
        }
    };
    mistake(name, format!("unknown argument `{word}`"), help)
}

fn repeated(name: &Ident) -> syn::Error {
    mistake(name, format!("`{name}` is given twice"), format!("remove one `{name}`"))
}

fn no_value(name: &Ident, argument: &Argument) -> syn::Error {
    mistake(name, format!("`{name}` needs a value"), format!("`{}`", argument.example))
}

fn parenthesised(name: &Ident, argument: &Argument, group: &TokenStream) -> syn::Error {
    let what = format!("`{name}` takes its value after `=`");
    mistake(quote!(#name #group), what, format!("`{}`", argument.example))
}

fn missing_comma(input: ParseStream<'_>) -> Option<syn::Error> {
    if input.is_empty() || input.parse::<Token![,]>().is_ok() {
        return None;
    }
    let at: TokenStream = input.fork().parse::<TokenTree>().map(|tree| tree.0).unwrap_or_default();
    let what = format!("expected `,` before `{at}`");
    let named = input.peek(syn::Ident::peek_any);
    if !named {
        skip_to_comma(input);
        let _ = input.parse::<Token![,]>();
    }
    Some(mistake(&at, what, "separate the arguments with commas"))
}

fn ends(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !ends(input) && input.parse::<TokenTree>().is_ok() {}
}

/// One token tree, kept as a stream.
struct TokenTree(TokenStream);

impl Parse for TokenTree {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        Ok(Self(input.parse::<proc_macro2::TokenTree>()?.into()))
    }
}

/// The expression roughly as it was written, for help texts.
pub(crate) fn source(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (spaced, tight) in [
        (" . ", "."),
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" (", "("),
        (" [", "["),
        (" ,", ","),
        (" ?", "?"),
        ("& ", "&"),
        (" !", "!"),
    ] {
        text = text.replace(spaced, tight);
    }
    text
}
