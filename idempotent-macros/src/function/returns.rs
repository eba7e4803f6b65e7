//! The return type of a function.

use proc_macro2::Ident;
use syn::visit::Visit;
use syn::{GenericArgument, PathArguments, ReturnType, Token, Type, TypeParamBound, token};

use super::{Function, Shape};
use crate::source::source;

impl Function {
    /// `T` in the return type `impl Future<Output = T>`, or in a box of one.
    pub(crate) fn future_output(&self) -> Option<Type> {
        struct Find(Option<Type>);
        impl Visit<'_> for Find {
            fn visit_assoc_type(&mut self, assoc: &syn::AssocType) {
                if assoc.ident == "Output" {
                    self.0.get_or_insert(assoc.ty.clone());
                }
            }
        }
        let mut find = Find(None);
        find.visit_return_type(&self.sig.output);
        find.0
    }

    /// The type that the async body returns.
    pub(crate) fn returns(&self) -> Type {
        match (&self.shape, &self.sig.output) {
            (Shape::Boxed(boxed), _) => boxed.output.clone(),
            (_, ReturnType::Type(_, ty)) => (**ty).clone(),
            (_, ReturnType::Default) => {
                let paren_token = token::Paren(self.sig.ident.span());
                Type::Tuple(syn::TypeTuple {
                    attrs: Vec::new(),
                    paren_token,
                    elems: Default::default(),
                })
            }
        }
    }

    /// The first `impl Trait` in the return type.
    pub(crate) fn returns_opaque(&self) -> Option<Token![impl]> {
        struct Find(Option<Token![impl]>);
        impl Visit<'_> for Find {
            fn visit_type_impl_trait(&mut self, ty: &syn::TypeImplTrait) {
                self.0.get_or_insert(ty.impl_token);
            }
        }
        let mut find = Find(None);
        find.visit_type(&self.returns());
        find.0
    }

    /// The name of `E` in `Result<T, E>`, if it may be a type of the user's own.
    pub(crate) fn own_error(&self) -> Option<String> {
        let returns = self.returns();
        let (_, Type::Path(error)) = result_types(&returns)? else { return None };
        let last = &error.path.segments.last()?.ident;
        let is_plain = error.path.segments.iter().all(|segment| segment.arguments.is_empty());
        (is_plain && last != "Error" && last != "String").then(|| source(error))
    }

    /// The type parameter that `ty` is, if no trait bounds it but some of the standard library.
    pub(crate) fn unbounded<'a>(&'a self, ty: &Type) -> Option<&'a Ident> {
        let Type::Path(path) = ty else { return None };
        let name = path.path.get_ident()?;
        let generics = &self.sig.generics;
        let parameter = generics.type_params().find(|parameter| parameter.ident == *name)?;
        let says_nothing = |bound: &TypeParamBound| match bound {
            TypeParamBound::Trait(bound) if is_std_error(&bound.path) => true,
            TypeParamBound::Trait(bound) => bound.path.get_ident().is_some_and(|name| {
                ["Send", "Sync", "Sized", "Unpin", "Clone", "Copy", "Debug", "Default", "Eq"]
                    .iter()
                    .any(|known| name == known)
            }),
            TypeParamBound::Lifetime(_) => true,
            _ => false,
        };
        let is_free = parameter.bounds.iter().all(says_nothing) && generics.where_clause.is_none();
        is_free.then_some(&parameter.ident)
    }
}

/// Returns `true` for `std::error::Error`, written out.
fn is_std_error(path: &syn::Path) -> bool {
    let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    matches!(
        names.iter().map(String::as_str).collect::<Vec<_>>()[..],
        ["std" | "core", "error", "Error"]
    )
}

/// `T` and `E` of a type that is written `Result<T, E>`.
pub(crate) fn result_types(returns: &Type) -> Option<(&Type, &Type)> {
    let Type::Path(path) = returns else { return None };
    let result = path.path.segments.last().filter(|last| last.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &result.arguments else { return None };
    let mut types = arguments.args.iter().map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    Some((types.next()??, types.next()??))
}
