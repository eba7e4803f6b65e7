//! Arguments that take one of a few words.

use proc_macro2::{Ident, Span};
use syn::{Expr, Lit};

use super::{Value, installed, is_placeholder, literal};
use crate::mistake::mistake;
use crate::suggest::{nearest, quoted_list};
use crate::synonyms;

/// Treatment of duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Reject,
    Strong,
    Window,
}

impl Mode {
    pub(crate) const NAMES: [&'static str; 3] = ["reject", "strong", "window"];

    /// The modes in the order of their names.
    const ALL: [Self; 3] = [Self::Reject, Self::Strong, Self::Window];

    /// The mode with this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Self::ALL[at])
    }

    /// The arguments that have nothing to do in this mode.
    pub(crate) fn idle(self) -> &'static [&'static str] {
        match self {
            Self::Strong => &[],
            Self::Reject => &["wait", "on_replay"],
            Self::Window => &[
                "wait",
                "lease",
                "max_run",
                "fingerprint",
                "bind_payload_after_failure",
                "final_errors",
                "abandon",
                "on_unrecorded",
                "on_replay",
                "expire_with",
            ],
        }
    }
}

impl Value for Mode {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        if let Some(Lit::Str(literal)) = literal(value)
            && is_delivery(&literal.value())
        {
            let what = format!("`{name}` cannot be `\"{}\"`", literal.value());
            let help = "`mode = \"strong\"`: one run, and its answer for duplicates; with changes in a \
                        database, `transaction = \"tx\"` commits both together";
            return Err(mistake(literal, what, help));
        }
        Ok(Self::ALL[choose(name, value, &Self::NAMES)?])
    }
}

/// Treatment of a key whose attempt began and never ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandon {
    Retry,
    Block,
}

impl Value for Abandon {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        Ok([Self::Retry, Self::Block][choose(name, value, &["retry", "block"])?])
    }
}

/// Behaviour of a call that gets no answer from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnStoreError {
    Refuse,
    Run,
}

impl Value for OnStoreError {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        Ok([Self::Refuse, Self::Run][choose(name, value, &["refuse", "run"])?])
    }
}

/// The answer to a caller whose value is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnUnrecorded {
    Value,
    Error,
}

impl Value for OnUnrecorded {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        Ok([Self::Value, Self::Error][choose(name, value, &["value", "error"])?])
    }
}

/// The variant's name, for the generated code.
pub(crate) fn variant(value: impl std::fmt::Debug) -> Ident {
    Ident::new(&format!("{value:?}"), Span::mixed_site())
}

/// Returns `true` for a guarantee of delivery, as message brokers name them.
fn is_delivery(word: &str) -> bool {
    let word = synonyms::snake_case(word);
    ["exactly", "at_most", "at_least"].iter().any(|start| word.starts_with(start))
}

/// The modes, for help texts.
const MODES: &str = "`\"reject\"` refuses duplicates, `\"strong\"` gives them the answer, `\"window\"` \
                     only marks the key as taken until `expire` is over";

/// The position of the word among `words`.
fn choose(name: &Ident, value: &Expr, words: &[&str]) -> syn::Result<usize> {
    let all = quoted_list(words.iter().map(|word| format!("\"{word}\"")));
    let Some(Lit::Str(literal)) = literal(value) else {
        let near = match value {
            Expr::Path(path) => path.path.segments.last().and_then(|last| {
                let word = last.ident.to_string();
                nearest(&word, words.iter().copied()).or_else(|| synonym(&word, words))
            }),
            Expr::Array(array) => {
                array.elems.first().and_then(|first| match super::literal(first) {
                    Some(Lit::Str(text)) => nearest(&text.value(), words.iter().copied()),
                    _ => None,
                })
            }
            _ => None,
        };
        let help = match near {
            _ if let_through(name).is_some() => format!(
                "pass a literal: `{}:literal` in the macro, and `\"{}\"` in its call",
                let_through(name).unwrap_or_default(),
                near.unwrap_or(words[0])
            ),
            _ if matches!(value, Expr::Path(path) if path.path.is_ident("None")) => {
                format!("leave `{name}` out, or one of {all}")
            }
            Some(word) => format!("`{name} = \"{word}\"`"),
            None if name == "mode" && matches!(value, Expr::Path(_)) => format!(
                "one of {all}; or leave `{name}` out, and set one mode for all functions at the start: {}",
                installed("with_mode(idempotent_runtime::Mode::Strong)")
            ),
            None => format!("one of {all}"),
        };
        let and_no_constant = match value {
            Expr::Path(path) if near.is_none() && !path.path.is_ident("None") => {
                ", and no constant"
            }
            _ => "",
        };
        let what = format!("`{name}` takes a quoted word{and_no_constant}");
        return Err(mistake(value, what, help));
    };
    let word = literal.value();
    words.iter().position(|known| **known == word).ok_or_else(|| {
        let near = nearest(&word, words.iter().copied());
        let help = match near.or_else(|| synonym(&word, words)) {
            Some(near) => format!("did you mean `\"{near}\"`?"),
            None if is_placeholder(&word) => format!(
                "nothing in it is replaced: one of {all}; or leave `{name}` out, and build the instance with \
                 `.config(idempotent_runtime::Config::from_env()?)`, which reads `IDEMPOTENT_{}={}`",
                name.to_string().to_uppercase(),
                words[1]
            ),
            None if word.is_empty() && name == "mode" => format!("leave `{name}` out; or {MODES}"),
            None if word.is_empty() => format!("leave `{name}` out, or one of {all}"),
            None if name == "mode" => MODES.to_owned(),
            None => format!("one of {all}"),
        };
        mistake(literal, format!("`{name}` cannot be `\"{word}\"`"), help)
    })
}

