//! Detects derived names that leave out a type or an outer function.
//!
//! A name is derived from the module path and the name of the function. An `impl` block, a trait
//! and an outer function occur in neither, so `Card::pay` and `Cash::pay` would be one operation.
//! The `type_name` of an item inside the function shows them. That text differs between compilers,
//! so it is only compared and proposed, and never becomes part of a stored name by itself.

/// The part of a function's path that its derived name does not show.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The item around the function, such as `Card`.
    pub(crate) surroundings: String,
    /// A name that includes it.
    pub(crate) proposal: String,
}

/// Compares a derived name with the `type_name` of an item inside the function.
///
/// `None` if nothing is left out, or if the function does not occur in `path` at all.
pub(crate) fn left_out(name: &str, path: &str) -> Option<LeftOut> {
    let (module, function) = name.rsplit_once("::")?;
    // The last occurrence, because a function may be inside another one of the same name.
    let (around, _) = path.rsplit_once(&format!("::{function}::"))?;
    // `module_path!` writes raw identifiers as such, `type_name` does not.
    let plain = module.replace("r#", "");
    if around == plain {
        return None;
    }
    let (module, inside) = match around.strip_prefix(&format!("{plain}::")) {
        Some(inside) => (Some(module), inside),
        // `<shop::Card as shop::Pay>`
        None if around.starts_with('<') => (Some(module), around),
        // A module inside a function.
        None => (None, around),
    };
    let words = words(inside);
    let surroundings = words.join("::");
    let proposal: Vec<_> = module.into_iter().chain(words).chain([function]).collect();
    Some(LeftOut { surroundings, proposal: proposal.join("::") })
}

/// The names in a path; of a path inside angle brackets the last one.
fn words(path: &str) -> Vec<&str> {
    const NOT_NAMES: [&str; 10] =
        ["", "_", "as", "closure", "const", "dyn", "fn", "for", "impl", "mut"];
    let mut words = Vec::new();
    let mut depth = 0_u32;
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    // The `>` of an arrow is not a bracket.
    let brackets = path.replace("->", "  ");
    let ends = brackets.char_indices().filter(|&(_, c)| !is_path(c));
    let mut start = 0;
    for (at, end) in ends.chain([(path.len(), ' ')]) {
        let segments = path[start..at].split("::").filter(|word| !NOT_NAMES.contains(word));
        match depth {
            0 => words.extend(segments),
            _ => words.extend(segments.last()),
        }
        match end {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        start = at + end.len_utf8();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path of the closure in the `static` of an attributed function.
    fn path(function: &str) -> String {
        format!("{function}::{{{{closure}}}}::__IDEMPOTENT_SITE::{{{{closure}}}}")
    }

    fn proposal(name: &str, function: &str) -> Option<String> {
        left_out(name, &path(function)).map(|left_out| left_out.proposal)
    }

    #[test]
    fn functions_in_modules_leave_nothing_out() {
        for (name, function) in [
            ("shop::pay", "shop::pay"),
            ("shop::pay::pay", "shop::pay::pay"),
            ("shop::r#mod::r#impl::pay", "shop::mod::impl::pay"),
            // An attribute below this one that wraps the body.
            ("shop::pay", "shop::pay::{{closure}}"),
        ] {
            assert_eq!(proposal(name, function), None, "{function}");
        }
    }

    #[test]
    fn surroundings_are_found_and_proposed() {
        for (name, function, expected) in [
            ("shop::pay", "shop::Card::pay", "shop::Card::pay"),
            ("shop::pay", "shop::Wrap<_>::pay", "shop::Wrap::pay"),
            ("shop::pay", "shop::Wrap<'_>::pay", "shop::Wrap::pay"),
            ("shop::pay", "shop::Wrap<u8>::pay", "shop::Wrap::u8::pay"),
            ("shop::pay", "shop::Wrap<shop::pay::A>::pay", "shop::Wrap::A::pay"),
            ("shop::pay", "<shop::Card as shop::Pay>::pay", "shop::Card::Pay::pay"),
            ("shop::pay", "<shop::W<_> as shop::G<std::Vec<_>>>::pay", "shop::W::G::Vec::pay"),
            ("shop::pay", "<(u8, [i8; 3]) as shop::Pay>::pay", "shop::u8::i8::3::Pay::pay"),
            ("shop::pay", "<&str as shop::Pay>::pay", "shop::str::Pay::pay"),
            ("shop::pay", "<dyn std::Send as shop::Pay>::pay", "shop::Send::Pay::pay"),
            ("shop::pay", "<fn(u8) -> i8 as shop::Pay>::pay", "shop::u8::i8::Pay::pay"),
            ("shop::pay", "shop::Pay::pay", "shop::Pay::pay"),
            ("shop::r#mod::pay", "shop::mod::<impl shop::Card>::pay", "shop::r#mod::Card::pay"),
            ("shop::m::pay", "shop::m::<impl shop::Pay for a::B>::pay", "shop::m::Pay::B::pay"),
            ("shop::pay", "shop::outer::pay", "shop::outer::pay"),
            ("shop::pay", "shop::outer::{{closure}}::pay", "shop::outer::pay"),
            ("shop::pay", "shop::pay::pay", "shop::pay::pay"),
            ("shop::pay", "shop::pay::{{closure}}::pay", "shop::pay::pay"),
            ("shop::pay", "shop::outer::L::pay", "shop::outer::L::pay"),
            ("shop::m::pay", "shop::outer::m::pay", "shop::outer::m::pay"),
            ("shop::pay", "shop::_::<impl shop::Card>::pay", "shop::Card::pay"),
            ("shop::pay", "shop::_::pay", "shop::pay"),
            ("shop::a::pay", "shop::ab::a::pay", "shop::ab::a::pay"),
        ] {
            assert_eq!(proposal(name, function).as_deref(), Some(expected), "{function}");
        }
    }

    #[test]
    fn a_path_without_the_function_says_nothing() {
        assert_eq!(left_out("shop::pay", "something else"), None);
        assert_eq!(left_out("shop::pay", ""), None);
    }
}
