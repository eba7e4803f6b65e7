//! Splits `name = value, name, ..` into arguments, before the values are parsed.
//!
//! Unknown and repeated names, missing values and positional arguments are reported here and left
//! out, so that they do not cause further errors.

use darling::ast::NestedMeta;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Expr, Lit, LitStr, Meta, Token, parse_quote, token};

use crate::args::{self, Argument};
use crate::mistake::{ERROR_TYPE, Mistakes, mistake};
use crate::suggest::{nearest, quoted_list};
use crate::synonyms::{self, Synonym};
use crate::value::{Mode, final_errors, literal, peel};

/// Splits the argument list. Every returned entry has a known name and appears once.
pub(crate) fn split(arguments: TokenStream, mistakes: &mut Mistakes) -> Vec<NestedMeta> {
    let parser = |input: ParseStream<'_>| Ok(entries(input, mistakes));
    parser.parse2(arguments).unwrap_or_default()
}

fn entries(input: ParseStream<'_>, mistakes: &mut Mistakes) -> Vec<NestedMeta> {
    let mut metas: Vec<Meta> = Vec::new();
    while !input.is_empty() {
        match entry(input) {
            Ok((name, meta)) => match metas.iter().find(|known| known.path().is_ident(&name)) {
                Some(first) => mistakes.push(repeated(&name, first, &meta)),
                None => metas.push(meta),
            },
            Err(error) => {
                mistakes.push(error);
                skip_to_comma(input);
            }
        }
        if let Some(error) = missing_comma(input) {
            mistakes.push(error);
        }
    }
    metas.into_iter().map(NestedMeta::Meta).collect()
}

