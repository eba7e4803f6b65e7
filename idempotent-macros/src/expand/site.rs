//! The site: a `static` with what is known at compile time.

use proc_macro2::{Delimiter, Group, Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::{Expansion, value};
use crate::validate::durations;
use crate::value::{Flag, Given, Length, Message, OperationName, variant};

impl Expansion<'_> {
    /// The `static` with the arguments that are known at compile time.
    pub(super) fn site(&self) -> TokenStream {
        let Self { args, span, .. } = self;
        let private = self.runtime.private(*span);
        let start = match (value(&args.name), value(&args.shared_name)) {
            (Some(OperationName(name)), Some(Flag(true))) => quote_spanned!(*span=> shared(#name)),
            (Some(OperationName(name)), _) => quote_spanned!(*span=> named(#name)),
            (None, _) => {
                let name = format!("::{}", self.function.sig.ident.unraw());
                // The type name of the closure contains the path of the enclosing item.
                quote_spanned! {*span=>
                    derived(::core::concat!(::core::module_path!(), #name), || {})
                }
            }
        };
        let one_of = |ty: &str, variant: Ident| {
            let ty = Ident::new(ty, *span);
            quote_spanned!(*span=> #private::#ty::#variant)
        };
        let settings = [
            ("expire", value(&args.expire).map(|time| self.checked("expire", time))),
            ("mode", value(&args.mode).map(|mode| one_of("Mode", variant(mode)))),
            (
                "message",
                value(&args.message).and_then(Message::fixed).map(|text| match text {
                    Expr::Lit(text) => text.to_token_stream(),
                    constant => self.constant("text", constant),
                }),
            ),
            ("wait", value(&args.wait).map(|time| self.time(time, time.constant()))),
            ("lease", value(&args.lease).map(|time| self.checked("lease", time))),
            ("max_run", args.max_run.as_ref().and_then(|given| self.max_run(given))),
            ("abandon", value(&args.abandon).map(|policy| one_of("Abandon", variant(policy)))),
            (
                "on_store_error",
                value(&args.on_store_error).map(|choice| one_of("OnStoreError", variant(choice))),
            ),
            (
                "on_unrecorded",
                value(&args.on_unrecorded).map(|choice| one_of("OnUnrecorded", variant(choice))),
            ),
        ]
        .into_iter()
        .filter_map(|(setter, value)| Some(self.set(setter, value?)));
        let binding = match value(&args.bind_payload_after_failure) {
            Some(Flag(true)) => Some(quote_spanned!(*span=> .bind_payload_after_failure())),
            _ => None,
        };
        // The configuration has the mode, and with it whether these have an effect.
        let for_strong = match (&args.mode, &args.wait, &args.on_replay) {
            (None, Some(_), _) => Some("wait"),
            (None, None, Some(_)) => Some("on_replay"),
            _ => None,
        };
        let for_strong = for_strong.map(|argument| quote_spanned!(*span=> .for_strong(#argument)));
        quote_spanned! {*span=>
            static __IDEMPOTENT_SITE: #private::Site =
                #private::Site::#start #(#settings)* #binding #for_strong;
        }
    }

    fn time(&self, time: &impl ToTokens, constant: Option<&Expr>) -> TokenStream {
        match constant {
            Some(constant) => self.constant("duration", constant),
            None => time.to_token_stream(),
        }
    }

    /// The time of an argument. The value of a constant is checked, at its place.
    fn checked(&self, argument: &str, time: &Length) -> TokenStream {
        let Some(constant) = time.constant() else { return time.to_token_stream() };
        let span = self.span.located_at(constant.span());
        let private = self.runtime.private(span);
        let check = Ident::new(argument, span);
        let time = self.constant("duration", constant);
        quote_spanned!(span=> #private::#check(#time))
    }

    /// The time of `max_run`, which is compared with `lease` here if one of them is a constant.
    fn max_run(&self, given: &Given<Length>) -> Option<TokenStream> {
        let time = given.ok()?;
        let lease = value(&self.args.lease);
        let has_constant = |time: &Length| time.constant().is_some();
        if !has_constant(time) && !lease.is_some_and(has_constant) {
            return Some(time.to_token_stream());
        }
        let span = self.span.located_at(given.at.span());
        let private = self.runtime.private(span);
        let refusal = durations::max_run_refused(self.args);
        let lease = match lease {
            Some(lease) => self.time(lease, lease.constant()),
            None => quote_spanned!(span=> ::core::time::Duration::ZERO),
        };
        let time = self.time(time, time.constant());
        Some(quote_spanned!(span=> #private::max_run(#time, #lease, #refusal)))
    }

    /// A constant of the user's, with a `check` of its type.
    ///
    /// The witness of the type has exactly the span of the constant: the compiler reports the type
    /// for both, and drops the second report if it is at the same place.
    fn constant(&self, check: &str, constant: &Expr) -> TokenStream {
        let tokens: Vec<_> = constant.to_token_stream().into_iter().collect();
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
            return TokenStream::new();
        };
        let private = self.runtime.private(first.span());
        let type_of = Ident::new("type_of", first.span());
        let and = quote_spanned!(first.span()=> &);
        let mut inside = Group::new(Delimiter::Parenthesis, quote!(#and #constant));
        inside.set_span(last.span());
        let span = self.span.located_at(first.span());
        let check = Ident::new(check, span);
        let root = self.runtime.private(span);
        quote_spanned!(span=> #root::#check(#private::#type_of #inside, #constant))
    }
}
