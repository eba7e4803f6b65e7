//! The policy for answers, from the return type and the hooks, as code that checks the types of the user's.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::spanned::Spanned;
use syn::{Type, parse_quote_spanned};

use super::{Expansion, value};
use crate::foreign;
use crate::form::Form;
use crate::function::{self, written_types};
use crate::validate::returns;
use crate::value::{FunctionPath, Mode};

impl Expansion<'_> {
    /// A witness of the return type, so that a missing trait is reported once and at that type.
    pub(super) fn returns(&self) -> TokenStream {
        let args = self.args;
        let ty = self.function.returns();
        let span = self.span.located_at(ty.span());
        let private = self.runtime.private(span);
        let returns: Type = match function::is_opaque(&ty) {
            true => parse_quote_spanned!(span=> ::core::result::Result<_, _>),
            false => ty.clone(),
        };
        let condition = returns::condition(self.function);
        let declared = condition.as_ref().map(|condition| condition.on_result(&private, span));
        let witnessed = match &condition {
            Some(_) => quote_spanned!(span=> <#returns as __IdempotentCondition>::Met),
            None => returns.to_token_stream(),
        };
        let is_kept = !matches!(value(&args.mode), Some(Mode::Reject | Mode::Window));
        let nested = returns::value_condition(self.function).filter(|_| is_kept);
        let policy = self.policy(is_kept && nested.is_none(), &ty, &witnessed, span);
        let policy = match nested {
            Some((value, condition)) => condition.on_kept(&private, &value, &policy),
            None => {
                let kept = is_kept.then(|| self.kept(&ty));
                quote_spanned!(span=> #policy #kept)
            }
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
            let __idempotent_returns = #policy;
            #(#hooks)*
        }
    }

    /// The policy of a function that returns `witnessed`, with a check of the error in `returns`. The compiler
    /// points at the last type argument, which is the error, if it is written.
    fn policy(
        &self,
        is_kept: bool,
        returns: &Type,
        witnessed: &TokenStream,
        span: Span,
    ) -> TokenStream {
        let private = self.runtime.private(span);
        let (_, error) = written_types(returns);
        let at = pointed_at(error.unwrap_or(returns), span);
        if let Some((error, condition)) = returns::error_condition(self.function) {
            let answers = condition.on_error(&private, returns, &error);
            return match is_kept {
                true => quote_spanned!(span=> #private::Returned::of(#answers)),
                false => answers,
            };
        }
        let is_parameter = error.is_some_and(|error| self.function.is_type_parameter(error));
        let policy = match is_kept {
            true => "returned",
            false => "plain",
        };
        if is_parameter {
            let policy = format_ident!("{policy}_with_parameter", span = span);
            return quote_spanned!(span=> #private::#policy::<#witnessed, #at, _>(|| {}));
        }
        // Types of other crates have errors with other remedies. They are told by their names.
        if foreign::is_error(returns) {
            let policy = format_ident!("{policy}_with_another", span = span);
            return quote_spanned!(span=> #private::#policy::<#witnessed, #at>());
        }
        let policy = Ident::new(policy, span);
        quote_spanned!(span=> #private::#policy::<#witnessed, #at>())
    }

    /// The call that keeps the values of the type that `returns` has in `Ok`. The compiler points at its argument.
    fn kept(&self, returns: &Type) -> TokenStream {
        let (value, _) = written_types(returns);
        let form = value.map_or(Form::Among, |value| Form::of(value, self.function));
        let at = match form {
            Form::Own(own) => own,
            _ => value.unwrap_or(returns),
        };
        let (start, end) = self.ends(at);
        let keeps = match self.args.mode {
            Some(_) => "__idempotent_kept",
            None => "__idempotent_may_keep",
        };
        let method = match form.name() {
            Some(form) => format_ident!("{keeps}_{form}", span = start),
            None => Ident::new(keeps, start),
        };
        let at = pointed_at(at, start);
        let types = match form {
            Form::Parameter(inside) => quote_spanned!(start=> _, #inside),
            Form::Around(inside)
            | Form::Shared(inside)
            | Form::Inside(inside)
            | Form::Array(inside) => quote_spanned!(start=> #at, #inside),
            _ => at,
        };
        // One expression, from the first token of the type to its last.
        let witness = match form {
            Form::Parameter(_) => [quote_spanned!(start=> ||), quote_spanned!(end=> {})],
            _ => [quote_spanned!(start=> ::core::marker::), quote_spanned!(end=> PhantomData)],
        };
        quote_spanned!(start=> .#method::<#types>(#(#witness)*))
    }

    /// Spans at the first and the last token of a type, to put an expression there.
    fn ends(&self, ty: &Type) -> (Span, Span) {
        let start = self.span.located_at(ty.span());
        let last = ty.to_token_stream().into_iter().last();
        (start, last.map_or(start, |last| self.span.located_at(last.span())))
    }

    /// Adds one of the user's functions to the policy: as itself, to be checked, and as a pointer. All
    /// is at the name of the function, so that errors are. Those about the type of the errors begin at the path.
    fn hook(&self, name: &str, FunctionPath(path): &FunctionPath) -> TokenStream {
        let last = path.path.segments.last();
        let span = last.map_or_else(|| path.span(), |last| last.ident.span());
        let span = self.span.located_at(span);
        let private = self.runtime.private(span);
        let hook = Ident::new(name, span);
        let is_final = name == "final_errors";
        let answers = match is_final {
            true => {
                let span = self.span.located_at(path.span());
                quote_spanned!(span=> #private::Returned::of(__idempotent_returns).__idempotent_errors())
            }
            false => quote_spanned!(span=> __idempotent_returns),
        };
        let policy = quote_spanned! {span=>
            #private::#hook(#answers, __idempotent_hook, __idempotent_hook)
        };
        let policy = match is_final {
            // The type of the errors is known here alone, and with it whether they have sources.
            true => {
                quote_spanned!(span=> #private::FinalErrors::of(#policy).__idempotent_searched())
            }
            false => policy,
        };
        quote_spanned! {span=>
            let __idempotent_hook = #path;
            let __idempotent_returns = #policy;
        }
    }
}

/// The type argument at which the compiler points: the type itself, if it can be written there.
fn pointed_at(ty: &Type, span: Span) -> TokenStream {
    match function::is_opaque(ty) {
        true => quote_spanned!(span=> ()),
        false => ty.to_token_stream(),
    }
}
