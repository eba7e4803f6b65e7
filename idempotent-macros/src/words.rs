//! The names of the user's function, for the examples in help texts.
//!
//! Arguments are parsed without the function in view, and their examples speak of a parameter `req`,
//! an error `OrderError`, a value `Order` and a transaction `tx`. An example that does not fit is a
//! second mistake, so the names are replaced where the function has others. A function without any leaves `..`
//! for the user to fill in.

mod paths;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::{FnArg, Pat, Type};

use self::paths::{marked, replace_paths};
use crate::function::{Function, result_types};
use crate::methods::Methods;
use crate::source::type_source;
use crate::synonyms::snake_case;
use crate::validate::dotted;

/// The error type of the function, in examples that are written before it is known.
pub(crate) const ERROR_TYPE: &str = "OrderError";

/// The type of the value, in the same examples.
pub(crate) const VALUE_TYPE: &str = "Order";

/// The fingerprint in examples.
const PAYLOAD: &str = "(req.amount, req.currency)";

/// The fields of `req` in examples.
const FIELDS: [&str; 8] =
    ["order_id", "item", "user", "amount", "currency", "tenant", "token", "reference"];

/// The name of the operation in examples.
const OPERATION: &str = "orders.create";

/// Help that needs a parameter with fields.
pub(crate) const WHOLE_PAYLOAD: &str = "`fingerprint = \"req\"` if the type derives `KeyPart`, or ";

/// Help that needs a function without a transaction.
pub(crate) const TRANSACTION_PARAMETER: &str = ", with a parameter `tx: &mut sqlx::PgConnection`; the crates: `cargo add idempotent-sql --features \
     sqlx-postgres`, `cargo add sqlx --features postgres`";

/// An instance in a function without a receiver, in place of the same with one.
const INSTANCE: [(&str, &str); 2] = [
    (
        "`with = self.idempotency`, with a field `idempotency: idempotent_runtime::Idempotency`",
        "`with = idempotency`, with a parameter `idempotency: &idempotent_runtime::Idempotency`",
    ),
    ("`with = self.idempotency`", "`with = idempotency`"),
];

/// A loop around a call of the function, in examples that are written before it is known.
const RETRIED: &str = ": `for _ in 0..3 { if create_order(req).await.is_ok() { break } }`";

/// The call in it.
const CALL: &str = "create_order(req)";

/// The names that examples use.
#[derive(Debug, Default)]
pub(crate) struct Words {
    error: Option<String>,
    value: Option<String>,
    /// The type of the value, if the error is that of the runtime, or text: it has no `is_final`.
    value_beside_refusal: Option<String>,
    /// A parameter that has fields, unless there is one with the name `req`.
    request: Option<String>,
    /// The fields of that parameter that the body reads.
    fields: Vec<String>,
    /// The words that the user wrote, in snake case: help that has them speaks of fields that there are.
    written: Vec<String>,
    /// A name for the operation.
    operation: Option<String>,
    /// Parameters that are keys themselves.
    scalars: Vec<String>,
    transaction: Option<String>,
    methods: Methods,
    is_free: bool,
    /// A call of the function that its caller can repeat.
    call: Option<String>,
}

