//! Types that look as if they were no parts of keys, told by their names.
//!
//! The compiler reports every type without `KeyPart`, but only with the notes for all of them. A
//! [`Condition`] has the text for one.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::visit_mut::{self, VisitMut};
use syn::{GenericArgument, Path, PathArguments, Type, parse_quote};

use crate::condition::Condition;
use crate::function::Function;
use crate::key::{FieldPath, Key};
use crate::source::type_source;

/// A reason for which a type is no part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// `f32` or `f64`.
    Float(&'static str),
    /// A collection, and an ordered one to use in its place.
    Unordered(&'static str, &'static str),
    Option,
}

impl NoKey {
    /// Recognises the type, or one inside a sequence or a pointer, by its name.
    pub(crate) fn of(ty: &Type) -> Option<Self> {
        match ty {
            Type::Reference(reference) => Self::of(&reference.elem),
            Type::Slice(slice) => Self::of(&slice.elem),
            Type::Array(array) => Self::of(&array.elem),
            Type::Group(group) => Self::of(&group.elem),
            Type::Paren(paren) => Self::of(&paren.elem),
            Type::Path(path) => {
                let last = path.path.segments.last()?;
                match last.ident.to_string().as_str() {
                    "f32" => Some(Self::Float("f32")),
                    "f64" => Some(Self::Float("f64")),
                    "HashMap" => Some(Self::Unordered("HashMap", "BTreeMap")),
                    "HashSet" => Some(Self::Unordered("HashSet", "BTreeSet")),
                    "Option" => Some(Self::Option),
                    "Vec" | "Box" | "Rc" | "Arc" => match &last.arguments {
                        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
                            GenericArgument::Type(inner) => {
                                Self::of(inner).filter(|inner| *inner != Self::Option)
                            }
                            _ => None,
                        },
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn problem(self) -> String {
        match self {
            Self::Float(ty) => {
                format!("`{ty}` is no part of a key: equal amounts may differ in their last bit")
            }
            Self::Unordered(ty, _) => {
                format!("`{ty}` is no part of a key: its order changes from run to run")
            }
            Self::Option => {
                "an `Option` is no key: all calls without a value would share one".to_owned()
            }
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Float(_) => "a float",
            Self::Unordered(..) => "has no order",
            Self::Option => "may have no value",
        }
    }

    /// The condition for a type of which this is suspected.
    pub(crate) fn condition(self, help: String) -> Condition {
        Condition { what: self.problem(), label: self.label().to_owned(), help }
    }

    /// The type to use in its place.
    pub(crate) fn remedy(self) -> String {
        match self {
            Self::Float(_) => "use an integer, such as an `i64` of the smallest unit".to_owned(),
            Self::Unordered(_, ordered) => format!("use a `{ordered}`"),
            Self::Option => "end the path with `?`".to_owned(),
        }
    }
}

/// The condition for a path that is a parameter, in the argument `name`, if the type of the parameter looks
/// like no part of a key.
pub(crate) fn condition(
    name: &str,
    key: &Key,
    path: &FieldPath,
    function: &Function,
) -> Option<Condition> {
    if !path.is_word() {
        return None;
    }
    if path.root == "self" {
        return Some(whole_self(name, key, function));
    }
    let parameter = function.type_of(&path.root)?;
    let no_key = NoKey::of(parameter)?;
    let (root, ty) = (&path.root, type_source(parameter));
    let help = match no_key {
        NoKey::Option => {
            let optional = key.with_in_place(name, path, &format!("{root}?"));
            format!("refuse a call without it: `{optional}`")
        }
        NoKey::Float(float) if ty == float => {
            let bits = key.with_in_place(name, path, &format!("{root}.to_bits()"));
            format!("take an integer, such as cents: `{root}: u64`; for the same bits: `{bits}`")
        }
        NoKey::Float(float) => {
            format!("take integers, such as cents: `{root}: {}`", ty.replace(float, "u64"))
        }
        NoKey::Unordered(..) => {
            format!("take an ordered one: `{root}: {}`", type_source(&in_order(parameter)))
        }
    };
    Some(no_key.condition(help))
}

/// The type with an ordered collection of the standard library in the place of each unordered one. That has no
/// parameter for a hasher.
fn in_order(ty: &Type) -> Type {
    struct InOrder;
    impl VisitMut for InOrder {
        fn visit_path_mut(&mut self, path: &mut Path) {
            visit_mut::visit_path_mut(self, path);
            let Some(last) = path.segments.last() else { return };
            let (ordered, parameters) = match last.ident.to_string().as_str() {
                "HashMap" => ("BTreeMap", 2),
                "HashSet" => ("BTreeSet", 1),
                _ => return,
            };
            let ordered = Ident::new(ordered, last.ident.span());
            let mut arguments = last.arguments.clone();
            if let PathArguments::AngleBracketed(arguments) = &mut arguments {
                arguments.args =
                    std::mem::take(&mut arguments.args).into_iter().take(parameters).collect();
            }
            *path = parse_quote!(std::collections::#ordered);
            if let Some(last) = path.segments.last_mut() {
                last.arguments = arguments;
            }
        }
    }
    let mut ty = ty.clone();
    InOrder.visit_type_mut(&mut ty);
    ty
}

/// The condition for `self` alone, which is a service more often than a request. The field in its help is one
/// that the body reads.
fn whole_self(name: &str, key: &Key, function: &Function) -> Condition {
    let field = field_of_self(function.user_body());
    let path = field.map(|field| match key.is_template() {
        true => format!("`{{self.{field}}}`"),
        false => format!("`{name} = \"self.{field}\"`"),
    });
    let path = path.map_or_else(String::new, |path| format!(": {path}"));
    Condition {
        what: format!(
            "`self` as a whole is no part of `{name}`: its type does not implement `KeyPart`"
        ),
        label: "not a key part".to_owned(),
        help: format!(
            "go on to the field that tells calls apart{path}; for all fields, add \
             `#[derive(idempotent_runtime::KeyPart)]` to the type"
        ),
    }
}

/// The first field of `self` in the tokens that is no service whose answer is awaited.
fn field_of_self(tokens: TokenStream) -> Option<Ident> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.to_string() == text);
    let is_call = |at| matches!(tokens.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
    // `.insert(..).await`: a client of something, and no key.
    let is_awaited = |at: usize| is(at, ".") && is_call(at + 2) && is(at + 4, "await");
    tokens.iter().enumerate().find_map(|(at, token)| match token {
        TokenTree::Group(group) => field_of_self(group.stream()),
        TokenTree::Ident(field)
            if at >= 2 && is(at - 1, ".") && !is_call(at + 1) && !is_awaited(at + 1) =>
        {
            (is(at - 2, "self") || is(at - 2, "__self")).then(|| field.clone())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn types_are_recognised_by_their_names() {
        assert_eq!(NoKey::of(&parse_quote!(&f64)), Some(NoKey::Float("f64")));
        assert_eq!(NoKey::of(&parse_quote!(Arc<Vec<f32>>)), Some(NoKey::Float("f32")));
        assert_eq!(NoKey::of(&parse_quote!([f64; 3])), Some(NoKey::Float("f64")));
        let map = NoKey::Unordered("HashMap", "BTreeMap");
        assert_eq!(NoKey::of(&parse_quote!(std::collections::HashMap<u8, f64>)), Some(map));
        assert_eq!(NoKey::of(&parse_quote!(Option<u8>)), Some(NoKey::Option));
        // The compiler knows these better.
        for ty in [parse_quote!(u64), parse_quote!(Money), parse_quote!(Box<Option<u8>>)] {
            assert_eq!(NoKey::of(&ty), None);
        }
    }
}
