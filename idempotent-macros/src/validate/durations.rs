//! Durations that cannot be right, as far as they are known here: the compiler checks constants, when
//! it evaluates the site.

use proc_macro2::Ident;

use super::named;
use crate::args::Args;
use crate::function::Function;
use crate::mistake::{Mistakes, mistake};
use crate::value::{Given, Length, Wait};

/// The shortest lease that can be renewed in time, and the longest one, in milliseconds. The site
/// refuses what is outside of the bounds of the runtime, and `tests/shapes/durations.rs` uses both.
const LEASES: std::ops::RangeInclusive<u64> = 10..=86_400_000;

pub(super) fn validate(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    let lease = millis(&args.lease);
    if let (Some(millis), Some(name)) = (lease, named(&args.lease))
        && !LEASES.contains(&millis)
    {
        let what = "`lease` must be between `10ms` and `24h`";
        let help = match millis < *LEASES.start() {
            true => {
                "`lease = \"30s\"`; a lease is renewed while the body runs, and need not be exact"
            }
            false => "`lease = \"30s\"`; it is renewed while the body runs, up to `max_run`",
        };
        mistakes.push(mistake(name, what, help));
    } else if let (Some(lease), Some(max_run), Some(name)) =
        (lease, millis(&args.max_run), named(&args.max_run))
        && lease > max_run
    {
        let what = "`max_run` is shorter than `lease`, which holds the key for longer";
        let help =
            "a lease is short and renewed up to `max_run`: `lease = \"30s\", max_run = \"1h\"`";
        mistakes.push(mistake(name, what, help));
    }
    let words = [
        word(&args.expire, Length::word),
        word(&args.lease, Length::word),
        word(&args.max_run, Length::word),
        word(&args.wait, Wait::word),
    ];
    let bindings = function.bindings();
    for (name, word) in words.into_iter().flatten() {
        if bindings.iter().any(|binding| binding.name == *word) {
            let what = format!("`{word}` is a parameter, and `{name}` is the same for every call");
            let help = match name == "expire" {
                true => "choose it from the value: `expire_with = retention`, with \
                         `fn retention(value: &Order) -> Duration`"
                    .to_owned(),
                false => format!("use a constant: `{name} = \"30s\"`"),
            };
            mistakes.push(mistake(word, what, help));
        }
    }
}

fn millis(given: &Option<Given<Length>>) -> Option<u64> {
    given.as_ref()?.ok()?.millis()
}

fn word<T>(
    given: &Option<Given<T>>,
    word: impl Fn(&T) -> Option<&Ident>,
) -> Option<(&Ident, &Ident)> {
    let given = given.as_ref()?;
    Some((&given.name, word(given.ok()?)?))
}
