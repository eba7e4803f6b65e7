//! Forms of values, as the types in the signature show them by their names.
//!
//! The compiler decides whether a value can be kept. Only the text of its error depends on this, and the place to
//! which it points: a type of the user's may have one of these names.

use syn::{Expr, GenericArgument, Lit, PathArguments, PathSegment, Type};

use crate::foreign;
use crate::function::Function;
use crate::validate::returns::is_primitive;
use crate::value::literal;

/// A form of a value's type, with the type that its remedy is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Form<'a> {
    /// One type of the user's, alone or in collections.
    Own(&'a Type),
    /// One with an argument that is another one.
    Around(&'a Type),
    /// None, or several.
    Among,
    /// Something behind an `Arc` or `Rc`.
    Shared(&'a Type),
    /// A trait object.
    Object,
    /// A channel or a stream.
    Stream,
    /// A response.
    Response,
    /// A response that is made from a value of this type.
    Inside(&'a Type),
    /// An array of these, longer than those of serde.
    Array(&'a Type),
    /// A type parameter of the function, alone or in collections.
    Parameter(&'a Type),
}

impl<'a> Form<'a> {
    /// Returns the form of a value of the function.
    pub(crate) fn of(value: &'a Type, function: &Function) -> Self {
        if let Some(inside) = foreign::inside_response(value) {
            return Self::Inside(inside);
        }
        let mut seen = Seen::default();
        seen.types_in(value);
        let ends_in = |ends: &[&str]| {
            last_segment(value)
                .is_some_and(|last| ends.iter().any(|end| last.ident.to_string().ends_with(end)))
        };
        if let Type::Array(array) = value
            && is_long(&array.len)
        {
            return Self::Array(&array.elem);
        }
        if seen.has_object {
            return Self::Object;
        }
        if ends_in(&["Stream", "Receiver"]) {
            return Self::Stream;
        }
        if ends_in(&["Response", "StatusCode"]) {
            return Self::Response;
        }
        if seen.has_pointer {
            return Self::Shared(seen.own.last().copied().unwrap_or(value));
        }
        match *seen.own {
            [only] if function.is_type_parameter(only) => Self::Parameter(only),
            [only] => Self::Own(only),
            [] if matches!(value, Type::Path(_)) => Self::Own(value),
            [_, inside] if !function.is_type_parameter(inside) => Self::Around(inside),
            _ => Self::Among,
        }
    }

    /// The last word of the name of the runtime's method.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Self::Own(_) => None,
            Self::Around(_) => Some("around"),
            Self::Among => Some("among"),
            Self::Shared(_) => Some("shared"),
            Self::Object => Some("object"),
            Self::Stream => Some("stream"),
            Self::Response => Some("response"),
            Self::Inside(_) => Some("inside"),
            Self::Array(_) => Some("array"),
            Self::Parameter(_) => Some("parameter"),
        }
    }
}

/// The longest array that serde serializes.
const LONGEST_ARRAY: u64 = 32;

fn is_long(length: &Expr) -> bool {
    let Some(Lit::Int(length)) = literal(length) else { return false };
    length.base10_parse::<u64>().is_ok_and(|length| length > LONGEST_ARRAY)
}

/// Types of the standard library that have the traits of serde if their arguments have.
const COLLECTIONS: [&str; 12] = [
    "BTreeMap",
    "BTreeSet",
    "BinaryHeap",
    "Box",
    "Cow",
    "HashMap",
    "HashSet",
    "LinkedList",
    "Option",
    "Result",
    "Vec",
    "VecDeque",
];

const POINTERS: [&str; 2] = ["Arc", "Rc"];

/// Types that always have them.
const PLAIN: [&str; 3] = ["Duration", "PhantomData", "String"];

/// The types inside a type.
#[derive(Default)]
struct Seen<'a> {
    /// Types that may be the user's own, from the outside to the inside.
    own: Vec<&'a Type>,
    has_object: bool,
    has_pointer: bool,
}

impl<'a> Seen<'a> {
    fn types_in(&mut self, ty: &'a Type) {
        match ty {
            Type::Array(array) => self.types_in(&array.elem),
            Type::Slice(slice) => self.types_in(&slice.elem),
            Type::Reference(reference) => self.types_in(&reference.elem),
            Type::Group(group) => self.types_in(&group.elem),
            Type::Paren(paren) => self.types_in(&paren.elem),
            Type::Tuple(tuple) => tuple.elems.iter().for_each(|member| self.types_in(member)),
            Type::TraitObject(_) => self.has_object = true,
            Type::Path(path) => {
                let Some(last) = path.path.segments.last() else { return };
                let name = last.ident.to_string();
                let is_one_of = |names: &[&str]| names.contains(&name.as_str());
                if is_one_of(&POINTERS) {
                    self.has_pointer = true;
                } else if !is_one_of(&COLLECTIONS) && !is_one_of(&PLAIN) && !is_primitive(&name) {
                    self.own.push(ty);
                }
                if let PathArguments::AngleBracketed(arguments) = &last.arguments {
                    for argument in &arguments.args {
                        if let GenericArgument::Type(inner) = argument {
                            self.types_in(inner);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;
    use syn::parse_quote;

    use super::*;

    fn function() -> Function {
        let item = quote!(
            async fn f<T>() -> Result<T, Error> {}
        );
        Function::parse(&item, &TokenStream::new()).unwrap()
    }

    #[test]
    fn the_remedy_is_about_the_innermost_type_of_the_users() {
        let is = |ty: Type, form: Form<'_>| assert_eq!(Form::of(&ty, &function()), form);
        let order = parse_quote!(Order);
        is(parse_quote!(Order), Form::Own(&order));
        is(parse_quote!(Vec<Option<Order>>), Form::Own(&order));
        is(parse_quote!((u64, Order)), Form::Own(&order));
        is(parse_quote!(Page<Vec<Order>>), Form::Around(&order));
        is(parse_quote!(Page<Vec<u64>>), Form::Own(&parse_quote!(Page<Vec<u64>>)));
        is(parse_quote!(Pair<Order, Line>), Form::Among);
        is(parse_quote!(Arc<Order>), Form::Shared(&order));
        is(parse_quote!(Option<T>), Form::Parameter(&parse_quote!(T)));
        is(parse_quote!(Page<T>), Form::Among);
        is(parse_quote!(Vec<u8>), Form::Own(&parse_quote!(Vec<u8>)));
        is(parse_quote!(fn()), Form::Among);
    }

    #[test]
    fn some_types_are_told_by_their_names() {
        let is = |ty: Type, form: Form<'_>| assert_eq!(Form::of(&ty, &function()), form);
        is(parse_quote!(Box<dyn Fn()>), Form::Object);
        is(parse_quote!(mpsc::Receiver<Order>), Form::Stream);
        is(parse_quote!(axum::response::Response), Form::Response);
        is(parse_quote!(Json<u64>), Form::Inside(&parse_quote!(u64)));
        is(parse_quote!([u8; 64]), Form::Array(&parse_quote!(u8)));
        is(parse_quote!([u8; 32]), Form::Among);
    }
}
