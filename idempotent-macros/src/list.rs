//! Splits `name = value, name, ..` into arguments, before the values are parsed.
//!
//! Unknown and repeated names, missing values and positional arguments are reported here and left
//! out, so that they do not cause further errors.

mod by_value;
mod comments;
mod misplaced;
mod neighbours;
mod no_expression;
mod not_kept;
mod positional;
mod separators;
mod unknown;
mod with_parameters;

use darling::ast::NestedMeta;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Expr, Lit, LitStr, Meta, Token, parse_quote, token};

pub(crate) use self::comments::{comment, not_here};
use self::misplaced::misplaced;
use self::neighbours::Neighbours;
use self::no_expression::no_expression;
use self::positional::{for_key, positional};
use self::separators::{other_separator, with_other_separators};
use self::unknown::{is_type_of_key, unknown};
use crate::args::{self, Argument};
use crate::mistake::{Mistakes, mistake, reported};
use crate::source::source;
use crate::value::{Mode, final_errors, literal};
use crate::words::{ERROR_TYPE, TRANSACTION_PARAMETER, WHOLE_PAYLOAD};

/// Splits the argument list. Every returned entry has a known name and appears once.
///
/// `parameters` are those of the function, which are often written without `key =`.
pub(crate) fn split(
    arguments: TokenStream,
    parameters: &[String],
    mistakes: &mut Mistakes,
) -> Vec<NestedMeta> {
    let mut list = Vec::new();
    let parser = |input: ParseStream<'_>| {
        list = entries(input, parameters, mistakes);
        Ok(())
    };
    // An error here is about a group that was not read to its end, which has been reported.
    let _ = parser.parse2(arguments);
    list
}

fn entries(
    input: ParseStream<'_>,
    parameters: &[String],
    mistakes: &mut Mistakes,
) -> Vec<NestedMeta> {
    if let Some((error, corrected)) = with_other_separators(input) {
        mistakes.push(error);
        let _ = input.parse::<TokenStream>();
        return split(corrected, parameters, mistakes);
    }
    let mut metas: Vec<Meta> = Vec::new();
    let neighbours = Neighbours::of(input.fork().parse().unwrap_or_default());
    let mut converts = false;
    while !input.is_empty() {
        comments::take(input, mistakes);
        if input.is_empty() {
            break;
        }
        let ahead = input.fork();
        if let Some(error) = with_parameters::positional(input, metas.last(), parameters) {
            mistakes.push(error);
            metas.pop();
            continue;
        }
        if let Some(error) = bare_parameter(input, metas.last(), parameters, &neighbours) {
            mistakes.push(error);
            skip_to_comma(input);
            let _ = input.parse::<Token![,]>();
            continue;
        }
        match entry(input, parameters, &neighbours) {
            Ok((name, meta)) => match metas.iter().find(|known| known.path().is_ident(&name)) {
                Some(first) => mistakes.push(repeated(&name, first, &meta)),
                None => match with_parameters::refusal(&meta, parameters) {
                    Some(error) => mistakes.push(error),
                    None => metas.push(meta),
                },
            },
            Err(error) => {
                mistakes.push(error);
                converts |= ahead.call(Ident::parse_any).is_ok_and(|name| name == "convert");
                skip_to_comma(input);
            }
        }
        comments::take(input, mistakes);
        if let Some(error) = missing_comma(input) {
            mistakes.push(error);
        }
    }
    metas.retain(|meta| !(converts && is_type_of_key(meta)));
    metas.into_iter().map(NestedMeta::Meta).collect()
}

