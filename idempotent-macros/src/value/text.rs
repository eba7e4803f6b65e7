//! Arguments with text for people: `message` and `name`.

use proc_macro2::{Ident, TokenStream};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, LitStr, Token};

use super::{Value, literal};
use crate::key::{self, Key};
use crate::mistake::mistake;
use crate::source::source;
use crate::synonyms;

/// The text for rejected callers.
#[derive(Debug)]
pub(crate) enum Message {
    /// A string, or a `&'static str` constant.
    Fixed(Expr),
    /// A string with holes.
    Template(Key),
}

impl Message {
    pub(crate) fn fixed(&self) -> Option<&Expr> {
        match self {
            Self::Fixed(text) => Some(text),
            Self::Template(_) => None,
        }
    }

    pub(crate) fn template(&self) -> Option<&Key> {
        match self {
            Self::Fixed(_) => None,
            Self::Template(template) => Some(template),
        }
    }
}

impl Value for Message {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        let help = format!("`{name} = \"already submitted\"`");
        if let Some(error) = key::called(name, value) {
            return Err(error);
        }
        match (value, literal(value)) {
            (_, Some(Lit::Str(text))) if text.value().trim().is_empty() => {
                Err(mistake(value, format!("`{name}` is empty"), help))
            }
            (_, Some(Lit::Str(text))) if text.value().contains(['{', '}']) => {
                let template = key::message(name, text)?;
                Ok(template.map_or_else(|| Self::Fixed(unescaped(text)), Self::Template))
            }
            (_, Some(Lit::Str(_))) | (Expr::Path(_), None) => Ok(Self::Fixed(value.clone())),
            (Expr::Macro(call), None) if call.mac.path.is_ident("format") => {
                let what = format!("`{name}` is a template itself");
                let template = key::formatted(&call.mac.tokens);
                let template = template.as_deref().unwrap_or("{req.order_id} exists");
                Err(mistake(&call.mac.path, what, format!("`{name} = \"{template}\"`")))
            }
            (Expr::Macro(_), None) => Ok(Self::Fixed(value.clone())),
            (Expr::Field(_) | Expr::MethodCall(_), None) => {
                let what = format!("`{name}` is a string, and reads values in braces only");
                Err(mistake(value, what, format!("`{name} = \"{{{}}}\"`", source(value))))
            }
            _ => Err(mistake(value, format!("`{name}` takes a string"), help)),
        }
    }
}

/// Text in which doubled braces stand for single ones.
fn unescaped(text: &LitStr) -> Expr {
    let value = text.value().replace("{{", "{").replace("}}", "}");
    let lit = Lit::Str(LitStr::new(&value, text.span()));
    Expr::Lit(ExprLit { attrs: Vec::new(), lit })
}

/// The operation's name. It is part of every key, so it is fixed at compile time.
#[derive(Debug)]
pub(crate) struct OperationName(pub(crate) LitStr);

impl Value for OperationName {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        let help = format!("`{name} = \"orders.create\"`");
        let Some(Lit::Str(text)) = literal(value) else {
            let help = match value {
                Expr::Path(_) | Expr::Field(_) | Expr::Binary(_) if !is_constant(value) => {
                    let written = source(value).replace("::", ".").replace(' ', "");
                    let words: Vec<_> = written.split('.').map(synonyms::snake_case).collect();
                    format!("`{name} = \"{}\"`", words.join("."))
                }
                Expr::Macro(call) if call.mac.path.is_ident("concat") => {
                    match joined(&call.mac.tokens) {
                        Some(operation) => format!("`{name} = \"{operation}\"`"),
                        None => help,
                    }
                }
                Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
                    format!("`{name} = \"{number}\"`")
                }
                Expr::Path(path) => {
                    format!("the text of `{}` in quotes, as in {help}", source(path))
                }
                _ => help,
            };
            return Err(mistake(value, format!("`{name}` takes a quoted string"), help));
        };
        let operation = text.value();
        if operation.trim().is_empty() {
            return Err(mistake(value, format!("`{name}` is empty"), help));
        }
        if operation.contains(char::is_control) {
            let what = format!("`{name}` has a control character in it");
            let clean = operation.replace(char::is_control, ".");
            return Err(mistake(value, what, format!("`{name} = \"{clean}\"`")));
        }
        if operation.contains(['{', '}']) {
            let what = format!("`{name}` is the same for every call, and has no holes");
            let help = without_holes(name, &operation);
            return Err(mistake(value, what, help));
        }
        Ok(Self(text.clone()))
    }
}

