//! The return type of a function.

use syn::visit::Visit;
use syn::{GenericArgument, PathArguments, ReturnType, Token, Type, token};

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

/// The value and the error of a return type whose name ends in `Result`, as far as they are written: an alias may
/// have the error in it.
pub(crate) fn written_types(returns: &Type) -> (Option<&Type>, Option<&Type>) {
    let Type::Path(path) = returns else { return (None, None) };
    let last = path.path.segments.last();
    let result = last.filter(|last| last.ident.to_string().ends_with("Result"));
    let Some(PathArguments::AngleBracketed(arguments)) = result.map(|last| &last.arguments) else {
        return (None, None);
    };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    (types.next(), types.next())
}

/// Returns `true` for a type with `impl Trait` in it, which can be written in a signature alone.
pub(crate) fn is_opaque(ty: &Type) -> bool {
    struct Find(bool);
    impl Visit<'_> for Find {
        fn visit_type_impl_trait(&mut self, _: &syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut find = Find(false);
    find.visit_type(ty);
    find.0
}
