//! Requires that every path in a key starts at a parameter.

mod answer;
mod listed;
mod scope;
mod variable;

use proc_macro2::Ident;

pub(super) use self::variable::bound_in;
use crate::args::Args;
use crate::function::Function;
use crate::key::{ANSWER, FieldPath, Header, Key};
use crate::mistake::{Mistakes, mistake};
use crate::suggest::nearest;
use crate::value::{Given, Message, configured};
use crate::words;

pub(super) fn validate(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    for given in [&args.key, &args.scope, &args.fingerprint].into_iter().flatten() {
        if let Some(key) = given.ok() {
            roots(&given.name, key, None, function, mistakes);
        }
    }
    if let Some(given) = &args.message
        && let Some(template) = given.ok().and_then(Message::template)
    {
        let parts = args.key.as_ref().and_then(Given::ok);
        roots(&given.name, template, parts, function, mistakes);
    }
}

/// `parts` are those of the key of the call, for a text that shows it.
fn roots(
    name: &Ident,
    key: &Key,
    parts: Option<&Key>,
    function: &Function,
    mistakes: &mut Mistakes,
) {
    let bindings = function.bindings();
    let parameters: Vec<String> = bindings.iter().map(|binding| binding.name.to_string()).collect();
    let mut reported = Vec::new();
    for path in key.paths() {
        let root = path.root.to_string();
        if !parameters.contains(&root) && !reported.contains(&root) {
            let unknown = Unknown { name, key, parts, path, parameters: &parameters, function };
            let (what, help) = unknown.explain();
            mistakes.push(mistake(key.at(path), what, help));
            reported.push(root);
        }
    }
}

/// A path that starts at something else.
struct Unknown<'a> {
    name: &'a Ident,
    key: &'a Key,
    parts: Option<&'a Key>,
    path: &'a FieldPath,
    parameters: &'a [String],
    function: &'a Function,
}

