//! Checks the arguments against each other and against the function.

mod attributes;
mod constants;
pub(crate) mod detach;
pub(crate) mod durations;
mod kind;
pub(crate) mod returns;
mod roots;
mod transaction;
pub(crate) mod with;

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;

use crate::args::{self, Args};
use crate::function::{Function, Shape};
use crate::mistake::{Mistakes, mistake};
use crate::source::source;
use crate::value::{Given, Mode};

/// Checks `args`, which were read from `written`.
pub(crate) fn validate(
    args: &Args,
    written: &TokenStream,
    function: &Function,
    mistakes: &mut Mistakes,
) {
    if let Err(error) = kind::validate(function, written) {
        mistakes.push(error);
    }
    attributes::validate(args, written, function, mistakes);
    name(args, written, function, mistakes);
    combinations(args, mistakes);
    binding(args, written, mistakes);
    constants::validate(args, function, mistakes);
    durations::validate(args, function, mistakes);
    roots::validate(args, function, mistakes);
    with::validate(args, function, mistakes);
    detach::validate(args, written, function, mistakes);
    transaction::validate(args, function, mistakes);
    returns::validate(args, function, mistakes);
}

/// Requires a `name` for methods, because the module path does not tell two types of a module
/// apart, and for `shared_name`, because a derived name belongs to one function.
fn name(args: &Args, written: &TokenStream, function: &Function, mistakes: &mut Mistakes) {
    if args.name.is_some() || matches!(function.shape, Shape::Plain) {
        return;
    }
    let ident = &function.sig.ident;
    let named = format!("name = \"{}\"", dotted(ident));
    let help = match mistakes.is_empty() {
        true => format!("`{}`", attributes::joined(&named, &source(written))),
        // What is written is no example then.
        false => format!("add `{named}`"),
    };
    if let Some(given) = &args.shared_name {
        if given.ok().is_some_and(|flag| flag.0) {
            let what = "`shared_name` says that the `name` is shared, but there is none";
            let help = format!("{help}, with the same name on each function that shares it");
            mistakes.push(mistake(&given.name, what, help));
        }
        return;
    }
    let reason = if function.receiver().is_some() {
        "is a method"
    } else if function.mentions_self_type() {
        "mentions `Self`"
    } else {
        return;
    };
    let what = format!("`{ident}` {reason}, so the operation needs a `name`");
    mistakes.push(mistake(attributes::given(written, function), what, help));
}

/// `order.create` for `create_order`.
pub(crate) fn dotted(function: &Ident) -> String {
    let function = function.unraw().to_string();
    match function.trim_matches('_').split_once('_') {
        Some((verb, noun)) => format!("{noun}.{verb}"),
        None => format!("my_service.{function}"),
    }
}

/// Refuses arguments that have no effect in the given mode.
fn combinations(args: &Args, mistakes: &mut Mistakes) {
    let Some(&mode) = args.mode.as_ref().and_then(Given::ok) else {
        return;
    };
    let given = [
        named(&args.wait),
        named(&args.lease),
        named(&args.max_run),
        named(&args.fingerprint),
        named(&args.bind_payload_after_failure),
        named(&args.final_errors),
        named(&args.abandon),
        named(&args.on_unrecorded),
        named(&args.on_replay),
        named(&args.expire_with),
    ];
    let is_idle = |name: &&Ident| mode.idle().iter().any(|idle| *name == idle);
    let (mode, reason) = match mode {
        Mode::Strong => return,
        Mode::Reject => ("reject", "never waits for an answer and never replays one"),
        Mode::Window => ("window", "only marks the key as taken until `expire` is over"),
    };
    for name in given.into_iter().flatten().filter(is_idle) {
        let what = format!("`{name}` makes no sense with `mode = \"{mode}\"`, which {reason}");
        let key = args.key.as_ref().and_then(Given::ok);
        let payload = args.fingerprint.as_ref().filter(|given| given.name == *name);
        let together = match (key, payload.and_then(Given::ok)) {
            (Some(key), Some(payload)) => key.together_with(payload),
            _ => None,
        };
        let help = match together {
            Some(key) => format!(
                "to refuse any payload, remove it; to let another payload through, make it a part of the key: `key = \"{key}\"`; to refuse \
                 another payload, `mode = \"strong\"`"
            ),
            None if name == "on_replay" => {
                format!("remove `{name}`, or use `mode = \"strong\"`; {}", refusals(mode))
            }
            // Only a mode that replays answers has a use for these.
            None if name == "wait" => format!(
                "remove `{name}` to refuse a duplicate at once; or use `mode = \"strong\"`, which waits that long for the \
                 answer, returns it, and refuses if it has not come"
            ),
            None if mode == "reject" => format!("remove `{name}`, or use `mode = \"strong\"`"),
            None if name == "lease" => format!(
                "remove `{name}`; or, to free the key after a crash, `mode = \"reject\"`, which refuses a duplicate, too"
            ),
            None => format!("remove `{name}`, or use `mode = \"strong\"` or `mode = \"reject\"`"),
        };
        mistakes.push(mistake(name, what, help));
    }
}

/// Help for counting the calls that a mode without replays refuses.
fn refusals(mode: &str) -> String {
    // A window is taken from the start of the first call.
    let (kind, outcome) = match mode {
        "window" => ("", ""),
        _ => (", or `InProgress` while the first call runs", " and `outcome=\"in_progress\"`"),
    };
    format!(
        "a refused call returns an error with `error.kind() == idempotent_runtime::ErrorKind::Duplicate`{kind}; the metric \
         `idempotent_calls_total`, of the feature `metrics`, counts it as `outcome=\"rejected\"`{outcome}"
    )
}

