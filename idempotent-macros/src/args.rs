//! The arguments of the attribute: the table of their names, and the type that each one is read
//! into.

use darling::FromMeta;
use proc_macro2::TokenStream;

use crate::key::Key;
use crate::list;
use crate::mistake::Mistakes;
use crate::value::{
    Abandon, Bare, Flag, FunctionPath, Given, Length, Message, Mode, OnStoreError, OnUnrecorded,
    OperationName, Parameter, RuntimePath, Wait,
};

/// Properties of an argument that do not depend on its value.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) name: &'static str,
    /// An example for help texts, which can be typed as it is.
    pub(crate) example: &'static str,
    pub(crate) takes_value: bool,
    /// Read with the key grammar, and so may be `const ..`.
    pub(crate) is_key: bool,
    /// Text for people or for the names of operations.
    pub(crate) is_text: bool,
}

const fn value(name: &'static str, example: &'static str) -> Argument {
    Argument { name, example, takes_value: true, is_key: false, is_text: false }
}

const fn key(name: &'static str, example: &'static str) -> Argument {
    Argument { is_key: true, ..value(name, example) }
}

const fn text(name: &'static str, example: &'static str) -> Argument {
    Argument { is_text: true, ..value(name, example) }
}

const fn flag(name: &'static str) -> Argument {
    Argument { takes_value: false, ..value(name, name) }
}

pub(crate) const ARGUMENTS: [Argument; 22] = [
    key("key", "key = \"req.order_id\""),
    value("expire", "expire = \"5m\""),
    value("mode", "mode = \"strong\""),
    text("message", "message = \"already submitted\""),
    value("wait", "wait = \"300ms\""),
    value("lease", "lease = \"30s\""),
    value("max_run", "max_run = \"1h\""),
    text("name", "name = \"orders.create\""),
    flag("shared_name"),
    key("scope", "scope = \"req.tenant\""),
    key("fingerprint", "fingerprint = \"(req.amount, req.currency)\""),
    flag("bind_payload_after_failure"),
    value("final_errors", "final_errors = OrderError::is_final"),
    value("abandon", "abandon = \"block\""),
    value("on_store_error", "on_store_error = \"run\""),
    value("on_unrecorded", "on_unrecorded = \"error\""),
    value("on_replay", "on_replay = count_replay"),
    value("expire_with", "expire_with = retention"),
    flag("detach"),
    value("transaction", "transaction = \"tx\""),
    value("with", "with = self.idempotency"),
    value("crate", "crate = my_crate::idempotent_runtime"),
];

pub(crate) fn find(name: &str) -> Option<&'static Argument> {
    ARGUMENTS.iter().find(|argument| argument.name == name)
}

/// The arguments as given. An argument with a wrong value is present, so that it is not reported as
/// missing, too.
#[derive(Debug, Default, FromMeta)]
pub(crate) struct Args {
    pub(crate) key: Option<Given<Key>>,
    pub(crate) expire: Option<Given<Length>>,
    pub(crate) mode: Option<Given<Mode>>,
    pub(crate) message: Option<Given<Message>>,
    pub(crate) wait: Option<Given<Wait>>,
    pub(crate) lease: Option<Given<Length>>,
    pub(crate) max_run: Option<Given<Length>>,
    pub(crate) name: Option<Given<OperationName>>,
    pub(crate) shared_name: Option<Given<Flag>>,
    pub(crate) scope: Option<Given<Key>>,
    pub(crate) fingerprint: Option<Given<Key>>,
    pub(crate) bind_payload_after_failure: Option<Given<Flag>>,
    pub(crate) final_errors: Option<Given<FunctionPath>>,
    pub(crate) abandon: Option<Given<Abandon>>,
    pub(crate) on_store_error: Option<Given<OnStoreError>>,
    pub(crate) on_unrecorded: Option<Given<OnUnrecorded>>,
    pub(crate) on_replay: Option<Given<FunctionPath>>,
    pub(crate) expire_with: Option<Given<FunctionPath>>,
    pub(crate) detach: Option<Given<Flag>>,
    pub(crate) transaction: Option<Given<Parameter>>,
    pub(crate) with: Option<Given<Bare>>,
    #[darling(rename = "crate")]
    pub(crate) runtime: Option<Given<RuntimePath>>,
}

impl Args {
    /// Parses the argument list of a function with these parameters, and adds its errors to
    /// `mistakes`.
    pub(crate) fn parse(
        arguments: TokenStream,
        parameters: &[String],
        mistakes: &mut Mistakes,
    ) -> Self {
        let list = list::split(arguments, parameters, mistakes);
        let args =
            mistakes.take(Self::from_list(&list).map_err(syn::Error::from)).unwrap_or_default();
        args.report(mistakes);
        args
    }

