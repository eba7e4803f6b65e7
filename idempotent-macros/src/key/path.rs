//! Field paths: `req.order_id`, `pair.0`, `req.items[0].sku`, `req.id()`, `req.reference?`.

use proc_macro2::Ident;
use quote::{ToTokens, quote};
use syn::{Expr, ExprIndex, ExprMethodCall, ExprPath, Lit, LitInt, Member, Path, UnOp};

use crate::list::source;
use crate::mistake::mistake;
use crate::value::{literal, peel};

/// A parameter (or `self`) and the steps that lead from it to the value.
#[derive(Debug)]
pub(crate) struct FieldPath {
    pub(crate) root: Ident,
    pub(super) steps: Vec<Step>,
    /// The path ends in `?`: its value is an `Option`.
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) enum Step {
    Field(Member),
    Call(Ident),
    Index(Index),
}

#[derive(Debug)]
pub(super) enum Index {
    Literal(LitInt),
    Path(Path),
}

/// Position of the path in the key, for help texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Whole,
    Member,
    Hole,
}

impl FieldPath {
    /// Returns `true` if the path is a single identifier.
    pub(crate) fn is_word(&self) -> bool {
        self.steps.is_empty() && !self.optional
    }
}

pub(super) fn read(name: &Ident, expr: &Expr, place: Place) -> syn::Result<FieldPath> {
    let reader = Reader { name, place };
    let (base, optional) = match unwrap(expr) {
        Expr::Try(optional) => (&*optional.expr, true),
        base => (base, false),
    };
    let mut steps = Vec::new();
    let root = reader.walk(base, &mut steps)?;
    Ok(FieldPath { root, steps, optional })
}

struct Reader<'a> {
    name: &'a Ident,
    place: Place,
}