/// `$mode`, if the attribute stands in a macro that gives `name` the value of a variable.
fn let_through(name: &Ident) -> Option<String> {
    let attribute = Span::call_site().source_text()?;
    let (_, value) = attribute.split_once(&format!("{name} = $"))?;
    let end = value.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(value.len());
    Some(format!("${}", &value[..end]))
}

/// The one of `words` that other libraries call `word`.
fn synonym<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let meanings: &[&str] = match synonyms::snake_case(word).as_str() {
        "replay"
        | "cache"
        | "cached"
        | "cached_result"
        | "return"
        | "idempotent"
        | "wait"
        | "strict"
        | "return_cached"
        | "return_cached_result"
        | "return_stored"
        | "memoize"
        | "memo"
        | "exact"
        | "sync"
        | "consistent"
        | "blocking"
        | "stripe" => &["strong"],
        "once" | "lock" | "exclusive" | "deny" | "skip" | "discard" | "drop" | "dedup"
        | "dedupe" | "deduplicate" | "unique" | "conflict" | "default" | "weak" => &["reject"],
        "first_wins" | "first" | "once_only" => &["reject"],
        "throttle" | "debounce" | "rate_limit" | "no_repeat" | "ttl" | "timed" => &["window"],
        "release" | "free" | "takeover" | "take_over" | "rerun" | "again" | "restart" | "reset"
        | "delete" => &["retry"],
        "hold" | "keep" | "manual" | "indeterminate" | "never" | "stop" => &["block"],
        "fail_open" | "open" | "allow" | "continue" | "proceed" | "execute" | "bypass" => &["run"],
        "ignore" => &["run", "reject", "value"],
        "fail_closed" | "closed" | "abort" | "deny_all" => &["refuse"],
        "fail" | "panic" | "throw" | "raise" | "exception" => {
            &["refuse", "error", "reject", "block"]
        }
        "error" | "err" => &["error", "refuse", "reject"],
        "ok" | "answer" | "result" | "return_value" => &["value"],
        "unrecorded" => &["error"],
        _ => &[],
    };
    meanings.iter().find_map(|meaning| words.iter().find(|word| *word == meaning)).copied()
}

#[cfg(test)]
mod tests {
    use quote::format_ident;
    use syn::parse_quote;

    use super::*;

    fn mode(value: Expr) -> Result<Mode, String> {
        Mode::read(&format_ident!("mode"), &value).map_err(|error| error.to_string())
    }

    #[test]
    fn the_words_are_read() {
        assert_eq!(mode(parse_quote!("reject")), Ok(Mode::Reject));
        assert_eq!(mode(parse_quote!("strong")), Ok(Mode::Strong));
        assert_eq!(mode(parse_quote!("window")), Ok(Mode::Window));
    }

    #[test]
    fn other_words_are_answered_with_the_nearest_or_all() {
        let error = mode(parse_quote!("stong")).unwrap_err();
        assert_eq!(error, "`mode` cannot be `\"stong\"`\nhelp: did you mean `\"strong\"`?");
        let error = mode(parse_quote!("replay")).unwrap_err();
        assert_eq!(error, "`mode` cannot be `\"replay\"`\nhelp: did you mean `\"strong\"`?");
        let error = mode(parse_quote!("blue")).unwrap_err();
        assert_eq!(error, format!("`mode` cannot be `\"blue\"`\nhelp: {MODES}"));
        let error = mode(parse_quote!("exactly_once")).unwrap_err();
        assert!(error.contains("help: `mode = \"strong\"`"), "{error}");
    }

    #[test]
    fn a_word_without_quotes_is_answered_with_quotes() {
        let error = mode(parse_quote!(strong)).unwrap_err();
        assert_eq!(error, "`mode` takes a quoted word\nhelp: `mode = \"strong\"`");
        let error = mode(parse_quote!(Mode::Strong)).unwrap_err();
        assert_eq!(error, "`mode` takes a quoted word\nhelp: `mode = \"strong\"`");
    }
}