    fn report(&self, mistakes: &mut Mistakes) {
        fn each<T>(given: &Option<Given<T>>, mistakes: &mut Mistakes) {
            if let Some(Err(error)) = given.as_ref().map(|given| &given.value) {
                mistakes.push(error.clone());
            }
        }
        let Self {
            key,
            expire,
            mode,
            message,
            wait,
            lease,
            max_run,
            name,
            shared_name,
            scope,
            fingerprint,
            bind_payload_after_failure,
            final_errors,
            abandon,
            on_store_error,
            on_unrecorded,
            on_replay,
            expire_with,
            detach,
            transaction,
            with,
            runtime,
        } = self;
        each(key, mistakes);
        each(expire, mistakes);
        each(mode, mistakes);
        each(message, mistakes);
        each(wait, mistakes);
        each(lease, mistakes);
        each(max_run, mistakes);
        each(name, mistakes);
        each(shared_name, mistakes);
        each(scope, mistakes);
        each(fingerprint, mistakes);
        each(bind_payload_after_failure, mistakes);
        each(final_errors, mistakes);
        each(abandon, mistakes);
        each(on_store_error, mistakes);
        each(on_unrecorded, mistakes);
        each(on_replay, mistakes);
        each(expire_with, mistakes);
        each(detach, mistakes);
        each(transaction, mistakes);
        each(with, mistakes);
        each(runtime, mistakes);
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn messages(arguments: TokenStream) -> Vec<String> {
        let mut mistakes = Mistakes::default();
        let parameters = ["req", "user", "id"].map(str::to_owned);
        Args::parse(arguments, &parameters, &mut mistakes);
        match mistakes.or(()) {
            Ok(()) => Vec::new(),
            Err(errors) => errors.into_iter().map(|error| error.to_string()).collect(),
        }
    }

    #[test]
    fn every_example_in_the_table_is_accepted() {
        for argument in &ARGUMENTS {
            let tokens: TokenStream = argument.example.parse().unwrap();
            assert_eq!(messages(tokens), [""; 0], "{}", argument.name);
        }
    }

    #[test]
    fn an_empty_list_and_a_trailing_comma_are_fine() {
        assert_eq!(messages(quote!()), [""; 0]);
        assert_eq!(messages(quote!(expire = 300, detach,)), [""; 0]);
    }

    #[test]
    fn unknown_names_are_answered_with_the_nearest_one() {
        assert_eq!(
            messages(quote!(exipre = 300)),
            ["unknown argument `exipre`\nhelp: did you mean `expire = 300`?"]
        );
        assert_eq!(
            messages(quote!(strong)),
            ["unknown argument `strong`\nhelp: `mode = \"strong\"`"]
        );
        assert!(messages(quote!(colour = [3]))[0].contains("the arguments are `key`, `expire`"));
    }

    #[test]
    fn names_of_other_libraries_are_answered_with_the_value_that_was_given() {
        for (list, help) in [
            (quote!(ttl = 300), "did you mean `expire = 300`?"),
            (quote!(expireTime = "5m"), "did you mean `expire = \"5m\"`?"),
            (quote!(msg = "no"), "did you mean `message = \"no\"`?"),
            (quote!(keyExpression = "req.id"), "did you mean `key = \"req.id\"`?"),
            (quote!(keys = ["req.a", "req.b"]), "did you mean `key = \"(req.a, req.b)\"`?"),
            (quote!(keys = [req.a]), "did you mean `key = \"req.a\"`?"),
            (quote!(tenant = req.tenant), "did you mean `scope = req.tenant`?"),
            // A value that the argument does not take is not proposed.
            (quote!(ttl = true), "did you mean `expire = \"5m\"`?"),
            (quote!(strong = true), "`mode = \"strong\"`"),
            (quote!(window = "5s"), "`mode = \"window\", expire = \"5s\"`"),
            (quote!(timeUnit = SECONDS), "write the unit into the duration: `expire = \"5m\"`"),
        ] {
            let found = messages(list);
            assert_eq!(found.len(), 1, "{found:#?}");
            assert!(found[0].ends_with(&format!("\nhelp: {help}")), "{found:#?}");
        }
    }

    #[test]
    fn other_separators_and_quoted_names_are_answered_with_what_was_meant() {
        for list in [quote!(expire: 300), quote!(expire => 300), quote!(expire == 300)] {
            let what = "`expire` takes its value after `=`\nhelp: `expire = 300`";
            assert_eq!(messages(list), [what]);
        }
        assert_eq!(
            messages(quote!("key" = "req.id")),
            ["names of arguments are written without quotes\nhelp: `key = \"req.id\"`"]
        );
    }

    #[test]
    fn a_missing_value_is_answered_with_an_example() {
        for list in [quote!(expire), quote!(expire =), quote!(expire =, detach)] {
            assert_eq!(messages(list), ["`expire` needs a value\nhelp: `expire = \"5m\"`"]);
        }
        assert_eq!(
            messages(quote!(expire(300))),
            ["`expire` takes its value after `=`\nhelp: `expire = 300`"]
        );
    }

    #[test]
    fn positional_arguments_are_answered_with_a_name() {
        let what = "arguments are written `name = value`\nhelp: ";
        for (list, help) in [
            (quote!("req.order_id"), "`key = \"req.order_id\"`"),
            (quote!(req.order_id), "`key = req.order_id`"),
            (quote!(300), "`expire = 300`"),
            (quote!("strong"), "`mode = \"strong\"`"),
        ] {
            assert_eq!(messages(list), [format!("{what}{help}")]);
        }
    }

    #[test]
    fn arguments_stand_in_one_pair_of_parentheses() {
        for list in [quote!((key = "id", detach)), quote!(((key = "id", detach)))] {
            assert_eq!(
                messages(list),
                ["arguments stand in one pair of parentheses\n\
                 help: `#[idempotent(key = \"id\", detach)]`"]
            );
        }
        let what = "arguments are written `name = value`\nhelp: `key = \"id\"`";
        assert_eq!(messages(quote!(("id"))), [what]);
    }

    #[test]
    fn values_are_understood_with_the_parameters_at_hand() {
        for (list, help) in [
            (quote!(key = "order:id"), "`key = \"order:{id}\"`"),
            (
                quote!(key = "{}:{}", user, req.id),
                "`key = \"{user}:{req.id}\"` in place of `key = \"{}:{}\", user, req.id`",
            ),
            (quote!(key = "order:$Id"), "`key = \"order:{id}\"`"),
            (
                quote!(expire = "$ttl"),
                "a variable of a macro stands without them: `expire = $ttl`; for a value that is known only \
                 when the program starts, leave `expire` out, and set it for all functions: \
                 `idempotent_runtime::Idempotency::builder().config(idempotent_runtime::Config::new()\
                 .with_expire(time)).build()?.install()?`",
            ),
        ] {
            let found = messages(list);
            assert_eq!(found.len(), 1, "{found:#?}");
            assert!(found[0].ends_with(&format!("\nhelp: {help}")), "{found:#?}");
        }
        // Text is text.
        assert_eq!(messages(quote!(message = "5$ for id", name = "order:id")), [""; 0]);
    }

    #[test]
    fn parameters_without_a_name_are_a_key_or_part_of_one() {
        assert_eq!(
            messages(quote!(key = user, id, expire = 300)),
            ["several parts of `key` are a tuple\nhelp: `key = (user, id)`"]
        );
        assert_eq!(
            messages(quote!(mode = "strong", id)),
            ["arguments are written `name = value`\nhelp: `key = id`"]
        );
        assert_eq!(messages(quote!(key = user, strong)).len(), 1);
    }

    #[test]
    fn repeated_names_are_reported_once_per_repetition() {
        assert_eq!(
            messages(quote!(expire = 1, expire = 2)),
            ["`expire` is given twice\nhelp: remove one `expire`"]
        );
        assert_eq!(
            messages(quote!(key = "req.a", key = req.b)),
            ["`key` is given twice\nhelp: several parts are a tuple: `key = \"(req.a, req.b)\"`"]
        );
    }

    #[test]
    fn values_without_quotes_are_answered_with_quotes() {
        let help = |list: TokenStream| {
            let found = messages(list);
            assert_eq!(found.len(), 1, "{found:#?}");
            found[0].split_once("\nhelp: ").unwrap().1.to_owned()
        };
        assert_eq!(help(quote!(key = user:{user})), "`key = \"user:{user}\"`");
        assert!(help(quote!(expire = 10 min)).ends_with("`expire = \"10m\"`"));
        assert_eq!(help(quote!(max - run = "2h")), "`max_run = \"2h\"`");
        assert_eq!(help(quote!(name = 'x')), "`name = \"x\"`");
        assert_eq!(
            help(quote!(key = "String", convert = r#"{ format!("{}:{}", user, id) }"#)),
            "a template makes the key: `key = \"{user}:{id}\"` in place of `key = \"String\"`"
        );
    }

    #[test]
    fn a_missing_comma_does_not_hide_the_next_argument() {
        assert_eq!(
            messages(quote!(expire = 1 mod = 2)),
            [
                "expected `,` before `mod`\nhelp: separate the arguments with commas: `, mod = 2`",
                "unknown argument `mod`\nhelp: did you mean `mode = \"strong\"`?",
            ]
        );
    }

    #[test]
    fn text_without_quotes_is_one_mistake() {
        assert_eq!(
            messages(quote!(message = Already submitted, detach)),
            ["the text of `message` stands in quotes\nhelp: `message = \"Already submitted\"`"]
        );
    }

    #[test]
    fn const_goes_with_keys_only() {
        assert_eq!(messages(quote!(key = const "nightly", scope = const TENANT)), [""; 0]);
        assert_eq!(
            messages(quote!(expire = const TTL)),
            ["`expire` does not take `const`\nhelp: remove `const`: `expire = TTL`"]
        );
        assert_eq!(
            messages(quote!(key = const)),
            ["`const` without a value\n\
              help: a literal or the name of a constant: `key = const \"..\"`"]
        );
    }

    #[test]
    fn independent_mistakes_are_reported_together() {
        let found = messages(quote!(expire = 0, mode = "stong", wiat = 3, lease = "5x"));
        assert_eq!(found.len(), 4, "{found:#?}");
    }
}
