//! Types that are known to be no parts of keys wherever they are seen.
//!
//! The compiler reports every type without `KeyPart`, but only with the notes for all of them.

use syn::{GenericArgument, PathArguments, Type};

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

    pub(crate) fn problem(self) -> String {
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

    /// The type to use in its place.
    pub(crate) fn remedy(self) -> String {
        match self {
            Self::Float(_) => "use an integer, such as cents in a `u64`".to_owned(),
            Self::Unordered(_, ordered) => format!("use a `{ordered}`"),
            Self::Option => "end the path with `?`".to_owned(),
        }
    }
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