fn entry(
    input: ParseStream<'_>,
    parameters: &[String],
    neighbours: &Neighbours,
) -> syn::Result<(Ident, Meta)> {
    if !input.peek(syn::Ident::peek_any) || is_positional(input) {
        return Err(positional(input, neighbours));
    }
    if let Some(error) = hyphenated(input) {
        return Err(error);
    }
    let name = input.call(Ident::parse_any)?;
    let Some(argument) = args::find(&name.to_string()) else {
        return Err(unknown(&name, input, parameters, neighbours));
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
    if let Some(error) =
        goes_on(input, &name, &value).or_else(|| misplaced(&name, &value, parameters, neighbours))
    {
        return Err(error);
    }
    let meta = syn::MetaNameValue { path: name.clone().into(), eq_token, value };
    Ok((name, Meta::NameValue(meta)))
}

/// Parses a value. `const X` becomes the expression `const { X }`, which `key` expects.
fn value(input: ParseStream<'_>, name: &Ident, argument: &Argument) -> syn::Result<Expr> {
    if input.peek(Token![const]) && !input.peek2(token::Brace) {
        let const_token: Token![const] = input.parse()?;
        if ends(input) {
            let what = "`const` without a value";
            let help = format!("a literal or the name of a constant: `{name} = const \"..\"`");
            return Err(mistake(const_token, what, help));
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
    if let Ok(literal) = input.fork().parse::<proc_macro2::Literal>()
        && let Some(text) = literal.to_string().strip_prefix('\'')
    {
        let text = text.trim_end_matches('\'');
        if !matches!(text.chars().count(), 0 | 1) && !text.starts_with('\\') {
            // rustc asks for double quotes itself.
            return Err(reported());
        }
        let what = format!("the value of `{name}` stands in double quotes");
        return Err(mistake(literal, what, format!("`{name} = \"{text}\"`")));
    }
    input.parse().map_err(|_| no_expression(&start, name, argument))
}

/// `key = user, id` and `user, id`, where a parameter stands for itself.
fn bare_parameter(
    input: ParseStream<'_>,
    before: Option<&Meta>,
    parameters: &[String],
    neighbours: &Neighbours,
) -> Option<syn::Error> {
    let part: Expr = input.fork().parse().ok()?;
    let text = with_parameters::bare(&input.fork(), parameters)?;
    let before = match before {
        Some(Meta::NameValue(key)) => key.path.get_ident().zip(match literal(&key.value) {
            Some(Lit::Str(text)) => Some(text.value()),
            Some(_) => None,
            None => Some(source(&key.value)),
        }),
        _ => None,
    };
    let is_key = |name: &Ident| args::find(&name.to_string()).is_some_and(|known| known.is_key);
    let (what, help) = match before.filter(|(name, first)| is_key(name) && !first.contains('{')) {
        Some((name, first)) => {
            let first = first.trim_matches(['(', ')']);
            let what = format!("several parts of `{name}` are a tuple");
            (what, format!("`{name} = ({first}, {text})`"))
        }
        None => ("arguments are written `name = value`".to_owned(), for_key(&text, neighbours)),
    };
    Some(mistake(part, what, help))
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

/// `max-run = ..`
fn hyphenated(input: ParseStream<'_>) -> Option<syn::Error> {
    let ahead = input.fork();
    let mut words = vec![ahead.call(Ident::parse_any).ok()?];
    while ahead.parse::<Token![-]>().is_ok() {
        words.push(ahead.call(Ident::parse_any).ok()?);
    }
    let name = words.iter().map(ToString::to_string).collect::<Vec<_>>().join("_");
    let argument = args::find(&name).filter(|_| words.len() > 1)?;
    let value = ahead.parse::<Token![=]>().ok().and_then(|_| written_value(&ahead));
    let help = match value.filter(|_| argument.takes_value) {
        Some(value) => format!("`{name} = {value}`"),
        None => format!("`{}`", argument.example),
    };
    Some(mistake(quote!(#(#words)-*), "names of arguments have underscores", help))
}

/// `key = user:{user}`, `expire = 10 min`: what follows a value and does not begin another argument
/// belongs to the value, which stands in quotes.
fn goes_on(input: ParseStream<'_>, name: &Ident, value: &Expr) -> Option<syn::Error> {
    let is_text = matches!(literal(value), Some(Lit::Str(_)));
    if is_text || ends(input) || next_argument(&input.fork()) {
        return None;
    }
    let ahead = input.fork();
    let mut rest = TokenStream::new();
    while !ends(&ahead) {
        rest.extend(ahead.parse::<TokenTree>().ok()?.0);
    }
    if let (Expr::Path(_), Ok(text)) = (value, syn::parse2::<LitStr>(rest.clone())) {
        // `f".."` of Python.
        let what = format!("a string in `{name}` has no prefix");
        return Some(mistake(value, what, format!("`{name} = {}`", source(&text))));
    }
    let text = format!("{}{}", source(value), source(&rest));
    let text = text.replace(['"', ' '], "");
    let quoted = format!("{name} = \"{text}\"");
    let mut mistakes = Mistakes::default();
    args::Args::parse(quoted.parse().ok()?, &[], &mut mistakes);
    let help = match mistakes.or(()) {
        Ok(()) => format!("`{quoted}`"),
        // `10min`, which is answered with `10m`.
        Err(error) => error.to_string().split_once("\nhelp: ")?.1.to_owned(),
    };
    Some(mistake(quote!(#value #rest), format!("the value of `{name}` needs quotes"), help))
}

/// Returns `true` if an argument begins here, and the comma before it is missing.
fn next_argument(input: ParseStream<'_>) -> bool {
    let Ok(word) = input.call(Ident::parse_any) else { return false };
    input.peek(Token![=]) || args::find(&word.to_string()).is_some()
}

/// Returns `true` for an identifier that continues as an expression: `req.order_id`, `a::b`.
fn is_positional(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let Ok(word) = ahead.call(Ident::parse_any) else {
        return true;
    };
    let goes_on = ahead.peek(Token![.]) || ahead.peek(Token![::]) || ahead.peek(Token![!]);
    let is_whole = ends(&ahead) && is_constant(&word);
    (goes_on || is_whole) && args::find(&word.to_string()).is_none()
}

/// Returns `true` for the name of a constant.
fn is_constant(name: &Ident) -> bool {
    let name = name.to_string();
    name.len() > 1
        && name.starts_with(char::is_uppercase)
        && name.chars().all(|c| c.is_uppercase() || c.is_numeric() || c == '_')
        && Mode::of(&name.to_lowercase()).is_none()
}

/// An expression and what follows it up to the next comma, as it was written, for help texts.
fn written_value(input: ParseStream<'_>) -> Option<String> {
    let ahead = input.fork();
    let constant = ahead.parse::<Option<Token![const]>>().ok()?;
    let value: Expr = ahead.parse().ok()?;
    let text = source(&value);
    Some(if constant.is_some() { format!("const {text}") } else { text })
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
        "fingerprint" => format!("{WHOLE_PAYLOAD}`{}`", argument.example),
        "transaction" => format!("`{}`{TRANSACTION_PARAMETER}", argument.example),
        _ => format!("`{}`", argument.example),
    };
    mistake(name, format!("`{name}` needs a value"), help)
}

fn parenthesised(name: &Ident, argument: &Argument, group: &TokenStream) -> syn::Error {
    let what = format!("`{name}` takes its value after `=`");
    if argument.is_key
        && syn::parse2::<syn::ExprTuple>(group.clone()).is_ok_and(|it| it.elems.len() > 1)
    {
        return mistake(quote!(#name #group), what, format!("`{name} = {}`", source(group)));
    }
    let value = match syn::parse2::<Expr>(group.clone()).ok() {
        Some(Expr::Paren(value)) => match &*value.expr {
            Expr::Assign(named) => Some(source(&named.right)),
            value => Some(source(value)),
        },
        // Answered like a list in brackets.
        Some(Expr::Tuple(values)) if name == "final_errors" && !values.elems.is_empty() => {
            Some(format!("[{}]", source(&values.elems)))
        }
        _ => None,
    };
    let help = match value.filter(|_| argument.takes_value) {
        Some(value) => {
            let text = format!("{name} = {value}");
            let mut mistakes = Mistakes::default();
            args::Args::parse(text.parse().unwrap_or_default(), &[], &mut mistakes);
            let refusal = mistakes.or(()).err().map(|error| error.to_string());
            match refusal.as_deref().and_then(|refusal| refusal.split_once("\nhelp: ")) {
                Some((_, help)) => help.to_owned(),
                None => format!("`{text}`"),
            }
        }
        None => format!("`{}`", argument.example),
    };
    mistake(quote!(#name #group), what, help)
}

fn missing_comma(input: ParseStream<'_>) -> Option<syn::Error> {
    if input.is_empty() || input.parse::<Token![,]>().is_ok() {
        return None;
    }
    if let Ok(semicolon) = input.parse::<Token![;]>() {
        let help = "separate the arguments with commas: `key = \"req.order_id\", expire = 300`";
        return Some(mistake(semicolon, "expected `,`, found `;`", help));
    }
    if input.fork().call(Ident::parse_any).is_ok_and(|word| word == "and")
        && let Ok(and) = input.call(Ident::parse_any)
    {
        let help = "separate the arguments with commas: `key = \"req.order_id\", expire = 300`";
        return Some(mistake(and, "expected `,`, found `and`", help));
    }
    let at: TokenStream = input.fork().parse::<TokenTree>().map(|tree| tree.0).unwrap_or_default();
    let what = format!("expected `,` before `{at}`");
    let ahead = input.fork();
    let named = input.peek(syn::Ident::peek_any);
    if !named {
        skip_to_comma(input);
        let _ = input.parse::<Token![,]>();
    }
    let next = next_argument(&ahead).then(|| {
        let _ = ahead.parse::<Token![=]>();
        written_value(&ahead).map(|value| format!("{at} = {value}"))
    });
    let next = next.flatten().unwrap_or_else(|| at.to_string());
    Some(mistake(&at, what, format!("separate the arguments with commas: `, {next}`")))
}

fn ends(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,]) || input.peek(Token![;])
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