impl Words {
    /// The names of the function whose attribute has these arguments.
    pub(crate) fn of(function: &Function, arguments: &TokenStream) -> Self {
        let returns = function.returns();
        let value = result_types(&returns).map(|(value, _)| type_source(value));
        let error = function.own_error();
        let mut words = Self {
            value_beside_refusal: value.clone().filter(|_| error.is_none()),
            error,
            value: value.filter(|value| !value.contains(['&', '\''])),
            methods: Methods::of(function),
            is_free: function.receiver().is_none(),
            call: call_of(function),
            written: words_in(arguments.clone()),
            ..Self::default()
        };
        if !words.written.iter().any(|word| word == "orders") {
            let name = &function.sig.ident;
            words.operation = Some(match name.unraw().to_string() {
                word if words.is_free && !word.contains('_') => word,
                _ => dotted(name),
            });
        }
        for input in &function.sig.inputs {
            let FnArg::Typed(typed) = input else { continue };
            let Some(name) = name_of(&typed.pat).filter(|name| !name.starts_with('_')) else {
                continue;
            };
            match kind_of(&typed.ty) {
                _ if name == "req" => words.request = Some(name),
                Kind::Scalar => words.scalars.push(name),
                Kind::Request if words.request.is_none() => words.request = Some(name),
                Kind::Borrowed if words.transaction.is_none() => words.transaction = Some(name),
                _ => {}
            }
        }
        let body = function.user_body();
        if words.request.is_none() && words.scalars.is_empty() {
            // Anything whose fields the body reads.
            let names = function.bindings().into_iter().map(|binding| binding.name.to_string());
            words.request =
                names.into_iter().find(|name| !fields_of(name, body.clone()).is_empty());
        }
        if let Some(request) = &words.request {
            words.fields = fields_of(request, body);
        }
        words
    }

    /// The names of an item that is not a function.
    pub(crate) fn of_item(item: &TokenStream, arguments: &TokenStream) -> Self {
        let written = words_in(arguments.clone()).into_iter().chain(words_in(item.clone()));
        Self { written: written.collect(), ..Self::default() }
    }

    /// Puts the names into the help of an error. The text before it has the user's words already.
    pub(crate) fn put_into(&self, text: &str) -> String {
        let Some((what, help)) = text.split_once("\nhelp: ") else { return text.to_owned() };
        let help = self.methods.put_into(help);
        let mut help = self.with_parameters(&help);
        help = match &self.call {
            Some(call) => help.replace(CALL, call),
            None => help.replace(RETRIED, ""),
        };
        if let Some(operation) = &self.operation {
            help = help.replace(OPERATION, operation);
        }
        for (of_self, of_parameter) in INSTANCE.iter().filter(|_| self.is_free) {
            help = help.replace(of_self, of_parameter);
        }
        match (&self.error, &self.value_beside_refusal) {
            (Some(error), _) if help.contains("is_final") => {
                help = help.replace(ERROR_TYPE, error);
            }
            (None, Some(value)) => help = with_own_error(help, value),
            _ => {}
        }
        if let Some(value) = &self.value {
            help = help.replace(&format!(": &{VALUE_TYPE})"), &format!(": &{value})"));
        }
        if let Some(name) = &self.transaction {
            help = help.replace(TRANSACTION_PARAMETER, "");
            help = help.replace("transaction = \"tx\"", &format!("transaction = \"{name}\""));
        }
        format!("{what}\nhelp: {help}")
    }

    /// Returns `true` for a path that the user has not written, and whose field the body does not read.
    fn is_example(&self, path: &str) -> bool {
        let field = path.trim_start_matches("req.").trim_end_matches('?');
        FIELDS.contains(&field)
            && !self.written.iter().any(|word| word == field)
            && !self.fields.iter().any(|known| known == field)
    }

    /// The fields that the attribute does not have already, those first that look like keys.
    fn others(&self) -> Vec<&String> {
        let is_key = |field: &&String| *field == "id" || field.ends_with("_id");
        let mut others: Vec<_> =
            self.fields.iter().filter(|field| !self.written.contains(field)).collect();
        others.sort_by_key(|field| !is_key(field));
        others
    }

    /// The path with a field that there is, another one for each of the `known` paths; or a parameter that is a key
    /// itself. Without either, the field is one of the user's, which is told in `invented`.
    fn example(&self, path: &str, known: &mut Vec<String>, invented: &mut Vec<String>) -> String {
        let mut invent = |field: &str| {
            let is_known = |known: &String| known == field;
            if !self.written.iter().any(is_known) && !invented.iter().any(is_known) {
                invented.push(field.to_owned());
            }
        };
        // None of the fields that are known may be an `Option`.
        if let Some(field) = path.strip_prefix("req.").and_then(|field| field.strip_suffix('?')) {
            invent(field);
            return path.to_owned();
        }
        let at = known.iter().position(|known| known == path).unwrap_or_else(|| {
            known.push(path.to_owned());
            known.len() - 1
        });
        let others = self.others();
        match (others.get(at), at.checked_sub(others.len()).and_then(|at| self.scalars.get(at))) {
            (Some(field), _) => format!("req.{field}"),
            (None, Some(scalar)) => scalar.clone(),
            (None, None) => {
                invent("id");
                "req.id".to_owned()
            }
        }
    }

