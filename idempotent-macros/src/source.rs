//! The user's code as text, for help texts.

use proc_macro2::{Group, Literal, TokenStream, TokenTree};
use quote::ToTokens;

/// The expression roughly as it was written, for help texts.
pub(crate) fn source(tokens: &impl ToTokens) -> String {
    let mut texts = Vec::new();
    let text = without_texts(tokens.to_token_stream(), &mut texts).to_string();
    // The compiler breaks long lines.
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (spaced, tight) in [
        (" . ", "."),
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" (", "("),
        (" [", "["),
        (" ,", ","),
        (" ?", "?"),
        ("& ", "&"),
        (" !", "!"),
        (" ;", ";"),
    ] {
        text = text.replace(spaced, tight);
    }
    for (at, literal) in texts.iter().enumerate() {
        text = text.replace(&placeholder(at).to_string(), literal);
    }
    text
}

/// The tokens with a placeholder for each literal, which goes to `texts`: what is in quotes stays as it is.
fn without_texts(tokens: TokenStream, texts: &mut Vec<String>) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Literal(literal) => {
            texts.push(literal.to_string());
            placeholder(texts.len() - 1).into()
        }
        TokenTree::Group(group) => {
            Group::new(group.delimiter(), without_texts(group.stream(), texts)).into()
        }
        token => token,
    };
    tokens.into_iter().map(replace).collect()
}

fn placeholder(at: usize) -> Literal {
    Literal::string(&format!("__idempotent_text_{at}"))
}

/// A signature roughly as it was written, for help texts.
pub(crate) fn signature_source(tokens: &impl ToTokens) -> String {
    source(tokens).replace(" : ", ": ").replace(" <", "<").replace("< ", "<").replace(" >", ">")
}

/// A type roughly as it was written, for help texts.
pub(crate) fn type_source(ty: &syn::Type) -> String {
    source(ty)
        .replace(" < ", "<")
        .replace(" <(", "<(")
        .replace(" <[", "<[")
        .replace("< ", "<")
        .replace(" >", ">")
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn text_in_quotes_stays_as_it_is() {
        let code = quote!(format!("order (n) , {id} :: a . b ;", req.id));
        assert_eq!(source(&code), r#"format!("order (n) , {id} :: a . b ;", req.id)"#);
    }
}
