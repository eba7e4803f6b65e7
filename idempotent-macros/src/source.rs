//! The user's code as text, for help texts.

use quote::ToTokens;

/// The expression roughly as it was written, for help texts.
pub(crate) fn source(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
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
    ] {
        text = text.replace(spaced, tight);
    }
    text
}

/// A signature roughly as it was written, for help texts.
pub(crate) fn signature_source(tokens: &impl ToTokens) -> String {
    source(tokens).replace(" : ", ": ").replace(" <", "<").replace("< ", "<").replace(" >", ">")
}

/// A type roughly as it was written, for help texts.
pub(crate) fn type_source(ty: &syn::Type) -> String {
    source(ty).replace(" < ", "<").replace(" <(", "<(").replace("< ", "<").replace(" >", ">")
}