    fn with_parameters(&self, help: &str) -> String {
        match (self.request.as_deref(), self.scalars.as_slice()) {
            (None, []) => replace_paths(help, |path| match self.is_example(path) {
                true => "..".to_owned(),
                false => path.to_owned(),
            }),
            (Some(request), _) => {
                let help = help.replace("\"req\"", &format!("\"{request}\""));
                let payload = match self.others().as_slice() {
                    [] => request.to_owned(),
                    [only] => format!("{request}.{only}"),
                    [first, second, ..] => format!("({request}.{first}, {request}.{second})"),
                };
                let is_own = PAYLOAD.split("req.").skip(1).any(|rest| {
                    let field = rest.trim_end_matches([',', ' ', ')']);
                    self.written.iter().any(|word| word == field)
                });
                let help = if is_own { help } else { help.replace(PAYLOAD, &payload) };
                // Without a field, the whole is what is left, and it has been said.
                let help = help.replace(&format!(", or `fingerprint = \"{request}\"`"), "");
                let (mut known, mut invented) = (Vec::new(), Vec::new());
                let help = replace_paths(&help, |path| {
                    let path = match self.is_example(path) {
                        true => self.example(path, &mut known, &mut invented),
                        false => path.to_owned(),
                    };
                    match path.strip_prefix("req.") {
                        Some(rest) => format!("{request}.{rest}"),
                        None => path,
                    }
                });
                match invented.first() {
                    Some(first) => marked(&help, &format!("{request}.{first}"), &invented),
                    None => help,
                }
            }
            (None, scalars) => {
                let payload = match scalars {
                    [only] | [_, only] => only.clone(),
                    [_, more @ ..] => format!("({})", more.join(", ")),
                    [] => PAYLOAD.to_owned(),
                };
                let help = help.replace(WHOLE_PAYLOAD, "").replace(PAYLOAD, &payload);
                let mut known: Vec<String> = Vec::new();
                replace_paths(&help, |path| {
                    if path.ends_with(['?', ')']) {
                        return path.to_owned();
                    }
                    let known_at = known.iter().position(|known| known == path);
                    let at = known_at.unwrap_or_else(|| {
                        known.push(path.to_owned());
                        known.len() - 1
                    });
                    scalars[at % scalars.len()].clone()
                })
            }
        }
    }
}

/// All words in the tokens, and in the texts among them, in snake case.
fn words_in(tokens: TokenStream) -> Vec<String> {
    let text = tokens.to_string();
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).map(snake_case).collect()
}

/// The fields of a variable that the tokens read, in their order.
pub(crate) fn fields_of(variable: &str, tokens: TokenStream) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.to_string() == text);
    let is_call = |at: usize| matches!(tokens.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
    let is_variable = |at: usize| is(at, variable) || (variable == "self" && is(at, "__self"));
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => fields.extend(fields_of(variable, group.stream())),
            TokenTree::Ident(field)
                if at >= 2
                    && is(at - 1, ".")
                    && is_variable(at - 2)
                    && !(at >= 3 && is(at - 3, "."))
                    && !is_call(at + 1)
                    && !is(at + 1, ".") =>
            {
                fields.push(field.to_string());
            }
            _ => {}
        }
    }
    let mut known: Vec<String> = Vec::new();
    fields.retain(|field| {
        let is_new = !known.contains(field);
        known.push(field.clone());
        is_new
    });
    fields
}

/// The name that a parameter binds, if it binds one: `req`, `Json(req)`.
fn name_of(pattern: &Pat) -> Option<String> {
    match pattern {
        Pat::Ident(pattern) => Some(pattern.ident.to_string()),
        Pat::TupleStruct(pattern) if pattern.elems.len() == 1 => name_of(pattern.elems.first()?),
        _ => None,
    }
}

