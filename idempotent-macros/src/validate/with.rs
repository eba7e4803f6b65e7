//! Requires that a word in `with` is a parameter, and that `with` builds nothing.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{Expr, FnArg, GenericArgument, Pat, PathArguments, Type};

use crate::args::Args;
use crate::condition::Condition;
use crate::function::Function;
use crate::methods::renamed;
use crate::mistake::{Mistakes, mistake};
use crate::source::source;
use crate::synonyms::snake_case;
use crate::value::{Bare, Given};
use crate::words::is_scalar;

/// Requires that a word in `with` is a parameter. Statics and constants are written in capitals.
pub(super) fn validate(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    let Some(Bare(expr)) = args.with.as_ref().and_then(Given::ok) else { return };
    let mut tokens = expr.to_token_stream().into_iter().skip_while(|it| it.to_string() == "&");
    let (first, second) = (tokens.next(), tokens.next());
    let is_path = second.is_some_and(|second| second.to_string() == ":");
    if let Some(receiver) = first.filter(|first| first.to_string() == "self" && !is_path)
        && function.receiver().is_none()
    {
        let what = format!("`with` uses `self`, but `{}` has no receiver", function.sig.ident);
        mistakes.push(mistake(
            receiver,
            what,
            "`with = idempotency`, with a parameter `idempotency: &idempotent_runtime::Idempotency`; or \
             leave `with` out, and call `idempotent_runtime::Idempotency::install` once",
        ));
        return;
    }
    if let Some(built) = built(expr) {
        let what = "`with` would build an instance for each call, with records of its own";
        mistakes.push(mistake(expr, what, once(built)));
        return;
    }
    let Expr::Path(path) = expr else {
        if let Some((root, named)) = misnamed(expr, function) {
            let what = format!("`{root}` is not a parameter of `{}`", function.sig.ident);
            let path = source(&renamed(expr.to_token_stream(), &root.to_string(), &named));
            mistakes.push(mistake(root, what, format!("did you mean `with = {path}`?")));
        } else if let Some(root) = unknown_root(expr, function) {
            let what = format!("`{root}` is not a parameter of `{}`", function.sig.ident);
            mistakes.push(mistake(&root, what, in_place_of(expr, &root, function)));
        }
        return;
    };
    let Some(word) = path.path.get_ident().filter(|_| path.qself.is_none()) else { return };
    let text = word.to_string();
    let is_value = text == "self" || text.contains(char::is_uppercase);
    if is_value || function.bindings().iter().any(|binding| binding.name == text) {
        return;
    }
    let what = format!("`{word}` is not a parameter of `{}`", function.sig.ident);
    let help = match function.receiver() {
        Some(_) => format!(
            "for a field: `with = self.{word}`; or add a parameter `{word}: \
             &idempotent_runtime::Idempotency`"
        ),
        None => format!(
            "add a parameter `{word}: &idempotent_runtime::Idempotency`; or leave `with` out, and call \
             `idempotent_runtime::Idempotency::install` once"
        ),
    };
    mistakes.push(mistake(word, what, help));
}

/// An expression that builds an instance with records of its own, without what takes it out of a `Result`.
fn built(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::MethodCall(call) => match call.method.to_string().as_str() {
            "unwrap" | "expect" => built(&call.receiver),
            // Instances may share a store, and one that is disabled has no records.
            "store" | "shared_store" | "disabled" => None,
            _ => built(&call.receiver).map(|_| expr),
        },
        Expr::Try(expr) => built(&expr.expr),
        Expr::Reference(expr) => built(&expr.expr),
        Expr::Call(call) => {
            let Expr::Path(path) = &*call.func else { return None };
            let constructors = ["Idempotency::builder", "Idempotency::in_memory"];
            let path = source(path);
            let path = path.strip_prefix("idempotent_runtime::").unwrap_or(&path);
            constructors.contains(&path).then_some(expr)
        }
        _ => None,
    }
}

/// Help for an instance that is built in `with`: one for all calls.
fn once(built: &Expr) -> String {
    format!(
        "`with = INSTANCE`, with `static INSTANCE: std::sync::LazyLock<idempotent_runtime::Idempotency> = \
         std::sync::LazyLock::new(|| {}.expect(\"valid settings\"));`",
        source(built)
    )
}

