//! Tests of the key grammar: code for keys, and errors for everything else.

use quote::{format_ident, quote};
use syn::parse_quote;

use super::*;
use crate::function::Function;
use crate::methods::Methods;
use crate::runtime::Runtime;

fn read(value: &Expr) -> Result<Key, Vec<String>> {
    Key::read(&format_ident!("key"), value).map_err(texts)
}

/// The errors as a function shows them that takes a `Request` and an `Order`.
fn texts(errors: syn::Error) -> Vec<String> {
    let item = quote!(
        async fn create(req: Request, order: Order) -> Result<u64, Error> {}
    );
    let methods = Methods::of(&Function::parse(&item, &TokenStream::new()).unwrap());
    errors.into_iter().map(|error| methods.put_into(&error.to_string())).collect()
}

#[track_caller]
fn accepts(value: Expr, expected: &str) {
    let key = read(&value).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let tokens = key.encoded(&Runtime::new(Some(parse_quote!(p))), &[], Missing::Refused, |_| None);
    assert_eq!(source(&tokens), expected);
}

#[track_caller]
fn refuses(value: Expr, what: &str, help: &str) {
    let errors = read(&value).expect_err("the key is accepted");
    assert_eq!(errors, [format!("{what}\nhelp: {help}")]);
}

#[track_caller]
fn refuses_with(value: Expr, what: &str) {
    let errors = read(&value).expect_err("the key is accepted");
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(errors[0].starts_with(&format!("{what}\nhelp: ")), "{errors:#?}");
}

