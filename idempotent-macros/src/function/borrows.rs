//! Borrows and `Rc`s in the types of a signature, and the types that own what they borrow.

use proc_macro2::{Ident, TokenStream};
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

/// Finds an `Rc` in the type of a parameter.
pub(super) fn counted(input: &FnArg) -> Option<Ident> {
    struct Find(Option<Ident>);
    impl Visit<'_> for Find {
        fn visit_path_segment(&mut self, segment: &syn::PathSegment) {
            if segment.ident == "Rc" && !segment.arguments.is_empty() {
                self.0.get_or_insert_with(|| segment.ident.clone());
            }
            visit::visit_path_segment(self, segment);
        }
        // What a function takes is not captured with it.
        fn visit_type_fn_ptr(&mut self, _: &syn::TypeFnPtr) {}
        fn visit_parenthesized_generic_arguments(
            &mut self,
            _: &syn::ParenthesizedGenericArguments,
        ) {
        }
    }
    let mut find = Find(None);
    find.visit_fn_arg(input);
    find.0
}

/// Finds a borrow in the `Ok` type of a returned `Result`.
pub(crate) fn borrowed_value(returns: &Type) -> Option<TokenStream> {
    struct Find(Option<TokenStream>);
    impl Visit<'_> for Find {
        fn visit_type_reference(&mut self, ty: &syn::TypeReference) {
            self.0.get_or_insert_with(|| ty.and_token.to_token_stream());
        }
        fn visit_lifetime(&mut self, lifetime: &syn::Lifetime) {
            if lifetime.ident != "static" {
                self.0.get_or_insert_with(|| lifetime.to_token_stream());
            }
        }
        fn visit_type_fn_ptr(&mut self, _: &syn::TypeFnPtr) {}
        fn visit_parenthesized_generic_arguments(
            &mut self,
            _: &syn::ParenthesizedGenericArguments,
        ) {
        }
    }
    let Type::Path(path) = returns else {
        return None;
    };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    let value = arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })?;
    let mut find = Find(None);
    find.visit_type(value);
    find.0
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