/// The condition for a call, for a static, and for a parameter of a type that has an instance inside.
pub(crate) fn condition(expr: &Expr, function: &Function) -> Option<Condition> {
    let written = source(expr);
    let with = |end: &str| format!("`with = {written}{end}`");
    let what = format!("`with` takes an `Idempotency`, and `{written}` is none");
    let label = "neither an `Idempotency` nor anything that dereferences to one".to_owned();
    if let Expr::Call(_) | Expr::MethodCall(_) | Expr::Await(_) = expr {
        let future = match expr {
            Expr::Await(_) => String::new(),
            _ => format!("a future: {}; ", with(".await")),
        };
        let help = format!(
            "{future}a `Result`: {}; an `Option`: {}; a store or a builder becomes an instance once, at the start: \
             call `install()` on it, and leave `with` out",
            with("?"),
            with(THERE),
        );
        return Some(Condition { what, label, help });
    }
    let Expr::Path(path) = expr else { return None };
    let name = &path.path.segments.last()?.ident;
    let help = match path.path.get_ident().and_then(|name| function.type_of(name)) {
        Some(ty) => with(inside(ty)?),
        None if is_static(name) => format!(
            "a `OnceLock` or `OnceCell`: {}; a `LazyLock` with a `Result` or `Option`: {}; a `Mutex`: {}; otherwise call \
             `install()` on the instance once, and leave `with` out",
            with(SET),
            with(THERE),
            with(".lock().unwrap()"),
        ),
        None => return None,
    };
    Some(Condition { what, label, help })
}

/// The way to the value of a `OnceLock`.
const SET: &str = ".get().expect(\"built at the start\")";

/// The way to the value of an `Option` or a `Result`.
const THERE: &str = ".as_ref().expect(\"built at the start\")";

/// The way to the instance inside of a type, which is told by its name.
fn inside(ty: &Type) -> Option<&'static str> {
    match ty {
        Type::Reference(reference) => inside(&reference.elem),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            match last.ident.to_string().as_str() {
                "OnceLock" | "OnceCell" => Some(SET),
                "Option" | "Result" => Some(THERE),
                "Mutex" if path.path.segments.iter().any(|it| it.ident == "tokio") => {
                    Some(".lock().await")
                }
                "Mutex" => Some(".lock().unwrap()"),
                "RwLock" => Some(".read().unwrap()"),
                "Arc" | "Box" | "Rc" => match &last.arguments {
                    PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
                        GenericArgument::Type(ty) => inside(ty),
                        _ => None,
                    },
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns `true` for a name in capitals.
fn is_static(name: &Ident) -> bool {
    let name = name.to_string();
    name.contains(char::is_uppercase) && !name.contains(char::is_lowercase)
}

/// The root of a path of fields that is no parameter. Statics and constants are written in capitals.
fn unknown_root(expr: &Expr, function: &Function) -> Option<Ident> {
    let Expr::Field(_) = expr else { return None };
    let root = root(expr)?;
    let text = root.to_string();
    let is_known = text == "self"
        || text.contains(char::is_uppercase)
        || function.bindings().iter().any(|binding| binding.name == text);
    (!is_known).then_some(root)
}

/// Help with the same field of each parameter that may have one.
fn in_place_of(expr: &Expr, root: &Ident, function: &Function) -> String {
    let with = |parameter: &Ident| {
        let path = renamed(expr.to_token_stream(), &root.to_string(), &parameter.to_string());
        format!("`with = {}`", source(&path))
    };
    let bindings = function.bindings();
    let parameters: Vec<_> = bindings
        .iter()
        .filter(|binding| function.type_of(&binding.name).is_some_and(|ty| !is_scalar(ty)))
        .map(|binding| with(&binding.name))
        .collect();
    match parameters.as_slice() {
        [] => format!(
            "add a parameter `{root}: ..` with the instance in a field; or leave `with` out, and call \
             `idempotent_runtime::Idempotency::install` once"
        ),
        parameters => format!("did you mean {}?", parameters.join(", or ")),
    }
}

/// The root of a path that is no parameter, but the name of a pattern around one, and that parameter: `state` and
/// `app` for `State(app)`.
fn misnamed(expr: &Expr, function: &Function) -> Option<(Ident, String)> {
    let root = root(expr)?;
    if function.bindings().iter().any(|binding| binding.name == root) {
        return None;
    }
    let named = function.sig.inputs.iter().find_map(|input| {
        let FnArg::Typed(typed) = input else { return None };
        let Pat::TupleStruct(pattern) = &*typed.pat else { return None };
        let around = pattern.path.segments.last()?.ident.to_string();
        match (root == snake_case(&around), pattern.elems.first()?) {
            (true, Pat::Ident(inside)) if pattern.elems.len() == 1 => {
                Some(inside.ident.to_string())
            }
            _ => None,
        }
    })?;
    Some((root, named))
}

/// The name that a path of fields and methods starts with.
fn root(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Path(path) => path.path.get_ident().cloned(),
        Expr::Field(field) => root(&field.base),
        Expr::MethodCall(call) => root(&call.receiver),
        Expr::Reference(reference) => root(&reference.expr),
        _ => None,
    }
}
