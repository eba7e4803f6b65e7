//! Bounds with a text of their own, for types that look wrong by their names.
//!
//! A name proves nothing: a user's own `HashMap` may have an order, and an alias named `Option` may be a
//! `Result`. So the compiler decides, and the text that it shows is about the function at hand, which a
//! trait of the runtime knows nothing of.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ExprReference, Type};

/// A requirement on one type of the user's, with the text for a type that does not meet it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The problem.
    pub(crate) what: String,
    /// A few words on the type, at the caret.
    pub(crate) label: String,
    /// Something that can be typed.
    pub(crate) help: String,
}

impl Condition {
    /// A trait of every `Result`.
    pub(crate) fn on_result(&self, private: &TokenStream, span: Span) -> TokenStream {
        let bounds = quote_spanned!(span=> #private::ReturnsResult);
        let header = quote_spanned! {span=>
            impl<__IdempotentT, __IdempotentE> __IdempotentCondition
                for ::core::result::Result<__IdempotentT, __IdempotentE>
        };
        self.declared(&bounds, &header, span)
    }

    /// The `reference` to a value that has to be part of a key. `key_part` is the path of the trait.
    pub(crate) fn on_part(
        &self,
        key_part: &TokenStream,
        reference: &TokenStream,
        span: Span,
    ) -> TokenStream {
        let bounds = quote_spanned!(span=> #key_part + ?::core::marker::Sized);
        let header = quote_spanned! {span=>
            impl<__IdempotentT: #bounds> __IdempotentCondition for __IdempotentT
        };
        let declared = self.declared(&bounds, &header, span);
        quote_spanned!(span=> { #declared __IdempotentCondition::__idempotent_met(#reference) })
    }

    /// The call that lets the policy `answers` keep values of the type `value`.
    pub(crate) fn on_kept(
        &self,
        private: &TokenStream,
        value: &Type,
        answers: &TokenStream,
    ) -> TokenStream {
        let span = value.span();
        let span = Span::mixed_site().located_at(span);
        let texts = self.texts(span);
        let policy = |value: TokenStream| quote_spanned!(span=> #private::AnswerPolicy<#value, __IdempotentE>);
        let (of_self, of_value) = (policy(quote!(Self)), policy(quote!(__IdempotentT)));
        quote_spanned! {span=> {
            #texts
            trait __IdempotentCondition: ::core::marker::Sized {
                fn __idempotent_kept<__IdempotentE>(answers: #of_self) -> #of_self;
            }
            #[diagnostic::do_not_recommend]
            impl<__IdempotentT: #private::Kept> __IdempotentCondition for __IdempotentT {
                fn __idempotent_kept<__IdempotentE>(answers: #of_value) -> #of_value {
                    #private::Kept::kept(answers)
                }
            }
            <#value as __IdempotentCondition>::__idempotent_kept(#answers)
        } }
    }

    /// The call that makes the policy of a function that `returns` a `Result` with this `error`.
    pub(crate) fn on_error(
        &self,
        private: &TokenStream,
        returns: &Type,
        error: &Type,
    ) -> TokenStream {
        let span = Span::mixed_site().located_at(error.span());
        let texts = self.texts(span);
        quote_spanned! {span=> {
            #texts
            trait __IdempotentCondition<__IdempotentR: #private::ReturnsResult> {
                fn __idempotent_answers() -> #private::AnswerPolicy<__IdempotentR::Value, __IdempotentR::Error>;
            }
            #[diagnostic::do_not_recommend]
            impl<__IdempotentT, __IdempotentE, __IdempotentAt: ?::core::marker::Sized>
                __IdempotentCondition<::core::result::Result<__IdempotentT, __IdempotentE>> for __IdempotentAt
            where
                __IdempotentAt: #private::FromRefusal<__IdempotentE>,
            {
                fn __idempotent_answers() -> #private::AnswerPolicy<__IdempotentT, __IdempotentE> {
                    <__IdempotentAt as #private::FromRefusal<__IdempotentE>>::answers()
                }
            }
            <#error as __IdempotentCondition<#returns>>::__idempotent_answers()
        } }
    }

    /// The instance to which the value leads that `reference` borrows.
    pub(crate) fn on_instance(
        &self,
        private: &TokenStream,
        reference: &ExprReference,
        span: Span,
    ) -> TokenStream {
        let texts = self.texts(span);
        quote_spanned! {span=> {
            #texts
            trait __IdempotentCondition {
                fn __idempotent_instance(&self) -> #private::Idempotency;
            }
            #[diagnostic::do_not_recommend]
            impl<__IdempotentT: #private::Lends + ?::core::marker::Sized> __IdempotentCondition for __IdempotentT {
                fn __idempotent_instance(&self) -> #private::Idempotency {
                    #private::instance(self)
                }
            }
            __IdempotentCondition::__idempotent_instance(#reference)
        } }
    }

    /// The requirement that the value of a parameter can be sent to another thread. The type of a closure has no
    /// name, so that the compiler does not propose this trait as a bound.
    pub(crate) fn on_sent(&self, parameter: &Ident, span: Span) -> TokenStream {
        let texts = self.texts(span);
        let mut parameter = parameter.clone();
        parameter.set_span(parameter.span().located_at(span));
        quote_spanned! {span=> {
            #texts
            trait __IdempotentCondition<__IdempotentHere> {
                fn __idempotent_met(&self, _: __IdempotentHere) {}
            }
            #[diagnostic::do_not_recommend]
            impl<__IdempotentT: ::core::marker::Send, __IdempotentHere>
                __IdempotentCondition<__IdempotentHere> for __IdempotentT
            {
            }
            __IdempotentCondition::__idempotent_met(&#parameter, || {});
        } }
    }

    /// A trait and its only impl. `Met` is the type itself. Without the impl, `Met` is an error that has
    /// been reported, and what is made of it is no second one, if that is at the same `span`.
    fn declared(&self, bounds: &TokenStream, header: &TokenStream, span: Span) -> TokenStream {
        let texts = self.texts(span);
        quote_spanned! {span=>
            #[allow(dead_code)]
            #texts
            trait __IdempotentCondition {
                type Met: #bounds;
                fn __idempotent_met(&self) -> &Self::Met;
            }
            #[diagnostic::do_not_recommend]
            #header {
                type Met = Self;
                fn __idempotent_met(&self) -> &Self {
                    self
                }
            }
        }
    }

    fn texts(&self, span: Span) -> TokenStream {
        let [what, label, help] = [&self.what, &self.label, &self.help].map(|text| escaped(text));
        quote_spanned!(span=> #[diagnostic::on_unimplemented(message = #what, label = #label, note = #help)])
    }
}

/// The text in a format string.
fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_of_code_are_text() {
        assert_eq!(escaped("fn f() { Ok(()) }"), "fn f() {{ Ok(()) }}");
    }
}
