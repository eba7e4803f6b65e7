//! Names of variants in the styles of serde's `rename_all`.

/// The name of a variant in a style, if that is one of serde's and a variant could be called so.
pub(super) fn renamed(variant: &str, style: &str) -> Option<String> {
    let words = || split(variant);
    let name = match style {
        "lowercase" => variant.to_lowercase(),
        "UPPERCASE" => variant.to_uppercase(),
        "PascalCase" => variant.to_owned(),
        "camelCase" => {
            let (first, rest) = variant.split_at(variant.chars().next()?.len_utf8());
            first.to_lowercase() + rest
        }
        "snake_case" => words().join("_").to_lowercase(),
        "SCREAMING_SNAKE_CASE" => words().join("_").to_uppercase(),
        _ => return None,
    };
    syn::parse_str::<syn::Ident>(&name).is_ok().then_some(name)
}

/// The words of a name in camel case, each with its capital letter.
fn split(name: &str) -> Vec<&str> {
    let mut starts: Vec<_> = name.match_indices(char::is_uppercase).map(|(at, _)| at).collect();
    starts.retain(|at| *at > 0);
    let ends = starts.iter().copied().chain([name.len()]);
    [0].into_iter()
        .chain(starts.iter().copied())
        .zip(ends)
        .map(|(from, to)| &name[from..to])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_renamed_as_serde_does() {
        let in_style = |style| renamed("EMailSent", style);
        assert_eq!(in_style("snake_case").unwrap(), "e_mail_sent");
        assert_eq!(in_style("SCREAMING_SNAKE_CASE").unwrap(), "E_MAIL_SENT");
        assert_eq!(in_style("camelCase").unwrap(), "eMailSent");
        assert_eq!(in_style("lowercase").unwrap(), "emailsent");
        // A name in a key is one that a variant could have.
        assert_eq!(in_style("kebab-case"), None);
        assert_eq!(renamed("Type", "snake_case"), None);
    }
}
