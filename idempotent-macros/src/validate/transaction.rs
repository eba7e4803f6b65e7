//! Requires that a call in a transaction has one, and only what means something there.

use syn::Type;

use super::named;
use super::roots::bound_in;
use crate::args::Args;
use crate::function::Function;
use crate::mistake::{Mistakes, mistake};
use crate::source::{source, type_source};
use crate::suggest::nearest;
use crate::value::{Mode, Parameter, setting};

/// The crates that a transaction needs.
const CRATES: &str = "for PostgreSQL, the crates are `cargo add idempotent-sql --features sqlx-postgres` and \
                      `cargo add sqlx --features postgres`";

/// Requires that `transaction` names a parameter that is borrowed mutably, and refuses what has no
/// meaning in a transaction, which holds the key in place of a lease and ends with its caller.
pub(super) fn validate(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    let Some(given) = &args.transaction else { return };
    let name = &given.name;
    if let Some(at) = args.mode.as_ref().filter(|mode| mode.ok() == Some(&Mode::Window)) {
        let what = "`mode = \"window\"` makes no sense with `transaction`";
        mistakes.push(mistake(&at.name, what, "use `mode = \"strong\"` or `mode = \"reject\"`"));
        return;
    }
    let idle = [
        named(&args.lease),
        named(&args.max_run),
        named(&args.abandon),
        named(&args.on_unrecorded),
        named(&args.detach),
    ];
    for idle in idle.into_iter().flatten() {
        let what = format!(
            "`{idle}` makes no sense with `{name}`, which holds the key and ends with its caller"
        );
        let help = match idle == "detach" {
            true => format!(
                "remove `{idle}`; for a caller that may go away, spawn the whole transaction: \
                 `tokio::spawn(async move {{ .. }})`, from its begin to its commit"
            ),
            false => format!("remove `{idle}`"),
        };
        mistakes.push(mistake(idle, what, help));
    }
    let Some(Parameter(wanted)) = given.ok() else { return };
    let typed = function.sig.inputs.iter().find_map(|input| match input {
        syn::FnArg::Typed(typed) => match &*typed.pat {
            syn::Pat::Ident(pattern) if pattern.ident == *wanted => Some(&typed.ty),
            _ => None,
        },
        syn::FnArg::Receiver(_) => None,
    });
    match typed.map(|ty| &**ty) {
        Some(Type::Reference(borrow)) if borrow.mutability.is_some() => {}
        Some(ty) => {
            let what = format!("`{name}` takes a parameter of type `&mut ..`");
            let ty = match ty {
                Type::Reference(borrow) => &borrow.elem,
                ty => ty,
            };
            let help = format!(
                "`{wanted}: &mut {}`, a connection or transaction; {CRATES}",
                type_source(ty)
            );
            mistakes.push(mistake(ty, what, help));
        }
        None => {
            let bindings = function.bindings();
            let parameters: Vec<String> =
                bindings.iter().map(|binding| binding.name.to_string()).collect();
            let is_mutable = |input: &&syn::FnArg| match input {
                syn::FnArg::Typed(typed) => {
                    matches!(&*typed.ty, Type::Reference(borrow) if borrow.mutability.is_some())
                }
                syn::FnArg::Receiver(_) => false,
            };
            let borrowed =
                function.sig.inputs.iter().find(is_mutable).and_then(|input| match input {
                    syn::FnArg::Typed(typed) => Some(source(&typed.pat)),
                    syn::FnArg::Receiver(_) => None,
                });
            if let Some(error) = setting(name, wanted, &wanted.to_string()) {
                mistakes.push(error);
                return;
            }
            let near = nearest(&wanted.to_string(), parameters.iter().map(String::as_str));
            let listed = match borrowed.as_deref().or(near) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "remove `{name}`; or add a parameter `{wanted}: &mut sqlx::PgConnection`; {CRATES}"
                ),
            };
            if bound_in(function.user_body(), &wanted.to_string()).is_some() {
                let what =
                    format!("`{wanted}` is a variable of the body, and `{name}` takes a parameter");
                let help = format!(
                    "begin and commit in the caller: add a parameter `{wanted}: &mut sqlx::PgConnection`, and remove \
                     `let {wanted}` from the body; {CRATES}"
                );
                mistakes.push(mistake(wanted, what, help));
                return;
            }
            let what = format!("`{wanted}` is not a parameter of `{}`", function.sig.ident);
            mistakes.push(mistake(wanted, what, listed));
        }
    }
}