impl Reader<'_> {
    fn walk(&self, expr: &Expr, steps: &mut Vec<Step>) -> syn::Result<Ident> {
        let expr = unwrap(expr);
        match expr {
            Expr::Path(path) => self.root(path),
            Expr::Field(field) => {
                let root = self.walk(&field.base, steps)?;
                steps.push(Step::Field(field.member.clone()));
                Ok(root)
            }
            Expr::MethodCall(call) => {
                let root = self.walk(&call.receiver, steps)?;
                steps.push(Step::Call(self.method(call)?));
                Ok(root)
            }
            Expr::Index(index) => {
                let root = self.walk(&index.expr, steps)?;
                steps.push(Step::Index(self.index(index)?));
                Ok(root)
            }
            _ => Err(self.refuse(expr)),
        }
    }

    fn root(&self, path: &ExprPath) -> syn::Result<Ident> {
        match path.path.get_ident() {
            Some(root) if path.qself.is_none() => Ok(root.clone()),
            _ => {
                let name = self.name;
                let text = source(path);
                let what = format!("`{text}` is not a parameter");
                Err(mistake(path, what, format!("for a constant: `{name} = const {text}`")))
            }
        }
    }

    fn method(&self, call: &ExprMethodCall) -> syn::Result<Ident> {
        let method = &call.method;
        let name = self.name;
        if let Some(turbofish) = &call.turbofish {
            let what = format!("`{name}` cannot give `{method}` type arguments");
            return Err(mistake(turbofish, what, self.own_method()));
        }
        if !call.args.is_empty() {
            let what = format!("`{name}` cannot give `{method}` arguments");
            return Err(mistake(&call.args, what, self.own_method()));
        }
        Ok(method.clone())
    }

    fn index(&self, index: &ExprIndex) -> syn::Result<Index> {
        let name = self.name;
        let help = format!("`{name} = \"req.items[0].sku\"`");
        let what = match (unwrap(&index.index), literal(&index.index)) {
            (_, Some(Lit::Int(literal)))
                if literal.suffix().is_empty() || literal.suffix() == "usize" =>
            {
                return Ok(Index::Literal(literal.clone()));
            }
            (Expr::Path(path), _) if path.qself.is_none() => {
                return Ok(Index::Path(path.path.clone()));
            }
            (Expr::Unary(unary), _) if matches!(unary.op, UnOp::Neg(_)) => {
                "an index cannot be negative"
            }
            (_, Some(Lit::Float(_))) => "an index cannot be a float",
            (_, Some(Lit::Str(_))) => "an index cannot be a string",
            _ => "an index is a number or a name",
        };
        Err(mistake(&index.index, what, help))
    }

    /// The error for an expression that is not a path.
    fn refuse(&self, expr: &Expr) -> syn::Error {
        let name = self.name;
        match expr {
            Expr::Try(optional) => mistake(
                optional.question_token,
                format!("`?` goes once, at the end of a path in `{name}`"),
                "remove it here; for a field inside an `Option`, add a method that returns the whole",
            ),
            Expr::Await(wait) => mistake(
                wait.await_token,
                format!("`{name}` cannot use `.await`"),
                "await it in the caller and pass the value as a parameter",
            ),
            Expr::Lit(lit) => {
                let text = source(lit);
                let help = match (self.place, &lit.lit) {
                    (Place::Whole, _) => format!("`{name} = const {text}`"),
                    (_, Lit::Str(fixed)) => {
                        format!(
                            "put fixed text in a template: `{name} = \"{}:{{req.id}}\"`",
                            fixed.value()
                        )
                    }
                    _ => format!("put fixed text in a template: `{name} = \"{text}:{{req.id}}\"`"),
                };
                mistake(lit, format!("`{text}` is the same for every call"), help)
            }
            Expr::Tuple(tuple) => {
                let members = tuple.elems.iter().map(source).collect::<Vec<_>>().join(", ");
                let help = match self.place {
                    Place::Hole => {
                        format!("one hole each: {}", holes(tuple.elems.iter().map(source)))
                    }
                    _ => format!("name the members one after the other: `{members}`"),
                };
                mistake(tuple, "a tuple cannot stand inside another key", help)
            }
            Expr::Reference(reference) => mistake(
                reference.and_token,
                format!("`{name}` is taken by reference without `&`"),
                format!("`{name} = {}`", source(&reference.expr)),
            ),
            Expr::Unary(unary) => {
                let op = source(&unary.op);
                let help = match unary.op {
                    UnOp::Deref(_) => format!("`{name} = {}`", source(&unary.expr)),
                    _ => self.own_method(),
                };
                mistake(unary.op, format!("`{name}` cannot use the operator `{op}`"), help)
            }
            Expr::Binary(binary) => {
                let op = source(&binary.op).trim().to_owned();
                let help = format!("for several parts: `{name} = (req.user, req.seq)`");
                mistake(binary.op, format!("`{name}` cannot use the operator `{op}`"), help)
            }
            Expr::Cast(cast) => {
                let (as_token, ty) = (&cast.as_token, &cast.ty);
                let help = format!("all integers are keys: `{name} = {}`", source(&cast.expr));
                mistake(quote!(#as_token #ty), format!("`{name}` cannot cast"), help)
            }
            Expr::Call(call) => mistake(
                &call.func,
                format!("`{name}` cannot call the function `{}`", source(&call.func)),
                self.own_method(),
            ),
            Expr::Macro(call) => mistake(
                &call.mac.path,
                format!("`{name}` cannot use the macro `{}!`", source(&call.mac.path)),
                format!("a template puts text together: `{name} = \"order:{{req.order_id}}\"`"),
            ),
            Expr::Closure(closure) => self.not_a_path(closure, "a closure"),
            Expr::If(_) | Expr::Match(_) | Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) => {
                self.not_a_path(expr, "control flow")
            }
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => {
                self.not_a_path(expr, "control flow")
            }
            Expr::Block(_)
            | Expr::Unsafe(_)
            | Expr::Async(_)
            | Expr::TryBlock(_)
            | Expr::Const(_) => self.not_a_path(expr, "a block"),
            _ => self.not_a_path(expr, "such an expression"),
        }
    }

    fn not_a_path(&self, at: impl ToTokens, kind: &str) -> syn::Error {
        let name = self.name;
        mistake(at, format!("`{name}` cannot hold {kind}"), self.own_method())
    }

    fn own_method(&self) -> String {
        format!(
            "add a method without arguments and call it: `{} = req.idempotency_key()`",
            self.name
        )
    }
}

fn holes(members: impl Iterator<Item = String>) -> String {
    let holes: Vec<_> = members.map(|member| format!("{{{member}}}")).collect();
    format!("`{}`", holes.join(":"))
}

/// The expression without parentheses and invisible groups.
fn unwrap(expr: &Expr) -> &Expr {
    match peel(expr) {
        Expr::Paren(paren) => unwrap(&paren.expr),
        expr => expr,
    }
}
