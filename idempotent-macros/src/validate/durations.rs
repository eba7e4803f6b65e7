//! Durations that cannot be right, as far as they are known here: the compiler checks constants, when
//! it evaluates the site.

use proc_macro2::Ident;
use syn::Expr;

use super::constants;
use crate::args::{self, Args};
use crate::function::{Function, written_types};
use crate::mistake::{Mistakes, mistake};
use crate::source::{source, type_source};
use crate::value::{Given, Length, Wait, configured, shortest_millis};

/// The shortest lease that can be renewed in time, and the longest one, in milliseconds. The runtime
/// refuses constants outside of its bounds, and `tests/shapes/durations.rs` uses both.
const LEASES: std::ops::RangeInclusive<u64> = 10..=86_400_000;

pub(super) fn validate(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    let lease = millis(&args.lease);
    if let (Some(millis), Some(given)) = (lease, &args.lease)
        && !LEASES.contains(&millis)
    {
        let what = "`lease` must be between `10ms` and `24h`";
        mistakes.push(mistake(&given.at, what, lease_within_bounds(args, millis)));
    } else if let (Some(lease), Some(max_run), Some(given)) =
        (lease, millis(&args.max_run), &args.max_run)
        && lease > max_run
    {
        let what = "`max_run` is shorter than `lease`, which holds the key for longer";
        let units = other_units(args, lease, max_run);
        mistakes.push(mistake(&given.at, what, units + &lease_within_run(lease, max_run)));
    }
    let constants = [
        constant(&args.expire, Length::constant),
        constant(&args.lease, Length::constant),
        constant(&args.max_run, Length::constant),
        constant(&args.wait, Wait::constant),
    ];
    for (name, constant) in constants.into_iter().flatten() {
        let Some(parameter) = constants::parameter_in(constant, function) else { continue };
        let what = format!("`{name}` is a constant, and cannot read the parameter `{parameter}`");
        let help = match name == "expire" {
            true => format!(
                "`expire = \"5m\"`; {}; {}",
                from_the_value(parameter, function),
                configured(name, "retention")
            ),
            false => {
                let known = args::find(&name.to_string());
                let example =
                    known.map_or_else(String::new, |known| format!("`{}`; ", known.example));
                example + &configured(name, "time")
            }
        };
        mistakes.push(mistake(parameter, what, help));
    }
}

/// Help for a retention that each call chooses: the parameter becomes part of the value.
fn from_the_value(parameter: &Ident, function: &Function) -> String {
    let ty = function.type_of(parameter).map(type_source);
    let read = match ty.as_deref() {
        Some("u64") => "std::time::Duration::from_secs(value.1)",
        Some("u8" | "u16" | "u32") => "std::time::Duration::from_secs(value.1.into())",
        Some("Duration" | "std::time::Duration") => "value.1",
        _ => {
            return "or choose it from the value: `expire_with = retention`, with \
                    `fn retention(value: &Order) -> std::time::Duration { std::time::Duration::from_secs(300) }`"
                .to_owned();
        }
    };
    let returns = function.returns();
    let value = written_types(&returns).0.map_or_else(|| "Order".to_owned(), type_source);
    let both = format!("({value}, {})", ty.unwrap_or_default());
    format!(
        "or return `{parameter}` beside the value, as `{both}`: `expire_with = retention`, with \
         `fn retention(value: &{both}) -> std::time::Duration {{ {read} }}`"
    )
}

/// Help for a lease of `millis`, which is too short or too long: the same number with another unit, or the
/// argument for times as long.
fn lease_within_bounds(args: &Args, millis: u64) -> String {
    let length = text(millis);
    let answer = format!("to keep the answer for that long: `expire = \"{length}\"`");
    match (args.max_run.is_some(), args.expire.is_some()) {
        _ if millis < *LEASES.start() => {
            format!("in seconds `lease = \"{millis}s\"`; the shortest is `lease = \"10ms\"`")
        }
        (true, true) => {
            "remove `lease`: one of `30s` is renewed while the body runs, up to `max_run`"
                .to_owned()
        }
        (true, false) => format!(
            "{answer}; without `lease`, one of `30s` is renewed while the body runs, up to `max_run`"
        ),
        (false, true) => format!("to let a body run for that long: `max_run = \"{length}\"`"),
        (false, false) => {
            format!("{answer}; to let a body run for that long: `max_run = \"{length}\"`")
        }
    }
}

/// The error for a `max_run` that is shorter than `lease`, or zero, where one of them is a constant.
pub(crate) fn max_run_refused(args: &Args) -> String {
    let written = |given: &Option<Given<Length>>| given.as_ref().map(|given| source(&given.at));
    match (written(&args.lease), written(&args.max_run)) {
        (Some(lease), Some(max_run)) => format!(
            "`max_run` is shorter than `lease`, which holds the key for longer, or zero; help: \
             `lease = {max_run}, max_run = {lease}`; for the lease as it is: `max_run = {lease}`"
        ),
        _ => "`max_run` must not be zero; help: `max_run = \"1h\"`".to_owned(),
    }
}

/// Help for a `max_run` shorter than `lease`: the two exchanged, or a lease of a third, which is renewed.
fn lease_within_run(lease: u64, max_run: u64) -> String {
    let as_long = format!("`max_run = \"{}\"`", text(lease));
    let third = match max_run / 3 {
        seconds @ 1_000.. => seconds - seconds % 1_000,
        millis => millis,
    };
    if third < *LEASES.start() {
        return format!("at least as long: {as_long}");
    }
    let (third, max_run, lease) = (text(third), text(max_run), text(lease));
    format!(
        "for a lease of `{max_run}`, which is renewed up to `{lease}`: `lease = \"{max_run}\", \
         max_run = \"{lease}\"`; for a limit of `{max_run}`: `lease = \"{third}\", max_run = \"{max_run}\"`; for the \
         lease as it is: {as_long}"
    )
}

/// Help for a number without a unit, which is one of seconds: the same number with the next unit that makes `max_run`
/// long enough, or `lease` short enough.
fn other_units(args: &Args, lease: u64, max_run: u64) -> String {
    let number = |given: &Option<Given<Length>>| -> Option<u64> {
        source(&given.as_ref()?.at).replace('_', "").parse().ok()
    };
    let mut help = String::new();
    if let Some(number) = number(&args.max_run) {
        let units = [("minutes", "m", 60_000), ("hours", "h", 3_600_000)];
        let long = units.into_iter().find(|(_, _, millis)| number.saturating_mul(*millis) >= lease);
        if let Some((name, unit, _)) = long {
            help += &format!("in {name} `max_run = \"{number}{unit}\"`; ");
        }
    }
    if let Some(number) =
        number(&args.lease).filter(|number| LEASES.contains(number) && *number <= max_run)
    {
        help += &format!("in milliseconds `lease = \"{number}ms\"`; ");
    }
    help
}

/// Milliseconds in the largest unit that divides them.
fn text(millis: u64) -> String {
    shortest_millis(millis)
}

fn millis(given: &Option<Given<Length>>) -> Option<u64> {
    given.as_ref()?.ok()?.millis()
}

fn constant<T>(
    given: &Option<Given<T>>,
    constant: impl Fn(&T) -> Option<&Expr>,
) -> Option<(&Ident, &Expr)> {
    let given = given.as_ref()?;
    Some((&given.name, constant(given.ok()?)?))
}
