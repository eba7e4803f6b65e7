//! The site: a `static` with what is known at compile time.

use proc_macro2::{Delimiter, Group, Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;
use syn::ext::IdentExt;

use super::{Expansion, value};
use crate::condition::Condition;
use crate::source::source;
use crate::value::{Flag, Message, OperationName, variant};

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
            ("expire", value(&args.expire).map(|time| self.time("expire", time, time.constant()))),
            ("mode", value(&args.mode).map(|mode| one_of("Mode", variant(mode)))),
            (
                "message",
                value(&args.message).and_then(Message::fixed).map(|text| match text {
                    Expr::Lit(text) => text.to_token_stream(),
                    constant => self.constant("text", constant, None),
                }),
            ),
            ("wait", value(&args.wait).map(|time| self.time("wait", time, time.constant()))),
            ("lease", value(&args.lease).map(|time| self.time("lease", time, time.constant()))),
            (
                "max_run",
                value(&args.max_run).map(|time| self.time("max_run", time, time.constant())),
            ),
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

    fn time(&self, name: &str, time: &impl ToTokens, constant: Option<&Expr>) -> TokenStream {
        match constant {
            Some(constant @ Expr::Path(_)) => {
                self.constant("duration", constant, Some(&named_duration(name, constant)))
            }
            Some(constant) => self.constant("duration", constant, None),
            None => time.to_token_stream(),
        }
    }

    /// A constant of the user's, with a `check` of its type.
    ///
    /// The witness of the type has exactly the span of the constant: the compiler reports the type
    /// for both, and drops the second report if it is at the same place.
    fn constant(&self, check: &str, constant: &Expr, named: Option<&Condition>) -> TokenStream {
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
        let type_of = quote!(#private::#type_of #inside);
        let checked = quote_spanned!(span=> #root::#check(#type_of, #constant));
        match named.map(|condition| condition.on_duration(&root, &type_of, span)) {
            Some(condition) => quote_spanned!(span=> { #condition #checked }),
            None => checked,
        }
    }
}

/// The condition for a constant that the user names as a time.
fn named_duration(name: &str, constant: &Expr) -> Condition {
    let constant = source(constant);
    Condition {
        what: format!("`{name}` takes a `std::time::Duration`, and `{constant}` is none"),
        label: "this is `{Self}`".to_owned(),
        help: format!(
            "for a `u64` of seconds: `{name} = std::time::Duration::from_secs({constant})`; of milliseconds: \
             `{name} = std::time::Duration::from_millis({constant})`; another integer goes in as `{constant} as \
             u64`; or write the time itself, with its unit and in quotes; a time that is known only at run time \
             belongs in an `idempotent_runtime::Config`"
        ),
    }
}