/// `billing.close` for the literals of `concat!("billing", ".", "close")`.
fn joined(arguments: &TokenStream) -> Option<String> {
    let parser = Punctuated::<Lit, Token![,]>::parse_terminated;
    let piece = |lit: Lit| match lit {
        Lit::Str(text) => Some(text.value()),
        Lit::Char(letter) => Some(letter.value().to_string()),
        Lit::Int(number) => Some(number.base10_digits().to_owned()),
        Lit::Bool(word) => Some(word.value.to_string()),
        _ => None,
    };
    let operation: String =
        parser.parse2(arguments.clone()).ok()?.into_iter().map(piece).collect::<Option<_>>()?;
    let is_name = !operation.trim().is_empty()
        && !operation.contains(|c: char| c.is_control() || "{}\"\\".contains(c));
    is_name.then_some(operation)
}

/// Help for a name with holes: what is fixed in it, and the holes as the scope.
fn without_holes(name: &Ident, operation: &str) -> String {
    let is_separator = |c: char| !c.is_alphanumeric() && c != '_';
    let fixed = operation.split(['{', '}']).step_by(2);
    let fixed: Vec<_> = fixed
        .map(|piece| piece.trim_matches(is_separator))
        .filter(|piece| !piece.is_empty())
        .collect();
    let fixed = if fixed.is_empty() { "orders.create".to_owned() } else { fixed.join(".") };
    let holes: Vec<_> = operation.split(['{', '}']).skip(1).step_by(2).map(str::trim).collect();
    let is_path = |hole: &&str| {
        matches!(syn::parse_str(hole), Ok(Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_)))
    };
    match holes.as_slice() {
        [hole] if is_path(hole) => format!("`{name} = \"{fixed}\", scope = \"{hole}\"`"),
        [_, ..] if holes.iter().all(is_path) => {
            format!("`{name} = \"{fixed}\", scope = \"({})\"`", holes.join(", "))
        }
        _ => format!("`{name} = \"{fixed}\"`; parts of a call go into `key` or `scope`"),
    }
}

/// Returns `true` for a name in capitals.
fn is_constant(value: &Expr) -> bool {
    !source(value).contains(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use quote::format_ident;
    use syn::parse_quote;

    use super::*;

    fn name(value: Expr) -> Option<String> {
        OperationName::read(&format_ident!("name"), &value).err().map(|error| error.to_string())
    }

    fn message(value: Expr) -> Option<String> {
        Message::read(&format_ident!("message"), &value).err().map(|error| error.to_string())
    }

    #[test]
    fn a_name_is_a_visible_string() {
        assert_eq!(name(parse_quote!("orders.create")), None);
        assert_eq!(
            name(parse_quote!("")).unwrap(),
            "`name` is empty\nhelp: `name = \"orders.create\"`"
        );
        assert!(name(parse_quote!(" ")).unwrap().starts_with("`name` is empty"));
        assert_eq!(
            name(parse_quote!("a\nb")).unwrap(),
            "`name` has a control character in it\nhelp: `name = \"a.b\"`"
        );
        assert_eq!(
            name(parse_quote!("orders.{req.item}")).unwrap(),
            "`name` is the same for every call, and has no holes\n\
             help: `name = \"orders\", scope = \"req.item\"`"
        );
        assert!(
            name(parse_quote!("{tenant}.orders.{shop}.create"))
                .unwrap()
                .ends_with("help: `name = \"orders.create\", scope = \"(tenant, shop)\"`")
        );
        assert_eq!(
            name(parse_quote!(concat!("billing", '.', "close", 2))).unwrap(),
            "`name` takes a quoted string\nhelp: `name = \"billing.close2\"`"
        );
        assert!(name(parse_quote!(NAME)).unwrap().starts_with("`name` takes a quoted string"));
        assert!(name(parse_quote!(3)).unwrap().starts_with("`name` takes a quoted string"));
    }

    #[test]
    fn a_message_is_a_string_or_a_constant() {
        assert_eq!(message(parse_quote!("already submitted")), None);
        assert_eq!(message(parse_quote!(texts::DUPLICATE)), None);
        assert_eq!(message(parse_quote!("order {req.id} of {user} exists")), None);
        assert_eq!(message(parse_quote!("{{}}")), None);
        assert_eq!(
            message(parse_quote!("order {req.id exists")).unwrap(),
            "`{` without `}`\nhelp: `message = \"order {req.id} exists\"`, or for a brace as text `{{`"
        );
        assert!(
            message(parse_quote!("{req.note?}")).unwrap().starts_with("`message` shows values")
        );
        assert!(
            message(parse_quote!(format!("a"))).unwrap().starts_with("`message` is a template")
        );
        assert!(message(parse_quote!("")).unwrap().starts_with("`message` is empty"));
        assert!(message(parse_quote!(3)).unwrap().starts_with("`message` takes a string"));
    }
}