/// Requires `fingerprint` for `bind_payload_after_failure`.
fn binding(args: &Args, written: &TokenStream, mistakes: &mut Mistakes) {
    // In window mode both are refused already.
    if matches!(args.mode.as_ref().and_then(Given::ok), Some(Mode::Window)) {
        return;
    }
    if let Some(given) = &args.bind_payload_after_failure
        && given.ok().is_some_and(|flag| flag.0)
        && args.fingerprint.is_none()
    {
        let name = &given.name;
        let what = format!("`{name}` binds a key to its `fingerprint`, but there is none");
        let example = args::find("fingerprint").map_or("fingerprint", |it| it.example);
        let help = format!("`{}`", attributes::joined(&source(written), example));
        mistakes.push(mistake(name, what, help));
    }
}

fn named<T>(given: &Option<Given<T>>) -> Option<&Ident> {
    given.as_ref().map(|given| &given.name)
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;

    use super::*;

    pub(super) fn messages(arguments: TokenStream, item: TokenStream) -> Vec<String> {
        let mut mistakes = Mistakes::default();
        let args = Args::parse(arguments.clone(), &[], &mut mistakes);
        validate(
            &args,
            &arguments,
            &Function::parse(&item, &TokenStream::new()).unwrap(),
            &mut mistakes,
        );
        match mistakes.or(()) {
            Ok(()) => Vec::new(),
            Err(errors) => errors.into_iter().map(|error| error.to_string()).collect(),
        }
    }

    pub(super) fn create() -> TokenStream {
        quote!(
            async fn create(req: Request, user: u64) -> Result<u64, Error> {}
        )
    }

    #[test]
    fn a_wrong_value_is_the_only_mistake_that_it_causes() {
        let method = quote!(
            async fn create(&self) -> Result<impl Sized, Error> {}
        );
        let found = messages(quote!(name = "", mode = "stong"), method);
        assert_eq!(found.len(), 2, "{found:#?}");
        let found = messages(quote!(mode = "stong", wait = 3, on_replay = count), create());
        assert_eq!(found.len(), 1, "{found:#?}");
    }

    #[test]
    fn a_function_of_the_wrong_kind_is_one_mistake() {
        for item in [
            quote!(
                fn create(&self) -> impl Future<Output = Result<u64, Error>> {}
            ),
            quote!(
                const fn create() {}
            ),
            quote!(
                async extern "C" fn create() -> Result<u64, Error> {}
            ),
            quote!(
                async fn create() {}
            ),
        ] {
            let found = messages(quote!(), item);
            assert_eq!(found.len(), 1, "{found:#?}");
        }
    }

    #[test]
    fn types_are_left_to_the_compiler() {
        for item in [
            quote!(
                async fn create<T: Send + 'static, E>(id: u64) -> Result<T, E> {}
            ),
            quote!(
                async fn create(id: u64) -> Result<&'static str, Error> {}
            ),
            quote!(
                async fn create(id: u64) -> Result<[u8; 64], Error> {}
            ),
        ] {
            assert_eq!(messages(quote!(key = "id"), item), [""; 0]);
        }
    }

    #[test]
    fn a_word_in_with_is_a_parameter() {
        assert_eq!(messages(quote!(with = user), create()), [""; 0]);
        assert_eq!(messages(quote!(with = INSTANCE), create()), [""; 0]);
        let found = messages(quote!(with = idempotency), create());
        assert!(found.concat().starts_with("`idempotency` is not a parameter of `create`"));
    }

    #[test]
    fn names_are_proposed_with_the_noun_first() {
        let dotted = |name: &str| dotted(&Ident::new(name, proc_macro2::Span::call_site()));
        assert_eq!(dotted("create_order"), "order.create");
        assert_eq!(dotted("create_big_order"), "big_order.create");
        assert_eq!(dotted("create"), "my_service.create");
    }

    #[test]
    fn a_payload_is_bound_only_if_there_is_a_fingerprint() {
        let alone = messages(quote!(bind_payload_after_failure), create());
        assert_eq!(
            alone,
            ["`bind_payload_after_failure` binds a key to its `fingerprint`, but there is none\n\
             help: `#[idempotent(bind_payload_after_failure, fingerprint = \"(req.amount, req.currency)\")]`"]
        );
        let both = quote!(bind_payload_after_failure, fingerprint = "user");
        assert_eq!(messages(both, create()), [""; 0]);
        assert_eq!(messages(quote!(bind_payload_after_failure = false), create()), [""; 0]);
        let window = quote!(bind_payload_after_failure, mode = "window");
        assert_eq!(messages(window, create()).len(), 1);
        let wrong = quote!(bind_payload_after_failure, fingerprint = 5);
        assert_eq!(messages(wrong, create()).len(), 1);
    }

    #[test]
    fn window_and_reject_leave_some_arguments_nothing_to_do() {
        let reject = quote!(mode = "reject", expire_with = f, fingerprint = "user", lease = 3);
        assert_eq!(messages(reject, create()), [""; 0]);
        let window = quote!(mode = "window", expire = 5, message = "m", scope = "user", detach);
        assert_eq!(messages(window, create()), [""; 0]);
        assert_eq!(messages(quote!(mode = "reject", wait = 3, on_replay = f), create()).len(), 2);
        assert_eq!(messages(quote!(wait = 3, on_replay = f), create()), [""; 0]);
    }
}