impl Unknown<'_> {
    /// The problem, and a help that can be typed.
    fn explain(&self) -> (String, String) {
        let Self { name, path, parameters, .. } = self;
        let function = &self.function.sig.ident;
        let text = path.root.to_string();
        let listed = self.listed();
        match text.as_str() {
            "self" => {
                let what = format!("`{name}` uses `self`, but `{function}` has no receiver");
                let help = self.in_place_of_self();
                return (what, help.unwrap_or(listed));
            }
            "None" => {
                let what = format!("`{name}` cannot be `None`");
                let out = match *name == "key" {
                    true => "leave `key` out to use the token of the request".to_owned(),
                    false => format!("leave `{name}` out"),
                };
                return (
                    what,
                    format!(
                        "{out}; a path that ends in `?` may lead to `None`, and refuses that call"
                    ),
                );
            }
            _ => {}
        }
        if text == "this" && parameters.iter().any(|parameter| parameter == "self") {
            let key = self.key.with(|path| match path.root == "this" {
                true => path.with_root("self"),
                false => path.with_root(&path.root.to_string()),
            });
            return ("`this` is `self` in Rust".to_owned(), format!("`{name} = \"{key}\"`"));
        }
        let body = self.function.user_body();
        let is_variable = bound_in(body, &text).is_some();
        if answer::is_named(&text) && (!is_variable || text == "result") {
            let word = if text == ANSWER { "the answer".to_owned() } else { format!("`{text}`") };
            let what = format!("{word} is not a parameter: a key is made before the body runs");
            return (what, self.in_place_of_answer(&listed));
        }
        if let Some(value) = bound_in(self.function.user_body(), &text) {
            let what = format!(
                "`{text}` is a variable of the body, and `{name}` is read before the body runs"
            );
            return (what, self.in_place_of_variable(&text, value));
        }
        if let Some(parameter) = self.of_type(&text) {
            let path = path.with_root(&parameter);
            let what = format!("`{text}` is a type, and not a parameter of `{function}`");
            return (what, format!("did you mean `{}`?", self.written(&path)));
        }
        if let Some(field) = self.joined(&text) {
            let what = format!("`{text}` is not a parameter of `{function}`");
            return (what, format!("did you mean `{}`? {}", self.written(&field), self.all()));
        }
        if let Some(text) = self.in_place_of_key() {
            let what = format!("`key` is not a parameter of `{function}`");
            return (
                what,
                format!("the parts of the key are shown one by one: `{name} = \"{text}\"`"),
            );
        }
        if let Some(help) = scope::shared(&text).filter(|_| *name == "scope" && path.is_word()) {
            let field = match self.owners(&text).is_empty() {
                true => String::new(),
                false => format!("; {}", self.word(&text, &listed)),
            };
            return (
                format!("`{text}` is not a parameter of `{function}`"),
                format!("{help}{field}"),
            );
        }
        let is_constant = text.chars().all(|c| c.is_uppercase() || c.is_numeric() || c == '_');
        let near = nearest(&text, parameters.iter().map(String::as_str));
        let help = match near {
            _ if is_constant => format!("{listed}; for a constant: `{name} = const {text}`"),
            Some(near) => {
                let path = self.written(&path.with_root(near));
                format!("did you mean `{path}`? {}", self.all())
            }
            None if parameters.len() == 1 && !path.is_word() && !self.is_scalar() => {
                let path = path.with_root(&parameters[0]);
                format!("did you mean `{}`? {listed}", self.written(&path))
            }
            None if path.is_word() => self.word(&text, &listed),
            None => listed,
        };
        let help = match self.header() {
            Some(header) if header.is_certain() => {
                format!("{}; for a parameter: {help}", header.help(name))
            }
            Some(header) => format!("{help}; for a header, {}", header.help(name)),
            None => help,
        };
        let help = match *name == "message" {
            true => {
                let text = "a fixed text has no braces: `message = \"already submitted\"`";
                match self.is_property() {
                    true => format!("{help}; {text}; {}", configured(name, "text")),
                    false => format!("{help}; {text}"),
                }
            }
            false => help,
        };
        (format!("`{text}` is not a parameter of `{function}`"), help)
    }

    /// The text of `message` with the parts of the key in the place of `{key}`.
    fn in_place_of_key(&self) -> Option<String> {
        let paths = self.parts?.paths();
        let is_key = |path: &FieldPath| path.is_word() && path.root == "key";
        if !is_key(self.path) || paths.is_empty() || paths.iter().any(|path| path.may_be_missing())
        {
            return None;
        }
        let parts = paths.iter().map(|path| path.with_root(&path.root.to_string()));
        let parts = parts.collect::<Vec<_>>().join("}, {");
        Some(self.key.with(|path| match is_key(path) {
            true => parts.clone(),
            false => path.with_root(&path.root.to_string()),
        }))
    }

    /// The header that the path is the name of.
    fn header(&self) -> Option<Header> {
        let is_alone = *self.name == "key" && !self.key.is_template() && !self.key.is_tuple();
        let field = self.path.first_field();
        let is_word = self.path.is_word() || field.is_some();
        is_alone
            .then(|| Header::of_path(&self.path.root.to_string(), field.as_deref()))
            .flatten()
            .filter(|_| is_word)
    }

    /// Returns `true` if the text is one placeholder, as of a property of a configuration: `${order.duplicate}`.
    fn is_property(&self) -> bool {
        let text = self.key.with(|path| path.with_root(&path.root.to_string()));
        let text = text.trim_start_matches(['$', '#']);
        text.starts_with('{') && text.ends_with('}') && text.matches('{').count() == 1
    }

    /// `order.id` for `order_id`, where `order` is a parameter that may have fields.
    fn joined(&self, text: &str) -> Option<String> {
        let field = |root: &String| {
            let field = text.strip_prefix(root.as_str())?.strip_prefix('_')?;
            Some(format!("{root}.{field}"))
        };
        self.path.is_word().then(|| self.with_fields().iter().find_map(field)).flatten()
    }

    /// Help for a function without a receiver: the key with a parameter in the place of `self`.
    fn in_place_of_self(&self) -> Option<String> {
        let Self { name, key, parameters, .. } = self;
        let is_of_self = |path: &FieldPath| path.root == "self";
        if key.paths().into_iter().any(|path| is_of_self(path) && path.is_word()) {
            return None;
        }
        let keys = self.with_fields().into_iter().map(|root| {
            let key = key.with(|path| match is_of_self(path) {
                true => path.with_root(&root),
                false => path.with_root(&path.root.to_string()),
            });
            format!("`{name} = \"{key}\"`")
        });
        let keys: Vec<_> = keys.collect();
        if !keys.is_empty() {
            return Some(keys.join(", or "));
        }
        // The field may have become a parameter.
        let is_parameter = |path: &FieldPath| match is_of_self(path) {
            true => path.first_field().is_some_and(|field| parameters.contains(&field)),
            false => true,
        };
        if key.paths().into_iter().all(is_parameter) {
            let key = key.with(|path| match path.first_field().filter(|_| is_of_self(path)) {
                Some(field) => field,
                None => path.with_root(&path.root.to_string()),
            });
            return Some(format!("`{name} = \"{key}\"`"));
        }
        let others = key.paths().into_iter().filter(|path| !is_of_self(path));
        let mut parts: Vec<_> = others.map(|path| path.with_root(&path.root.to_string())).collect();
        let scalars = self.scalars().into_iter().filter(|scalar| !parts.contains(scalar));
        parts.extend(scalars.collect::<Vec<_>>());
        match parts.as_slice() {
            [] => None,
            [only] => Some(format!("`{name} = \"{only}\"`")),
            several => Some(format!("`{name} = \"({})\"`", several.join(", "))),
        }
    }

    /// The parameters that are keys themselves.
    fn scalars(&self) -> Vec<String> {
        let names = self.function.bindings().into_iter().map(|binding| binding.name);
        let is_scalar =
            |name: &Ident| self.function.binding_type(name).is_some_and(|ty| words::is_scalar(&ty));
        names.filter(is_scalar).map(|scalar| scalar.to_string()).collect()
    }

    /// The parameters of types that may have fields.
    fn with_fields(&self) -> Vec<String> {
        let bindings = self.function.bindings();
        let names = bindings.iter().map(|binding| &binding.name);
        let with_fields = names.filter(|name| {
            let ty = self.function.binding_type(name);
            **name != "self" && ty.is_some_and(|ty| words::has_fields(&ty))
        });
        with_fields.map(ToString::to_string).collect()
    }

    /// The owners of a field of this name: those that the body reads it from, or else all that may have fields.
    fn owners(&self, field: &str) -> Vec<String> {
        let receiver = self.function.receiver().map(|_| "self".to_owned());
        let all: Vec<_> = self.with_fields().into_iter().chain(receiver).collect();
        let is_read = |root: &&String| {
            let fields = words::fields_of(root, self.function.user_body());
            fields.iter().any(|known| known == field)
        };
        match all.iter().filter(is_read).cloned().collect::<Vec<_>>() {
            none if none.is_empty() => all,
            owners => owners,
        }
    }

    /// Help for a single word.
    fn word(&self, text: &str, listed: &str) -> String {
        let Self { name, parameters, .. } = self;
        let in_hole = self.key.is_template();
        let roots = match (self.owners(text), parameters) {
            (roots, _) if !roots.is_empty() => roots,
            (_, [only]) if !self.is_scalar() => vec![only.clone()],
            _ => Vec::new(),
        };
        let fields: Vec<_> = roots
            .iter()
            .map(|root| {
                let path = self.written(&format!("{root}.{text}"));
                format!("if it is a field of `{root}`: `{path}`")
            })
            .collect();
        let field = (!fields.is_empty()).then(|| fields.join("; "));
        let parts = self.function.taken_apart().filter(|_| field.is_none() && !self.key.is_tuple());
        let parts = parts.map(|parts| {
            let list: Vec<_> = parts.iter().map(ToString::to_string).collect();
            format!("the pattern has named its parts: `{name} = \"({})\"`", list.join(", "))
        });
        let is_taken_apart = parts.is_some();
        let field = field.or(parts);
        let field = field.as_deref().unwrap_or(listed);
        let fixed = match name.to_string().as_str() {
            // One part of several cannot be fixed, and a payload that is the same in every call binds nothing.
            _ if in_hole || self.key.is_tuple() => String::new(),
            "fingerprint" => String::new(),
            "scope" => format!(
                "; or add a parameter `{text}`; for a fixed value: `{name} = const \"{text}\"`"
            ),
            _ => format!("; for one key of all calls: `{name} = const \"{text}\"`"),
        };
        match self.key.is_quoted() || is_taken_apart {
            _ if in_hole => field.to_owned(),
            true => format!("{field}{fixed}"),
            false => {
                let function = match roots.first() {
                    Some(root) => {
                        format!("make it a method: `{}`", self.written(&format!("{root}.{text}()")))
                    }
                    None => format!("call it in the caller, and pass a parameter `{text}`"),
                };
                format!("{field}; if it is a function, {function}")
            }
        }
    }

    /// The path as it is written in its place.
    fn written(&self, path: &str) -> String {
        self.key.with_in_place(&self.name.to_string(), self.path, path)
    }

    /// The parameter whose type has this name.
    fn of_type(&self, name: &str) -> Option<String> {
        let is_of_type = |ty: &syn::Type| match ty {
            syn::Type::Path(path) => {
                path.path.segments.last().is_some_and(|last| last.ident == name)
            }
            _ => false,
        };
        let bindings = self.function.bindings();
        let mut names = bindings.iter().map(|binding| &binding.name);
        let found = names.find(|name| self.function.type_of(name).is_some_and(is_of_type));
        found.map(ToString::to_string)
    }

    /// Returns `true` if the only parameter has no fields.
    fn is_scalar(&self) -> bool {
        self.function
            .bindings()
            .iter()
            .all(|binding| self.function.type_of(&binding.name).is_some_and(words::is_scalar))
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::super::tests::{create, messages};

    #[test]
    fn roots_are_parameters() {
        assert_eq!(messages(quote!(key = (req.id, user), scope = "user"), create()), [""; 0]);
        assert_eq!(
            messages(quote!(key = "{request.id}:{request.b}"), create()),
            ["`request` is not a parameter of `create`\n\
             help: did you mean `{req.id}`? the parameters are `req`, `user`"]
        );
        assert_eq!(
            messages(quote!(key = NIGHTLY), create()),
            ["`NIGHTLY` is not a parameter of `create`\n\
             help: the parameters are `req`, `user`, as in `key = \"user\"`; for a constant: `key = const \
             NIGHTLY`"]
        );
        assert_eq!(
            messages(quote!(scope = self.tenant), create()),
            ["`scope` uses `self`, but `create` has no receiver\n\
             help: `scope = \"req.tenant\"`"]
        );
        assert_eq!(
            messages(quote!(key = (self.tenant, user, none)), create()),
            [
                "`key` uses `self`, but `create` has no receiver\n\
                 help: `key = \"(req.tenant, user, none)\"`",
                "`none` is not a parameter of `create`\n\
                 help: if it is a field of `req`: `key = \"(self.tenant, user, req.none)\"`; if it is a \
                 function, make it a method: `key = \"(self.tenant, user, req.none())\"`"
            ]
        );
        let scalars = quote!(
            async fn close(tenant: u64, month: u32) -> Result<u64, Error> {}
        );
        let help = |arguments| messages(arguments, scalars.clone()).concat();
        assert!(
            help(quote!(key = "(self.tenant, month)")).ends_with("`key = \"(tenant, month)\"`")
        );
        assert!(help(quote!(key = "self.shop")).ends_with("`key = \"(tenant, month)\"`"));
    }

    #[test]
    fn a_variable_of_the_body_is_no_parameter() {
        let item = quote!(
            async fn create(req: Request) -> Result<u64, Error> {
                if req.big {
                    let mut total = 3;
                }
                Ok(1)
            }
        );
        assert_eq!(
            messages(quote!(key = "total"), item),
            ["`total` is a variable of the body, and `key` is read before the body runs\n\
             help: compute it in the caller, and pass it as a parameter `total: \
             impl idempotent_runtime::KeyPart`: `key = \"total\"`"]
        );
        let item = quote!(
            async fn create(req: Request) -> Result<u64, Error> {
                let text = format!("{}:{}", req.user, req.id);
                let id = req.id.clone();
                Ok(1)
            }
        );
        let help = |arguments| messages(arguments, item.clone()).concat();
        assert!(help(quote!(key = "text")).ends_with("help: `key = \"{req.user}:{req.id}\"`"));
        assert!(help(quote!(key = id)).ends_with("help: `key = \"req.id\"`"));
    }

    #[test]
    fn words_are_answered_in_their_place() {
        let one = quote!(
            async fn create(req: Request) -> Result<u64, Error> {}
        );
        let help = |arguments| messages(arguments, one.clone()).concat();
        assert!(help(quote!(key = None)).contains("help: leave `key` out"));
        assert!(
            help(quote!(key = "a:{item}"))
                .ends_with("help: if it is a field of `req`: `{req.item}`")
        );
        assert!(
            help(quote!(key = order_id))
                .contains("help: if it is a field of `req`: `key = \"req.order_id\"`")
        );
        assert!(
            help(quote!(scope = "tenant")).ends_with(
                "help: if it is a field of `req`: `scope = \"req.tenant\"`; or add a parameter `tenant`; for a fixed value: \
                 `scope = const \"tenant\"`"
            )
        );
        let unnamed = quote!(
            async fn create(_: Request) -> Result<u64, Error> {}
        );
        assert!(
            messages(quote!(key = "req.id"), unnamed)
                .concat()
                .ends_with("help: give the parameter a name: `req: ..`")
        );
    }
}
