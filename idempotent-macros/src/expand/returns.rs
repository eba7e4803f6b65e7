//! The policy for answers, from the return type and the hooks, as code that checks the types of the user's.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Type, parse_quote_spanned};

use super::{Expansion, value};
use crate::foreign;
use crate::function::result_types;
use crate::validate::returns;
use crate::value::{FunctionPath, Mode};

impl Expansion<'_> {
    /// A witness of the return type, so that a missing trait is reported once and at that type.
    pub(super) fn returns(&self) -> TokenStream {
        let args = self.args;
        let ty = self.function.returns();
        let span = self.span.located_at(ty.span());
        let private = self.runtime.private(span);
        let ty: Type = match self.function.returns_opaque() {
            Some(_) => parse_quote_spanned!(span=> ::core::result::Result<_, _>),
            None => ty,
        };
        let condition = returns::condition(self.function);
        let declared = condition.as_ref().map(|condition| condition.on_result(&private, span));
        let witnessed = match &condition {
            Some(_) => quote_spanned!(span=> <#ty as __IdempotentCondition>::Met),
            None => ty.to_token_stream(),
        };
        let is_kept = !matches!(value(&args.mode), Some(Mode::Reject | Mode::Window));
        // Types of other crates have errors with other remedies. They are told by their names.
        let witness = match (is_kept, foreign::is_error(&ty)) {
            (true, false) => "returned",
            (true, true) => "returned_with_another",
            (false, false) => "plain",
            (false, true) => "plain_with_another",
        };
        let witness = Ident::new(witness, span);
        let kept = match is_kept {
            true => self.kept(&ty, span),
            false => TokenStream::new(),
        };
        let hooks = [
            ("final_errors", &args.final_errors),
            ("expire_with", &args.expire_with),
            ("on_replay", &args.on_replay),
        ];
        let hooks =
            hooks.into_iter().filter_map(|(name, given)| Some(self.hook(name, value(given)?)));
        quote_spanned! {span=>
            #declared
            let __idempotent_returns = #private::#witness::<#witnessed>()#kept;
            #(#hooks)*
        }
    }

    /// The call that keeps the values of the type that `returns` has in `Ok`, at `span`. The argument of a call
    /// with one is where the compiler points, and stands at the value.
    fn kept(&self, returns: &Type, span: Span) -> TokenStream {
        let value = result_types(returns).map(|(value, _)| value);
        let at = value.map_or(span, |value| self.span.located_at(value.span()));
        if let Some(inside) = foreign::response(returns) {
            return quote_spanned!(at=> .kept_inside::<#inside>(::core::marker::PhantomData));
        }
        match value.is_some_and(|value| self.function.is_type_parameter(value)) {
            true => quote_spanned!(at=> .kept_parameter(|| {})),
            false => quote_spanned!(span=> .kept()),
        }
    }

    /// Adds one of the user's functions to the policy: as itself, to be checked, and as a pointer. All
    /// is at the function, so that errors are.
    fn hook(&self, name: &str, FunctionPath(path): &FunctionPath) -> TokenStream {
        let span = self.span.located_at(path.span());
        let private = self.runtime.private(span);
        let hook = Ident::new(name, span);
        let is_final = name == "final_errors";
        let answers = match is_final {
            true => quote_spanned!(span=> #private::failing(__idempotent_returns).kept()),
            false => quote_spanned!(span=> __idempotent_returns),
        };
        let policy = quote_spanned! {span=>
            #private::#hook(#answers, __idempotent_hook, __idempotent_hook)
        };
        let policy = match is_final {
            // The type of the errors is known here alone, and with it whether they have sources.
            true => quote_spanned!(span=> #private::FinalErrors::of(#policy).searched()),
            false => policy,
        };
        quote_spanned! {span=>
            let __idempotent_hook = #path;
            let __idempotent_returns = #policy;
        }
    }
}