#[test]
fn field_paths_read_the_same_quoted_and_bare() {
    for (text, expected) in [
        (
            "req",
            "__idempotent_private::key(__idempotent_private::part(&req).__idempotent_checked())",
        ),
        (
            "req.order_id",
            "__idempotent_private::key(__idempotent_private::part(&req.order_id).__idempotent_checked())",
        ),
        (
            "self.tenant",
            "__idempotent_private::key(__idempotent_private::part(&self.tenant).__idempotent_checked())",
        ),
        (
            "pair.0",
            "__idempotent_private::key(__idempotent_private::part(&pair.0).__idempotent_checked())",
        ),
        (
            "pair.0.1",
            "__idempotent_private::key(__idempotent_private::part(&pair.0.1).__idempotent_checked())",
        ),
        (
            "req.id()",
            "__idempotent_private::key(__idempotent_private::part(&(* &req).id()).__idempotent_checked())",
        ),
        (
            "req.a().b().c",
            "__idempotent_private::key(__idempotent_private::part(&(* &req).a().b().c).__idempotent_checked())",
        ),
        (
            "req.clone().into_id()",
            "__idempotent_private::key(__idempotent_private::part(&(* &req).clone().into_id()).__idempotent_checked())",
        ),
        (
            "req.items.first()?",
            "__idempotent_private::optional_key(__idempotent_private::option(&(* &req).items.first()))",
        ),
        (
            "(req.order_id)",
            "__idempotent_private::key(__idempotent_private::part(&req.order_id).__idempotent_checked())",
        ),
        (
            "req.reference?",
            "__idempotent_private::optional_key(__idempotent_private::option(&req.reference))",
        ),
        (
            "req.reference()?",
            "__idempotent_private::optional_key(__idempotent_private::option(&(* &req).reference()))",
        ),
        (
            "(req.user, req.seq)",
            "__idempotent_private::tuple().part(__idempotent_private::part(&req.user).__idempotent_checked()).part(__idempotent_private::part(&req.seq).__idempotent_checked()).finish()",
        ),
        (
            "(req.user,)",
            "__idempotent_private::tuple().part(__idempotent_private::part(&req.user).__idempotent_checked()).finish()",
        ),
        (
            "(req.user, req.seq?)",
            "__idempotent_private::tuple().part(__idempotent_private::part(&req.user).__idempotent_checked()).optional(__idempotent_private::option(&req.seq)).finish()",
        ),
    ] {
        accepts(parse_quote!(#text), expected);
        accepts(syn::parse_str(text).unwrap(), expected);
    }
}

#[test]
fn templates_are_text_and_holes() {
    accepts(
        parse_quote!("user:{req.user_id}:order:{req.order_id}"),
        "__idempotent_private::template().text(\"user:\").part(__idempotent_private::part(&req.user_id).__idempotent_checked()).text(\":order:\").part(__idempotent_private::part(&req.order_id).__idempotent_checked()).finish()",
    );
    accepts(
        parse_quote!("{req.id}"),
        "__idempotent_private::template().part(__idempotent_private::part(&req.id).__idempotent_checked()).finish()",
    );
    accepts(
        parse_quote!("{ req.id }!"),
        "__idempotent_private::template().part(__idempotent_private::part(&req.id).__idempotent_checked()).text(\"!\").finish()",
    );
    accepts(
        parse_quote!("{a}{b}"),
        "__idempotent_private::template().part(__idempotent_private::part(&a).__idempotent_checked()).part(__idempotent_private::part(&b).__idempotent_checked()).finish()",
    );
    accepts(
        parse_quote!("x:{req.id?}"),
        "__idempotent_private::template().text(\"x:\").optional(__idempotent_private::option(&req.id)).finish()",
    );
    accepts(
        parse_quote!("{pair.0}"),
        "__idempotent_private::template().part(__idempotent_private::part(&pair.0).__idempotent_checked()).finish()",
    );
    accepts(
        parse_quote!("{req.item.sku()}"),
        "__idempotent_private::template().part(__idempotent_private::part(&(* &req).item.sku()).__idempotent_checked()).finish()",
    );
}

#[test]
fn doubled_braces_are_text() {
    accepts(
        parse_quote!("{{{req.id}}}"),
        "__idempotent_private::template().text(\"{\").part(__idempotent_private::part(&req.id).__idempotent_checked()).text(\"}\").finish()",
    );
    accepts(
        parse_quote!("a{{b}}{c}"),
        "__idempotent_private::template().text(\"a{b}\").part(__idempotent_private::part(&c).__idempotent_checked()).finish()",
    );
}

#[test]
fn constants_need_the_word() {
    accepts(parse_quote!(const { "nightly" }), "__idempotent_private::key(\"nightly\")");
    accepts(parse_quote!(const { 42 }), "__idempotent_private::constant_key(&42)");
    accepts(
        parse_quote!(const { jobs::NIGHTLY }),
        "__idempotent_private::constant_key(&jobs::NIGHTLY)",
    );
    refuses(parse_quote!(42), "`42` is the same for every call", "`key = const 42`");
    refuses(
        parse_quote!(jobs::NIGHTLY),
        "`jobs::NIGHTLY` is not a parameter",
        "for a constant: `key = const jobs::NIGHTLY`",
    );
    refuses_with(parse_quote!(const { f() }), "`const` takes a literal or the path of a constant");
    refuses(
        parse_quote!(const { 1.5 }),
        "`key` cannot be a float",
        "quote it: `key = const \"1.5\"`",
    );
    refuses(
        parse_quote!("const NIGHTLY"),
        "`const NIGHTLY` is not a field path",
        "write it without the quotes: `key = const NIGHTLY`",
    );
    refuses(
        parse_quote!("const nightly"),
        "`const nightly` is not a field path",
        "`const` stands before the quotes: `key = const \"nightly\"`",
    );
}

#[test]
fn a_parenthesis_without_its_counterpart_is_answered_with_both() {
    for (text, what, closed) in [
        ("(user, seq", "`(` without `)`", "(user, seq)"),
        ("user, seq)", "`)` without `(`", "(user, seq)"),
        ("[user, seq", "`[` without `]`", "(user, seq)"),
        ("req.id(", "`(` without `)`", "req.id()"),
        ("(req.id", "`(` without `)`", "req.id"),
        ("(req.id, (seq", "`(` without `)`", "(req.id, seq)"),
    ] {
        refuses(parse_quote!(#text), what, &format!("`key = \"{closed}\"`"));
    }
}

#[test]
fn functions_are_called_in_the_caller() {
    refuses(
        parse_quote!("current_user()"),
        "`current_user()` does not depend on the arguments of the call",
        "call it in the caller, and pass the value as a parameter `current_user`: `key = current_user`",
    );
    refuses(
        parse_quote!((session::get_user().id, seq)),
        "`session::get_user()` does not depend on the arguments of the call",
        "call it in the caller, and pass the value as a parameter `user`: `key = (user.id, seq)`",
    );
    refuses(
        parse_quote!(tenant::current()),
        "`tenant::current()` does not depend on the arguments of the call",
        "call it in the caller, and pass the value as a parameter `tenant`: `key = tenant`",
    );
    refuses(
        parse_quote!(Uuid::new_v4()),
        "`Uuid::new_v4()` does not depend on the arguments of the call",
        "a repeat call has to give the same key: make it once in the caller, and pass it as a parameter `idempotency_key: \
         impl idempotent_runtime::KeyPart`: `key = idempotency_key`; or, if it tells calls apart: `key = req.order_id`",
    );
    refuses(
        parse_quote!((req.a, Utc::now())),
        "`Utc::now()` does not depend on the arguments of the call",
        "a repeat call has to give the same key: make it once in the caller, and pass it as a parameter `idempotency_key: \
         impl idempotent_runtime::KeyPart`: `key = (req.a, idempotency_key)`; or, if the others tell calls apart, without \
         it: `key = (req.a,)`",
    );
}

#[test]
fn literals_inside_a_key_are_answered_with_a_template() {
    refuses(
        parse_quote!(("v1", req.id)),
        "`\"v1\"` is the same for every call",
        "a template has fixed text: `key = \"v1:{req.id}\"`",
    );
    refuses(
        parse_quote!("{\"v1\"}:{req.id}"),
        "`\"v1\"` is the same for every call",
        "fixed text stands outside of the braces: `v1`",
    );
}

#[test]
fn a_path_goes_on_behind_a_question_mark() {
    let option = "match __idempotent_private::option(&req.a) {::core::option::Option::Some(__idempotent_value) => ";
    let none = ",::core::option::Option::None => ";
    accepts(
        parse_quote!("req.a?.b"),
        &format!(
            "{option}__idempotent_private::key(__idempotent_private::part(&(* __idempotent_value).b)\
             .__idempotent_checked()){none}__idempotent_private::optional_key(__idempotent_private::NOTHING), }}"
        ),
    );
    accepts(
        parse_quote!((n, req.a?.b()?)),
        &format!(
            "{{ let __idempotent_parts = __idempotent_private::tuple().part(__idempotent_private::part(&n)\
             .__idempotent_checked()); {option}__idempotent_parts.optional(__idempotent_private::option(\
             &(* __idempotent_value).b())){none}__idempotent_parts.optional(__idempotent_private::NOTHING), }} \
             }}.finish()"
        ),
    );
    for key in [parse_quote!(req?.a), parse_quote!(req.a??), parse_quote!("{(req.a?).b?.0?}")] {
        assert!(read(&key).is_ok());
    }
    refuses_with(parse_quote!("(req.a, req.b)?"), "a tuple cannot stand inside another key");
}

#[test]
fn computations_are_refused() {
    refuses_with(parse_quote!(req.id.await), "`key` cannot use `.await`");
    refuses_with(parse_quote!("req.load().await"), "`key` cannot use `.await`");
    refuses_with(parse_quote!(if a { b } else { c }), "`key` cannot hold control flow");
    refuses_with(
        parse_quote!(match a {
            _ => b,
        }),
        "`key` cannot hold control flow",
    );
    refuses_with(parse_quote!(return a), "`key` cannot hold control flow");
    refuses(parse_quote!({ req.id }), "`key` cannot hold a block", "`key = req.id`");
    refuses_with(parse_quote!({ 1 }), "`key` cannot hold a block");
    refuses_with(parse_quote!(order - { req.id }), "a template in `key` stands in quotes");
    refuses_with(parse_quote!(|| req.id + 1), "`key` cannot hold a closure");
    refuses_with(parse_quote!(format!("{}", req.id)), "`key` cannot use the macro `format!`");
    refuses_with(parse_quote!(req.get("id")), "`key` cannot give `get` arguments");
    refuses_with(parse_quote!(req.get::<u8>()), "`key` cannot give `get` type arguments");
    refuses_with(parse_quote!(hash(req.id)), "`key` cannot call the function `hash`");
    refuses(parse_quote!(&req.id), "`key` is taken by reference without `&`", "`key = req.id`");
    refuses(parse_quote!(*req.id), "`key` cannot use the operator `*`", "`key = req.id`");
    refuses_with(parse_quote!(!req.flag), "`key` cannot use the operator `!`");
    refuses(
        parse_quote!(req.id as u64),
        "`key` cannot cast",
        "all integers are keys, and so is an enum with `#[derive(idempotent_runtime::KeyPart)]`: `key = req.id`",
    );
    refuses_with(parse_quote!(req.a + req.b), "`key` cannot use the operator `+`");
    refuses_with(parse_quote!(req.a..req.b), "`key` cannot hold such an expression");
}

#[test]
fn what_can_panic_is_answered_with_a_question_mark() {
    let unwrap = "`unwrap` panics in the caller if there is no value";
    let element = "`req.items[0]` panics in the caller if there is no such element";
    for (value, what, path) in [
        (parse_quote!(req.note.unwrap()), unwrap, "key = req.note?"),
        (parse_quote!("req.note.unwrap()"), unwrap, "key = req.note?"),
        (parse_quote!((req.a, req.note.unwrap())), unwrap, "key = (req.a, req.note?)"),
        (parse_quote!("x:{req.note.unwrap()}"), unwrap, "{req.note?}"),
        (
            parse_quote!(req.note.expect("a note")),
            "`expect` panics in the caller if there is no value",
            "key = req.note?",
        ),
        (parse_quote!(req.items[0]), element, "key = req.items.first()?"),
        (parse_quote!(req.items[0].sku), element, "key = req.items.first()?.sku"),
        (parse_quote!(req.note.unwrap().id), unwrap, "key = req.note?.id"),
        (parse_quote!("{req.a?.note.unwrap().id()}"), unwrap, "{req.a?.note?.id()}"),
    ] {
        refuses(value, what, &format!("refuse a call without it: `{path}`"));
    }
    refuses(
        parse_quote!(req.note.unwrap_or_default()),
        "`unwrap_or_default` gives all calls without a value the same key",
        "refuse a call without it: `key = req.note?`; or, if that is meant, `key = req.idempotency_key()`, \
         with `impl Request { fn idempotency_key(&self) -> impl idempotent_runtime::KeyPart + '_ { \
         self.note.clone().unwrap_or_default() } }`",
    );
    let own = |method: &str, value: &str| {
        format!(
            "`key = req.{method}()?`, with `impl Request {{ fn {method}(&self) -> Option<impl \
             idempotent_runtime::KeyPart + '_> {{ {value} }} }}`"
        )
    };
    for (value, index) in [
        (parse_quote!(req.items[FIRST]), "FIRST"),
        (parse_quote!(req.items[1]), "1"),
        (parse_quote!(req.items["a"]), "\"a\""),
    ] {
        let what = format!("`req.items[{index}]` panics in the caller if there is no such element");
        refuses(value, &what, &own("reference", &format!("Some(self.items.get({index})?)")));
    }
}

#[test]
fn methods_that_take_their_value_are_answered_with_those_that_borrow() {
    refuses(
        parse_quote!(req.into_id()),
        "`into_id` takes `req` away from the body, and a key only borrows it",
        "name the field that it returns: `key = req.id`; or a method that borrows, with `&self` in place of `self`: \
         `key = req.id()`; if the type is `Clone`, a copy of it: `key = req.clone().into_id()`",
    );
}

#[test]
fn keys_of_other_languages_are_translated() {
    refuses(
        parse_quote!("${req.id}"),
        "`${req.id}` is written without `$`",
        "`key = \"{req.id}\"`",
    );
    refuses(parse_quote!("#req.id"), "`#req.id` is written without `#`", "`key = \"req.id\"`");
    refuses(parse_quote!(req::id), "`req::id` is not a parameter", "for a field: `key = req.id`");
    refuses(
        parse_quote!(keys::order_key),
        "`keys::order_key` is not a parameter",
        "make the function a method: `key = req.order_key()`",
    );
    refuses(
        parse_quote!([req.a, req.b]),
        "`key` cannot hold an array",
        "several parts are a tuple: `key = \"(req.a, req.b)\"`",
    );
    refuses(
        parse_quote!("req.a, req.b"),
        "`req.a, req.b` is not a field path",
        "several parts are a tuple: `key = \"(req.a, req.b)\"`",
    );
    refuses(
        parse_quote!(|req: &Order| req.id),
        "`key` is a path, and not a closure that returns one",
        "`key = req.id`",
    );
    refuses(
        parse_quote!(format!("{}:{}!", req.user, req.id)),
        "`key` cannot use the macro `format!`",
        "a template puts text together: `key = \"{req.user}:{req.id}!\"`",
    );
    refuses(
        parse_quote!("user:req.user:req.id"),
        "`user:req.user:req.id` is not a field path",
        "`key = \"user:{req.user}:{req.id}\"`",
    );
    refuses(
        parse_quote!("nightly-report"),
        "`key` cannot use the operator `-`",
        "for one key of all calls: `key = const \"nightly-report\"`",
    );
    refuses(parse_quote!(true), "`key` is not a switch", "`key = \"req.order_id\"`");
    refuses_with(
        parse_quote!(Uuid::new_v4()),
        "`Uuid::new_v4()` does not depend on the arguments of the call",
    );
    refuses_with(parse_quote!("_"), "`_` is not the name of a parameter");
    refuses(
        parse_quote!("order-{0}"),
        "`{0}` does not name a parameter",
        "`key = \"order-{req.order_id}\"`",
    );
    refuses(
        parse_quote!("order:" + req.id),
        "`key` cannot use the operator `+`",
        "a template puts text together: `key = \"order:{req.id}\"`",
    );
}

#[test]
fn empty_keys_are_refused() {
    refuses_with(parse_quote!(""), "`key` is empty");
    refuses_with(parse_quote!("  "), "`key` is empty");
    refuses_with(parse_quote!(()), "the tuple in `key` is empty");
}

#[test]
fn parentheses_behind_the_quotes_go_inside() {
    for (value, text, help) in [
        (parse_quote!("message.id"()), "message.id", "`key = \"message.id()\"`"),
        (
            parse_quote!("(user, message.id)"()),
            "(user, message.id)",
            "`key = \"(user, message.id())\"`",
        ),
        (
            parse_quote!("{a.b}:{c.d}"()),
            "{a.b}:{c.d}",
            "`key = \"{a.b()}:{c.d}\"`, or `key = \"{a.b}:{c.d()}\"`",
        ),
    ] {
        refuses(
            value,
            &format!("`()` behind `{text}` calls nothing: a method is called inside the quotes"),
            help,
        );
    }
}

#[test]
fn a_keyword_is_answered_with_a_raw_name() {
    let what = "`type` is a keyword of Rust";
    let help = "the name that the field has in the struct; if it is the same: ";
    for (value, key) in [
        (parse_quote!("event.type"), "`key = \"event.r#type\"`"),
        (parse_quote!("(event.id, event.type)"), "`key = \"(event.id, event.r#type)\"`"),
        (parse_quote!("{event.id}:{event.type}"), "`{event.r#type}`"),
    ] {
        refuses(value, what, &format!("{help}{key}"));
    }
}

#[test]
fn texts_in_single_quotes_are_constants() {
    refuses(
        parse_quote!("'nightly'"),
        "`'nightly'` is a text, and not a field path",
        "for one key of all calls: `key = const \"nightly\"`",
    );
    refuses(
        parse_quote!("'order:' + req.id"),
        "`key` cannot use the operator `+`",
        "a template puts text together: `key = \"order:{req.id}\"`",
    );
}

#[test]
fn what_looks_like_an_expression_is_never_offered_as_a_constant() {
    for text in ["(event.id, event..type)", "req.", "a.b c.d", "req.id req.seq", "f(x"] {
        let errors = read(&parse_quote!(#text)).expect_err("the key is accepted");
        assert!(!errors.concat().contains("const"), "{errors:#?}");
    }
}

#[test]
fn the_other_parts_of_a_tuple_are_kept() {
    for (value, help) in [
        (parse_quote!((user, &req.id)), "`key = (user, req.id)`"),
        (parse_quote!((user, *req.id)), "`key = (user, req.id)`"),
        (
            parse_quote!((user, req.id as u64)),
            "all integers are keys, and so is an enum with `#[derive(idempotent_runtime::KeyPart)]`: `key = (user, req.id)`",
        ),
        (parse_quote!((user, req.a + req.b)), "for several parts: `key = (user, req.a, req.b)`"),
    ] {
        let errors = read(&value).expect_err("the key is accepted");
        assert!(errors.concat().ends_with(&format!("help: {help}")), "{errors:#?}");
    }
}

#[test]
fn methods_in_help_borrow_from_self() {
    let body = |value: Expr| {
        let errors = read(&value).expect_err("the key is accepted").concat();
        errors.rsplit_once("+ '_").unwrap().1.trim_end_matches('`').to_owned()
    };
    assert_eq!(body(parse_quote!(req.name + &req.other)), " { self.name.clone() + &self.other } }");
    assert_eq!(body(parse_quote!(sha(req.body, 3))), " { sha(self.body.clone(), 3) } }");
    assert_eq!(body(parse_quote!(sha(&req))), " { sha(self) } }");
    assert_eq!(body(parse_quote!(sha(req, 3))), " { sha(self.clone(), 3) } }");
    let trimmed = body(parse_quote!(req.name.to_lowercase().trim_matches('x')));
    assert_eq!(trimmed, " { self.name.to_lowercase().trim_matches('x').to_owned() } }");
    let next = body(parse_quote!(req.id.split(':').next()));
    assert_eq!(next, "> { self.id.split(':').next() } }");
}

#[test]
fn text_that_is_no_expression_is_refused() {
    for text in ["order id", "req.", "req.id.", "#", "a b c", "\""] {
        refuses_with(parse_quote!(#text), &format!("`{text}` is not a field path"));
    }
}

#[test]
fn broken_templates_are_refused() {
    let double = |brace: char| format!("for a brace as text, double it: `{brace}{brace}`");
    refuses(
        parse_quote!("user:{req.id"),
        "`{` without `}`",
        "`key = \"user:{req.id}\"`, or for a brace as text `{{`",
    );
    refuses(
        parse_quote!("{req.a:x:{req.b}"),
        "`{req.a` is not closed",
        "`key = \"{req.a}:x:{req.b}\"`",
    );
    refuses(parse_quote!("user:{"), "`{` without `}`", &double('{'));
    refuses(parse_quote!("user:req.id}"), "`}` without `{`", &double('}'));
    refuses(
        parse_quote!("user:{}"),
        "`{}` does not name a parameter",
        "`key = \"user:{req.order_id}\"`",
    );
    refuses(
        parse_quote!("user:{ }"),
        "`{ }` does not name a parameter",
        "`key = \"user:{req.order_id}\"`",
    );
    refuses(
        parse_quote!("{req.id:?}"),
        "`{req.id:?}` cannot have a format",
        "`{req.id}`: it tells the same values apart, however they are shown",
    );
    refuses(parse_quote!("{a b}"), "`{a b}` is not a field path", "name a field: `{req.order_id}`");
    refuses(
        parse_quote!("{{nightly}}"),
        "doubled braces are text, and no holes",
        "`key = \"{nightly}\"`",
    );
    refuses(
        parse_quote!("{(req.a, req.b)}"),
        "a tuple cannot stand inside another key",
        "one hole each: `{req.a}:{req.b}`",
    );
    refuses_with(parse_quote!("{req.a + 1}"), "`key` cannot use the operator `+`");
}

#[test]
fn nested_tuples_are_answered_flat() {
    refuses(
        parse_quote!((req.a, (req.b, req.c))),
        "a tuple cannot stand inside another key",
        "name the members one after the other: `key = (req.a, req.b, req.c)`",
    );
}

#[test]
fn all_mistakes_of_a_tuple_and_a_template_are_reported() {
    assert_eq!(read(&parse_quote!((req.a + 1, req.b.await, req.c))).unwrap_err().len(), 2);
    assert_eq!(read(&parse_quote!("{a + 1}:{a b}:{c}")).unwrap_err().len(), 2);
}

#[test]
fn literals_from_macro_rules_are_peeled() {
    let text: Expr = parse_quote!("req.id");
    let group = proc_macro2::Group::new(proc_macro2::Delimiter::None, quote!(#text));
    accepts(
        syn::parse2(quote!(#group)).unwrap(),
        "__idempotent_private::key(__idempotent_private::part(&req.id).__idempotent_checked())",
    );
}

#[test]
fn what_is_read_is_the_same_when_it_is_read_again() {
    for text in [
        "req",
        "self.tenant",
        "pair.0.1",
        "r#type.r#match()",
        "req.item.sku?",
        "((req.user), req.seq?,)",
        "{{a}}:{ req.user }{req.item.id()?}}}",
    ] {
        printed::is_sound(text);
    }
    assert!(printed::is_sound("{{a}}:{ req.user }{req.item.id()?}}}"));
    assert!(!printed::is_sound("req.a + 1"));
}

/// Does the same as the fuzz target, on random sequences of the grammar's tokens.
#[test]
fn any_words_in_any_order_are_read_soundly() {
    const WORDS: [&str; 28] = [
        "req", ".", "id", "0", "1.5", "(", ")", "[", "]", "{", "}", "{{", "}}", "?", ",", ":",
        "::", "\"", "'", "self", "r#type", "const ", "&", "+ ", "<", ">", "\u{e9}", " ",
    ];
    // A fixed sequence makes failures reproducible.
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let mut accepted = 0;
    for _ in 0..20_000 {
        let text: String = (0..=next(9)).map(|_| WORDS[next(WORDS.len())]).collect();
        accepted += usize::from(printed::is_sound(&text));
    }
    assert!(accepted > 100, "{accepted} of them are keys");
}

#[test]
fn mistakes_in_a_fingerprint_offer_a_payload() {
    let refuses = |value: Expr, what: &str, help: &str| {
        let read = Key::read(&format_ident!("fingerprint"), &value);
        let errors = read.expect_err("the fingerprint is accepted");
        assert_eq!(texts(errors), [format!("{what}\nhelp: {help}")]);
    };
    let own_method = |returns: &str, body: &str| {
        format!(
            "`fingerprint = order.payload()`, with `impl Order {{ fn payload(&self) -> {returns} {{ \
             {body} }} }}`"
        )
    };
    for value in [
        parse_quote!(Fingerprint::of_serialized(&order)),
        parse_quote!(Fingerprint::of_serialized(&order).unwrap()),
        parse_quote!(Fingerprint::of_serialized(&order)?),
        parse_quote!(serde_json::to_vec(&order).expect("serializes")),
    ] {
        let errors = Key::read(&format_ident!("fingerprint"), &value).unwrap_err();
        let errors = texts(errors).concat();
        let help = "`fingerprint = order.payload()?`, with `impl Order { fn payload(&self) -> \
                    Option<idempotent_runtime::Fingerprint> { idempotent_runtime::Fingerprint::of_serialized(self).ok() } }`";
        assert!(errors.ends_with(help), "{errors}");
    }
    refuses(
        parse_quote!(order.amount * 100),
        "`fingerprint` cannot use the operator `*`",
        &format!(
            "without the computation: `fingerprint = order.amount`; or {}",
            own_method("impl idempotent_runtime::KeyPart + '_", "self.amount * 100")
        ),
    );
    refuses(
        parse_quote!(|order| hash(&order)),
        "`fingerprint` cannot hold a closure",
        "add a method without arguments and call it: `fingerprint = req.payload()`; or compute the value \
         in the caller, and pass it as a parameter `payload: impl idempotent_runtime::KeyPart`: `fingerprint = payload`",
    );
    refuses(
        parse_quote!(|order| order.amount),
        "`fingerprint` is a path, and not a closure that returns one",
        "`fingerprint = order.amount`",
    );
    let example = "`fingerprint = \"(req.amount, req.currency)\"`";
    let empty = format!("leave it out; for a field: {example}");
    refuses(parse_quote!(""), "`fingerprint` is empty", &empty);
    refuses(parse_quote!(true), "`fingerprint` is not a switch", example);
    refuses(
        parse_quote!(now()),
        "`now()` does not depend on the arguments of the call",
        "a repeat call has to give the same fingerprint, so take it from the request: \
         `fingerprint = (req.amount, req.currency)`",
    );
}

#[test]
fn a_value_in_place_of_another_is_a_text_that_says_which_one_it_is() {
    let help = "`key = req.idempotency_key()`, with `impl Request { fn idempotency_key(&self) -> String { match \
                &self.token { Some(it) => format!(\"token:{it}\"), None => format!(\"id:{}\", self.id) } } }`";
    for (value, operator) in [
        (parse_quote!(req.token || req.id), "||"),
        (parse_quote!("req.token || req.id"), "||"),
        (parse_quote!("req.token ?? req.id"), "??"),
        (parse_quote!("req.token or req.id"), "or"),
        (parse_quote!("req.token ?: req.id"), "?:"),
    ] {
        refuses(value, &format!("`key` cannot use the operator `{operator}`"), help);
    }
    let in_template = help.replacen("key = req.idempotency_key()", "{req.idempotency_key()}", 1);
    let what = "`key` cannot use the operator `??`";
    refuses(parse_quote!("order:{req.token ?? req.id}"), what, &in_template);
    refuses(
        parse_quote!(req.token.or(req.note)),
        "`key` cannot give `or` arguments",
        "`key = req.idempotency_key()?`, with `impl Request { fn idempotency_key(&self) -> Option<impl \
         idempotent_runtime::KeyPart + '_> { self.token.clone().or(self.note.clone()) } }`",
    );
}