enum Kind {
    /// A key itself.
    Scalar,
    /// Something with fields.
    Request,
    /// A mutable borrow, as of a transaction.
    Borrowed,
    Other,
}

/// A call of the function, with a copy of each text. `None` if it takes anything that may not be copied.
fn call_of(function: &Function) -> Option<String> {
    let argument = |input: &FnArg| match input {
        FnArg::Receiver(_) => None,
        FnArg::Typed(typed) => {
            let name = name_of(&typed.pat)?;
            match &*typed.ty {
                Type::Reference(reference) if reference.mutability.is_none() => Some(name),
                Type::Path(path) if path.path.is_ident("String") => Some(format!("{name}.clone()")),
                ty => is_scalar(ty).then_some(name),
            }
        }
    };
    let arguments: Option<Vec<_>> = function.sig.inputs.iter().map(argument).collect();
    Some(format!("{}({})", function.sig.ident, arguments?.join(", ")))
}

/// Returns `true` for a type that may be a struct of the user's.
pub(crate) fn has_fields(ty: &Type) -> bool {
    matches!(kind_of(ty), Kind::Request)
}

/// Returns `true` for a type without fields that a key may name.
pub(crate) fn is_scalar(ty: &Type) -> bool {
    matches!(kind_of(ty), Kind::Scalar)
}

/// Sorts a type by its name.
fn kind_of(ty: &Type) -> Kind {
    match ty {
        Type::Reference(reference) if reference.mutability.is_some() => Kind::Borrowed,
        Type::Reference(reference) => kind_of(&reference.elem),
        Type::Group(group) => kind_of(&group.elem),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Kind::Other };
            match last.ident.to_string().as_str() {
                "State" | "Extension" | "Idempotency" | "Arc" | "Option" | "Vec" | "HashMap"
                | "BTreeMap" | "HeaderMap" | "Box" | "Rc" | "Duration" | "f32" | "f64" => {
                    Kind::Other
                }
                "String" | "Uuid" | "Path" | "IpAddr" | "Decimal" => Kind::Scalar,
                name if name.ends_with("Id") || name.starts_with("NonZero") => Kind::Scalar,
                name if name.ends_with("Pool") || name.ends_with("Client") => Kind::Other,
                name if name.starts_with(char::is_lowercase) => Kind::Scalar,
                _ => Kind::Request,
            }
        }
        _ => Kind::Other,
    }
}

