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
use crate::methods::own_type;
use crate::source::{source, type_source};

/// A reason for which a type is no part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// `f32` or `f64`.
    Float(&'static str),
    /// A collection without an order.
    Unordered(&'static str),
    Option,
    /// An `Option` inside of another type, which cannot be taken out of the key.
    OptionInside,
    /// Text of the operating system, such as a path.
    OsText(&'static str),
    /// An instant of the process.
    Instant,
    /// A `PhantomData`.
    Nothing,
}

impl NoKey {
    /// Recognises the type, or one inside of it, by its name.
    pub(crate) fn of(ty: &Type) -> Option<Self> {
        match ty {
            Type::Reference(reference) => Self::of(&reference.elem),
            Type::Slice(slice) => Self::inside(&slice.elem),
            Type::Array(array) => Self::inside(&array.elem),
            Type::Tuple(tuple) => tuple.elems.iter().find_map(Self::inside),
            Type::Group(group) => Self::of(&group.elem),
            Type::Paren(paren) => Self::of(&paren.elem),
            Type::Path(path) => {
                let last = path.path.segments.last()?;
                match last.ident.to_string().as_str() {
                    "f32" => Some(Self::Float("f32")),
                    "f64" => Some(Self::Float("f64")),
                    "HashMap" => Some(Self::Unordered("HashMap")),
                    "HashSet" => Some(Self::Unordered("HashSet")),
                    "Option" => Some(Self::Option),
                    "Path" if arguments(ty).is_empty() => Some(Self::OsText("Path")),
                    "PathBuf" => Some(Self::OsText("PathBuf")),
                    "OsStr" => Some(Self::OsText("OsStr")),
                    "OsString" => Some(Self::OsText("OsString")),
                    "Instant" => Some(Self::Instant),
                    "PhantomData" => Some(Self::Nothing),
                    _ => arguments(ty).into_iter().find_map(Self::inside),
                }
            }
            _ => None,
        }
    }

    fn inside(ty: &Type) -> Option<Self> {
        match Self::of(ty)? {
            Self::Option => Some(Self::OptionInside),
            // Of a parameter, it says nothing about the type around it.
            Self::Nothing => None,
            no_key => Some(no_key),
        }
    }

    fn problem(self) -> String {
        match self {
            Self::Float(ty) => {
                format!("`{ty}` is no part of a key: equal amounts may differ in their last bit")
            }
            Self::Unordered(ty) => {
                format!("`{ty}` is no part of a key: its order changes from run to run")
            }
            Self::Option => {
                "an `Option` is no key: all calls without a value would share one".to_owned()
            }
            Self::OptionInside => {
                "an `Option` inside of another type is no part of a key: it may have no value"
                    .to_owned()
            }
            Self::OsText(ty) => format!("`{ty}` is no part of a key: it may be no text"),
            Self::Instant => {
                "`Instant` is no part of a key: it means nothing in another process".to_owned()
            }
            Self::Nothing => "`PhantomData` is no part of a key: it has no value".to_owned(),
        }
    }

    /// The condition for the type `ty`, of which this is suspected.
    pub(crate) fn condition(self, ty: &Type, help: String) -> Condition {
        let is_whole = arguments(ty).is_empty() || matches!(self, Self::Unordered(_));
        let label = match self {
            Self::Float(_) if is_whole => "a float",
            Self::Float(_) => "has a float in it",
            Self::Unordered(..) => "has no order",
            Self::Option => "may have no value",
            Self::OptionInside => "has parts that may have no value",
            Self::OsText(_) => "may be no text",
            Self::Instant => "an instant of this process",
            Self::Nothing => "has no value",
        };
        Condition { what: self.problem(), label: label.to_owned(), help }
    }

    /// The type to use in the place of `ty`.
    pub(crate) fn remedy(self, ty: &Type) -> String {
        match self {
            Self::Float(_) => "use an integer, such as an `i64` of the smallest unit".to_owned(),
            Self::Unordered(_) => format!("use `{}`", type_source(&in_order(ty))),
            Self::Option | Self::OptionInside => slot(ty),
            Self::OsText(_) => "use a `String`".to_owned(),
            Self::Instant => "use a `std::time::SystemTime`".to_owned(),
            Self::Nothing => "leave it out: `#[key_part(skip)]`".to_owned(),
        }
    }
}

/// The types in the angle brackets of a type.
fn arguments(ty: &Type) -> Vec<&Type> {
    let Type::Path(path) = ty else { return Vec::new() };
    let Some(PathArguments::AngleBracketed(arguments)) =
        path.path.segments.last().map(|last| &last.arguments)
    else {
        return Vec::new();
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect()
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
    let root = &path.root;
    // The key with `end` after this path.
    let ending =
        |end: &str| format!("`{}`", key.with_in_place(name, path, &format!("{root}{end}")));
    if let Some(condition) =
        trait_object(parameter, ending).or_else(|| extractor(parameter, root, ending))
    {
        return Some(condition);
    }
    let Some(no_key) = NoKey::of(parameter) else {
        return (name == "fingerprint").then(|| whole_payload(path, function)).flatten();
    };
    let ty = type_source(parameter);
    if name == "fingerprint" && no_key == NoKey::Option && !key.is_template() {
        return None;
    }
    let help = match no_key {
        NoKey::Option => format!("refuse a call without it: {}", ending("?")),
        NoKey::OptionInside => slot(parameter),
        NoKey::Float(float) if ty == float => format!(
            "take an integer, such as cents: `{root}: u64`; for the same bits: {}",
            ending(".to_bits()")
        ),
        NoKey::Float(float) => {
            format!("take integers, such as cents: `{root}: {}`", ty.replace(float, "u64"))
        }
        NoKey::Unordered(..) => {
            format!("take an ordered one: `{root}: {}`", type_source(&in_order(parameter)))
        }
        NoKey::OsText(_) if arguments(parameter).is_empty() => format!(
            "refuse a call in which it is none: {}; or take the text that is shown for it: {}",
            ending(".to_str()?"),
            ending(".display().to_string()")
        ),
        NoKey::OsText(text) => {
            format!("take its text: `{root}: {}`", ty.replace(text, "String"))
        }
        NoKey::Instant => {
            format!("take a time of all processes: `{root}: std::time::SystemTime`")
        }
        NoKey::Nothing => format!("leave `{root}` out of the key"),
    };
    Some(no_key.condition(parameter, help))
}

/// A type of the user's around the `Option` in a type.
fn slot(ty: &Type) -> String {
    struct Slot(Option<Type>);
    impl VisitMut for Slot {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            let is_option = matches!(ty, Type::Path(path)
                if path.path.segments.last().is_some_and(|last| last.ident == "Option"));
            match is_option && self.0.is_none() {
                true => self.0 = Some(std::mem::replace(ty, parse_quote!(Slot))),
                false => visit_mut::visit_type_mut(self, ty),
            }
        }
    }
    let (mut ty, mut slot) = (ty.clone(), Slot(None));
    slot.visit_type_mut(&mut ty);
    let option = slot.0.as_ref().map(type_source).unwrap_or_default();
    format!(
        "a field may have none: `{}`, with `#[derive(idempotent_runtime::KeyPart)] struct Slot {{ value: {option} }}`",
        type_source(&ty)
    )
}

/// The condition for a whole request as a fingerprint, which need not be a part of a key.
fn whole_payload(path: &FieldPath, function: &Function) -> Option<Condition> {
    let root = &path.root;
    let ty = own_type(function, root)?;
    Some(Condition {
        what: format!("`{ty}` is no fingerprint: it does not implement `KeyPart`"),
        label: "not a key part".to_owned(),
        help: format!(
            "for any type that serializes: `fingerprint = \"{root}.payload()?\"`, with `impl {ty} {{ fn payload(&self) -> \
             Option<idempotent_runtime::Fingerprint> {{ idempotent_runtime::Fingerprint::of_serialized(self).ok() }} }}`; \
             if all of its fields can be parts of a key: \
             `#[derive(idempotent_runtime::KeyPart)]` on `{ty}`"
        ),
    })
}

/// The condition for a type with the name of an extractor of a web framework.
fn extractor(ty: &Type, root: &Ident, ending: impl Fn(&str) -> String) -> Option<Condition> {
    let Type::Path(path) = ty else { return None };
    let name = &path.path.segments.last()?.ident;
    let is_extractor = ["Extension", "Form", "Json", "Path", "Query", "State"]
        .iter()
        .any(|extractor| name == extractor);
    let ty = match arguments(ty).as_slice() {
        [_] if is_extractor => type_source(ty),
        _ => return None,
    };
    Some(Condition {
        what: format!("`{ty}` is no part of a key: it is an extractor, with the value inside"),
        label: "an extractor".to_owned(),
        help: format!(
            "take the value out of it: {}; or in the list of parameters: `{name}({root}): {ty}`",
            ending(".0")
        ),
    })
}

/// The condition for a trait object behind a pointer.
fn trait_object(parameter: &Type, ending: impl Fn(&str) -> String) -> Option<Condition> {
    let mut ty = parameter;
    while let Type::Reference(reference) = ty {
        ty = &reference.elem;
    }
    let Type::TraitObject(object) = arguments(ty).into_iter().next().unwrap_or(ty) else {
        return None;
    };
    Some(Condition {
        what: format!(
            "`{}` is no part of a key: its type is known only at run time",
            source(object)
        ),
        label: "a trait object".to_owned(),
        help: format!(
            "end the path with a method of the trait that returns its identity, such as {}",
            ending(".id()")
        ),
    })
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
        let map = NoKey::Unordered("HashMap");
        assert_eq!(NoKey::of(&parse_quote!(std::collections::HashMap<u8, f64>)), Some(map));
        assert_eq!(NoKey::of(&parse_quote!(Option<u8>)), Some(NoKey::Option));
        assert_eq!(NoKey::of(&parse_quote!(Amount<f64>)), Some(NoKey::Float("f64")));
        assert_eq!(NoKey::of(&parse_quote!(&[Option<u8>])), Some(NoKey::OptionInside));
        assert_eq!(NoKey::of(&parse_quote!(&Path)), Some(NoKey::OsText("Path")));
        // The compiler knows these better.
        for ty in [parse_quote!(u64), parse_quote!(Money)] {
            assert_eq!(NoKey::of(&ty), None);
        }
    }
}