fn entry(input: ParseStream<'_>) -> syn::Result<(Ident, Meta)> {
    if !input.peek(syn::Ident::peek_any) || is_positional(input) {
        return Err(positional(input));
    }
    let name = input.call(Ident::parse_any)?;
    let Some(argument) = args::find(&name.to_string()) else {
        return Err(unknown(&name, input));
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
    if let Some(error) = other_separator(input, &name, argument) {
        return Err(error);
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
    if argument.is_text
        && let Some(error) = text_without_quotes(input, name)
    {
        return Err(error);
    }
    let start = input.fork();
    input.parse().map_err(|_| {
        let at: TokenStream = start.parse::<TokenTree>().map(|tree| tree.0).unwrap_or_default();
        let what = format!("the value of `{name}` is not an expression");
        mistake(at, what, format!("`{}`", argument.example))
    })
}

/// `message = Already submitted`
fn text_without_quotes(input: ParseStream<'_>, name: &Ident) -> Option<syn::Error> {
    let ahead = input.fork();
    let mut words = Vec::new();
    while !ends(&ahead) {
        words.push(ahead.call(Ident::parse_any).ok()?);
    }
    if words.len() < 2 {
        return None;
    }
    let text = words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let what = format!("the text of `{name}` stands in quotes");
    Some(mistake(quote!(#(#words)*), what, format!("`{name} = \"{text}\"`")))
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
    if let Some(error) = quoted_name(&ahead.fork()) {
        return error;
    }
    if let Ok(object) = ahead.fork().parse::<proc_macro2::Group>()
        && object.delimiter() == proc_macro2::Delimiter::Brace
    {
        let what = "arguments stand in the parentheses, without braces";
        let help = format!("`#[idempotent({})]`", source(&object.stream()));
        return mistake(object, what, help);
    }
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
        Some(Lit::Str(lit)) if lit.value().starts_with(|c: char| c.is_ascii_digit()) => {
            format!("`expire = {text}`")
        }
        _ => format!("`key = {text}`"),
    };
    mistake(peel(&value), what, help)
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

/// An expression and what follows it up to the next comma, as it was written, for help texts.
fn written_value(input: ParseStream<'_>) -> Option<String> {
    let ahead = input.fork();
    let constant = ahead.parse::<Option<Token![const]>>().ok()?;
    let value: Expr = ahead.parse().ok()?;
    let text = source(&value);
    Some(if constant.is_some() { format!("const {text}") } else { text })
}

fn unknown(name: &Ident, rest: ParseStream<'_>) -> syn::Error {
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
    let help = match synonyms::find(&word) {
        _ if Mode::NAMES.contains(&word.as_str()) && value.as_deref() != Some("false") => {
            match value.as_deref() {
                None | Some("true") => format!("`mode = \"{word}\"`"),
                Some(value) => format!("`mode = \"{word}\", expire = {value}`"),
            }
        }
        Some(Synonym::Say(help)) => help.to_owned(),
        Some(Synonym::Of(near)) => did_you_mean(near, value),
        None => match nearest(&synonyms::snake_case(&word), names()) {
            Some(near) => did_you_mean(near, value),
            None => format!("the arguments are {}", quoted_list(names())),
        },
    };
    mistake(name, format!("unknown argument `{word}`"), help)
}

/// Proposes another name, with the value that was given to the unknown one if the other takes it.
fn did_you_mean(name: &str, value: Option<String>) -> String {
    let takes = |value: &str| {
        let tokens: TokenStream = format!("{name} = {value}").parse().ok()?;
        let mut mistakes = Mistakes::default();
        args::Args::parse(tokens, &mut mistakes);
        mistakes.is_empty().then_some(())
    };
    let value = value.map(|value| match args::find(name).filter(|argument| argument.is_key) {
        Some(_) => as_tuple(&value).unwrap_or(value),
        None => value,
    });
    match (args::find(name), value) {
        (Some(Argument { takes_value: true, .. }), Some(value)) if takes(&value).is_some() => {
            format!("did you mean `{name} = {value}`?")
        }
        (Some(Argument { takes_value: true, example, .. }), _) => {
            format!("did you mean `{example}`?")
        }
        _ => format!("did you mean `{name}`?"),
    }
}

/// `"(a, b)"` for `["a", "b"]`.
fn as_tuple(value: &str) -> Option<String> {
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

/// `key: ..`, `key => ..`, `key == ..`
fn other_separator(
    input: ParseStream<'_>,
    name: &Ident,
    argument: &Argument,
) -> Option<syn::Error> {
    let ahead = input.fork();
    let separator = if ahead.peek(Token![:]) && !ahead.peek(Token![::]) {
        ahead.parse::<Token![:]>().ok()?.to_token_stream()
    } else if ahead.peek(Token![=>]) {
        ahead.parse::<Token![=>]>().ok()?.to_token_stream()
    } else if ahead.peek(Token![==]) {
        ahead.parse::<Token![==]>().ok()?.to_token_stream()
    } else {
        return None;
    };
    let what = format!("`{name}` takes its value after `=`");
    let help = match written_value(&ahead) {
        Some(value) => format!("`{name} = {value}`"),
        None => format!("`{}`", argument.example),
    };
    Some(mistake(separator, what, help))
}

fn repeated(name: &Ident, first: &Meta, second: &Meta) -> syn::Error {
    let path = |meta: &Meta| match meta {
        Meta::NameValue(pair) => match literal(&pair.value) {
            Some(Lit::Str(text)) => Some(text.value()),
            Some(_) => None,
            None => Some(source(&pair.value)),
        },
        _ => None,
    };
    let is_key = args::find(&name.to_string()).is_some_and(|argument| argument.is_key);
    let help = match (path(first), path(second)) {
        (Some(first), Some(second)) if is_key && !first.contains('{') && !second.contains('{') => {
            format!("several parts are a tuple: `{name} = \"({first}, {second})\"`")
        }
        _ => format!("remove one `{name}`"),
    };
    mistake(name, format!("`{name}` is given twice"), help)
}

fn no_value(name: &Ident, argument: &Argument) -> syn::Error {
    let help = match argument.name {
        "final_errors" => final_errors(ERROR_TYPE, "true"),
        _ => format!("`{}`", argument.example),
    };
    mistake(name, format!("`{name}` needs a value"), help)
}

fn parenthesised(name: &Ident, argument: &Argument, group: &TokenStream) -> syn::Error {
    let what = format!("`{name}` takes its value after `=`");
    let value = syn::parse2::<syn::ExprParen>(group.clone()).ok();
    let help = match value.filter(|_| argument.takes_value) {
        Some(value) => format!("`{name} = {}`", source(&value.expr)),
        None => format!("`{}`", argument.example),
    };
    mistake(quote!(#name #group), what, help)
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

/// A type roughly as it was written, for help texts.
pub(crate) fn type_source(ty: &syn::Type) -> String {
    source(ty).replace(" < ", "<").replace("< ", "<").replace(" >", ">")
}