/// Help with `final_errors` for a function whose error is not its own: with an error that can be copied whole.
fn with_own_error(help: String, value: &str) -> String {
    let (start, end) = ("`final_errors = OrderError::is_final`, with `impl", "on `OrderError`");
    let Some((before, rest)) = help.split_once(start) else { return help };
    let Some((example, after)) = rest.split_once(end) else { return help };
    let mut variants: Vec<&str> = example
        .split("Self::")
        .skip(1)
        .filter_map(|variant| variant.split([' ', '(', '{', ')']).next())
        .filter(|variant| variant.starts_with(char::is_uppercase))
        .collect();
    variants.dedup();
    if variants.is_empty() {
        variants.push("Final");
    }
    let declared: Vec<_> =
        variants.iter().map(|variant| format!("#[error(\"{{0}}\")] {variant}(String)")).collect();
    let matched: Vec<_> = variants.iter().map(|variant| format!("Self::{variant}(_)")).collect();
    format!(
        "{before}`final_errors = {ERROR_TYPE}::is_final`, with an error of your own: `#[derive(Debug, thiserror::Error, \
         serde::Serialize, serde::Deserialize)] enum {ERROR_TYPE} {{ {}, #[error(transparent)] Refused(#[from] \
         idempotent_runtime::Error) }}`, `impl {ERROR_TYPE} {{ fn is_final(&self) -> bool {{ matches!(self, {}) }} }}`, \
         and `-> Result<{value}, {ERROR_TYPE}>`{after}",
        declared.join(", "),
        matched.join(" | "),
    )
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;

    use super::*;

    fn help(function: TokenStream, help: &str) -> String {
        let function = Function::parse(&function, &TokenStream::new()).unwrap();
        let words = Words::of(&function, &TokenStream::new());
        let text = words.put_into(&format!("`req.order_id` is wrong\nhelp: {help}"));
        text.strip_prefix("`req.order_id` is wrong\nhelp: ").unwrap().to_owned()
    }

    #[test]
    fn a_request_of_another_name_is_called_by_it() {
        let function = quote!(
            async fn f(State(db): State<Db>, Json(order): Json<Order>, n: u64) -> Result<(), E> {
                db.insert(order.total, &order.line_id, order.name()).await
            }
        );
        let help = |text| help(function.clone(), text);
        assert_eq!(help("`{req.id()}`, `{my_req.id}`"), "`{order.id()}`, `{my_req.id}`");
        // Fields that the body reads, and a parameter that is a key after them.
        assert_eq!(help("`key = \"req.order_id\"`"), "`key = \"order.line_id\"`");
        assert_eq!(help("`{req.order_id}:{req.item}`"), "`{order.line_id}:{order.total}`");
        assert_eq!(
            help("`{req.order_id}:{req.item}:{req.user}`"),
            "`{order.line_id}:{order.total}:{n}`"
        );
        assert_eq!(
            help("`fingerprint = \"(req.amount, req.currency)\"`"),
            "`fingerprint = \"(order.line_id, order.total)\"`"
        );
        assert_eq!(help("`key = \"req.total\"`"), "`key = \"order.total\"`");
    }

    #[test]
    fn a_field_that_the_user_wrote_is_kept() {
        let item = quote!(
            async fn create_order(req: Req) -> Result<(), E> {}
        );
        let function = Function::parse(&item, &TokenStream::new()).unwrap();
        let words = Words::of(&function, &quote!(key = "req.orderId", name = "x"));
        let text = words.put_into("a\nhelp: `req.order_id`, `req.user`, `orders.create`");
        let mark = " (`id` stands for a field of your own)";
        assert_eq!(text, format!("a\nhelp: `req.order_id`, `req.id`{mark}, `order.create`"));
    }

    #[test]
    fn without_parameters_nothing_is_invented() {
        let function = quote!(
            async fn f() -> Result<(), E> {}
        );
        assert_eq!(help(function, "`key = \"req.order_id\"`"), "`key = \"..\"`");
        let function = quote!(
            async fn f(&self, names: Vec<u8>) -> Result<(), E> {
                self.store.put(self.tenant).await
            }
        );
        assert_eq!(help(function, "`key = \"req.order_id\"`"), "`key = \"self.tenant\"`");
    }

    #[test]
    fn parameters_that_are_keys_take_the_place_of_fields() {
        let function = quote!(
            async fn f(user: String, id: u64) -> Result<(), E> {}
        );
        assert_eq!(help(function.clone(), "`{req.order_id}:{req.item}`"), "`{user}:{id}`");
        assert_eq!(
            help(function.clone(), "`fingerprint = \"(req.amount, req.currency)\"`"),
            "`fingerprint = \"id\"`"
        );
        assert_eq!(help(function, "`key = \"req.token?\"`"), "`key = \"req.token?\"`");
    }

    #[test]
    fn types_and_transactions_have_the_names_of_the_function() {
        let function = quote!(
            async fn f(conn: &mut PgConnection, req: Req) -> Result<Receipt, PayError> {}
        );
        let retention = "`fn retention(value: &Order) -> Duration`";
        assert_eq!(help(function.clone(), retention), retention.replace("Order", "Receipt"));
        assert_eq!(help(function.clone(), "`transaction = \"tx\"`"), "`transaction = \"conn\"`");
        assert_eq!(help(function.clone(), "`OrderError::is_final`"), "`PayError::is_final`");
        assert_eq!(help(function, "`name = \"orders.create\"`"), "`name = \"f\"`");
    }
}
