//! Borrows in the types of a signature, and the types that own what they borrow.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{FnArg, GenericArgument, PathArguments, Receiver, Type};

/// Finds a borrow in the type of a parameter and returns its first token.
pub(crate) fn borrow(input: &FnArg) -> Option<TokenStream> {
    #[derive(Default)]
    struct Find(Option<TokenStream>);
    impl Find {
        fn found(&mut self, at: impl ToTokens) {
            self.0.get_or_insert(at.into_token_stream());
        }
    }
    impl Visit<'_> for Find {
        fn visit_receiver(&mut self, receiver: &Receiver) {
            if let syn::ReceiverKind::Reference(and, ..) = &receiver.kind {
                self.found(and);
            }
            visit::visit_receiver(self, receiver);
        }
        fn visit_type_reference(&mut self, ty: &syn::TypeReference) {
            match &ty.lifetime {
                Some(lifetime) if lifetime.ident == "static" => self.visit_type(&ty.elem),
                _ => self.found(ty.and_token),
            }
        }
        fn visit_lifetime(&mut self, lifetime: &syn::Lifetime) {
            if lifetime.ident != "static" {
                self.found(lifetime);
            }
        }
        // The references of a function's own parameters are not borrows of the caller.
        fn visit_type_fn_ptr(&mut self, _: &syn::TypeFnPtr) {}
        fn visit_parenthesized_generic_arguments(
            &mut self,
            _: &syn::ParenthesizedGenericArguments,
        ) {
        }
    }
    let mut find = Find::default();
    find.visit_fn_arg(input);
    find.0
}

/// Finds a borrow in a type.
pub(crate) fn borrow_in(ty: &Type) -> Option<TokenStream> {
    borrow(&syn::parse_quote!(value: #ty))
}

/// The type that owns what `ty` borrows: `String` for `&str`, `Vec<u8>` for `&[u8]`.
pub(crate) fn owned(ty: &Type) -> Option<Type> {
    match ty {
        Type::Reference(reference) => match &*reference.elem {
            Type::Slice(slice) => {
                let elem = owned(&slice.elem).unwrap_or_else(|| (*slice.elem).clone());
                Some(syn::parse_quote!(Vec<#elem>))
            }
            Type::Path(path) if path.path.is_ident("str") => Some(syn::parse_quote!(String)),
            Type::TraitObject(_) | Type::ImplTrait(_) => None,
            elem => Some(owned(elem).unwrap_or_else(|| elem.clone())),
        },
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
            let is_cow = last.ident == "Cow";
            let mut path = path.clone();
            let mut changed = false;
            let last = path.path.segments.last_mut()?;
            let PathArguments::AngleBracketed(inside) = &mut last.arguments else { return None };
            for (inside, argument) in inside.args.iter_mut().zip(&arguments.args) {
                if let GenericArgument::Type(ty) = argument {
                    if is_cow {
                        return owned(&syn::parse_quote!(&#ty));
                    }
                    if let Some(ty) = owned(ty) {
                        *inside = GenericArgument::Type(ty);
                        changed = true;
                    }
                }
            }
            changed.then_some(Type::Path(path))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn borrows_have_an_owner() {
        let named = |ty: Type| owned(&ty).map(|ty| crate::source::type_source(&ty));
        assert_eq!(named(parse_quote!(&'a str)).unwrap(), "String");
        assert_eq!(named(parse_quote!(&[&str])).unwrap(), "Vec<String>");
        assert_eq!(named(parse_quote!(Option<&'a Order>)).unwrap(), "Option<Order>");
        assert_eq!(named(parse_quote!(Cow<'a, str>)).unwrap(), "String");
        assert_eq!(named(parse_quote!(Order<'a>)), None);
        assert_eq!(named(parse_quote!(u64)), None);
    }
}
