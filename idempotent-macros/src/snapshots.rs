//! Snapshots of the generated code, pretty-printed.

use insta::assert_snapshot;
use proc_macro2::TokenStream;
use quote::quote;

use crate::{derive, expand, transitions};

fn pretty(tokens: TokenStream) -> String {
    let file = syn::parse2(tokens.clone()).unwrap_or_else(|error| panic!("{error}: {tokens}"));
    prettyplease::unparse(&file)
}

fn expanded(arguments: TokenStream, item: TokenStream) -> String {
    pretty(expand::idempotent(arguments, item))
}

/// Expands a method inside its `impl` block.
fn expanded_method(arguments: TokenStream, item: TokenStream) -> String {
    let method = expand::idempotent(arguments, item);
    pretty(quote!(impl Orders { #method }))
}

fn create_order() -> TokenStream {
    quote! {
        async fn create_order(req: CreateOrder) -> Result<Order, OrderError> {
            let order = place(req).await?;
            Ok(order)
        }
    }
}

#[test]
fn free_function() {
    let item = create_order();
    assert_snapshot!(expanded(quote!(key = "req.order_id", expire = 300, mode = "strong"), item));
}

#[test]
fn ambient_key() {
    assert_snapshot!(expanded(quote!(), create_order()));
}

#[test]
fn arguments_for_strong_mode_are_named_where_the_configuration_has_the_mode() {
    let for_strong = |arguments| {
        let code = expanded(arguments, create_order());
        let (_, named) = code.split_once(".for_strong(")?;
        Some(named.split_once(')')?.0.to_owned())
    };
    assert_eq!(for_strong(quote!(wait = "5s", on_replay = count)).unwrap(), "\"wait\"");
    assert_eq!(for_strong(quote!(on_replay = count)).unwrap(), "\"on_replay\"");
    assert_eq!(for_strong(quote!(mode = "strong", wait = "5s")), None);
    assert_eq!(for_strong(quote!(expire = "5s")), None);
}

#[test]
fn template() {
    let arguments = quote!(key = "user:{req.user_id}:order:{req.order_id}", mode = "reject");
    assert_snapshot!(expanded(arguments, create_order()));
}

#[test]
fn tuple() {
    assert_snapshot!(expanded(quote!(key = (req.user, req.seq?)), create_order()));
}

#[test]
fn optional() {
    assert_snapshot!(expanded(quote!(key = "req.reference?"), create_order()));
}

#[test]
fn optional_on_the_way() {
    let arguments = quote!(key = "(req.id, req.customer()?.email?)", scope = "req.shop?.id");
    assert_snapshot!(expanded(arguments, create_order()));
}

#[test]
fn constant() {
    let item = quote! {
        pub async fn nightly_report() -> io::Result<()> {
            Ok(())
        }
    };
    assert_snapshot!(expanded(quote!(key = const "nightly", expire = "24h"), item));
}

#[test]
fn window() {
    let arguments = quote!(key = "req", mode = "window", expire = "5s", message = "one moment");
    assert_snapshot!(expanded(arguments, create_order()));
}

#[test]
fn message_with_values() {
    let arguments = quote!(key = "req.id", message = "order {req.id} of {{{req.user}}} exists");
    assert_snapshot!(expanded(arguments, create_order()));
}

#[test]
fn detached() {
    assert_snapshot!(expanded(quote!(key = "req.order_id", detach), create_order()));
}

#[test]
fn transaction() {
    let item = quote! {
        async fn pay(tx: &mut Transaction<'_, Postgres>, id: u64) -> Result<u64, PayError> {
            charge(tx, id).await
        }
    };
    assert_snapshot!(expanded(quote!(key = "id", mode = "strong", transaction = "tx"), item));
}

#[test]
fn method() {
    let item = quote! {
        /// Creates an order.
        #[must_use]
        pub(crate) async fn create(&mut self, Json(req): Json<CreateOrder>) -> Result<Order, Error> {
            #![allow(clippy::todo)]
            self.place(req).await
        }
    };
    let arguments =
        quote!(name = "orders.create", key = "req.id", scope = self.tenant(), with = self.idem);
    assert_snapshot!(expanded_method(arguments, item));
}

#[test]
fn generics() {
    let item = quote! {
        async fn store<'a, T: KeyPart, const N: usize>(
            items: &'a [T; N],
            sink: impl Sink,
        ) -> Result<Vec<T>, Error>
        where
            T: Clone,
        {
            sink.put(items).await
        }
    };
    assert_snapshot!(expanded(quote!(key = "items.first()?", mode = "reject"), item));
}

#[test]
fn opaque_return_type() {
    let item = quote! {
        async fn list(user: u64) -> Result<impl Iterator<Item = u8>, Error> {
            Ok(std::iter::empty())
        }
    };
    assert_snapshot!(expanded(quote!(key = "user", mode = "reject"), item));
}

#[test]
fn no_return_type() {
    assert_snapshot!(expanded(
        quote!(key = "id"),
        quote!(
            async fn touch(id: u64) {}
        )
    ));
}

#[test]
fn every_argument() {
    let arguments = quote!(
        key = "req.order_id",
        expire = RETENTION,
        mode = "strong",
        message = "already submitted",
        wait = "300ms",
        lease = "30s",
        max_run = "1h",
        name = "orders.create",
        shared_name,
        scope = "req.tenant",
        fingerprint = "(req.amount, req.currency)",
        bind_payload_after_failure,
        final_errors = OrderError::is_final,
        abandon = "block",
        on_store_error = "run",
        on_unrecorded = "error",
        on_replay = count_replay,
        expire_with = "retention_of",
        detach = false,
        with = idem.as_ref(),
        crate = my_crate::runtime,
    );
    let item = quote! {
        async fn create_order(req: CreateOrder, idem: Arc<Idempotency>) -> Result<Order, OrderError> {
            place(req).await
        }
    };
    assert_snapshot!(expanded(arguments, item));
}

#[test]
fn async_trait_shape() {
    let item = quote! {
        #[allow(clippy::type_complexity)]
        fn create<'life0, 'async_trait>(
            &'life0 self,
            __arg1: Json<CreateOrder>,
        ) -> ::core::pin::Pin<Box<
            dyn ::core::future::Future<Output = Result<Order, Error>> + ::core::marker::Send + 'async_trait
        >>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(async move {
                if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<Result<Order, Error>> {
                    #[allow(unreachable_code)]
                    return __ret;
                }
                let __self = self;
                let Json(mut req) = { let __arg1 = __arg1; __arg1 };
                let __ret: Result<Order, Error> = { __self.place(req).await };
                #[allow(unreachable_code)]
                __ret
            })
        }
    };
    let arguments = quote!(name = "orders.create", key = "(self.shop, req.id)", mode = "strong");
    assert_snapshot!(expanded_method(arguments, item));
}

#[test]
fn mistakes_leave_the_function_as_it_was() {
    let arguments = quote!(key = "request.id", expire = 0, mode = "window", wait = 3);
    assert_snapshot!(expanded(arguments, create_order()));
}

#[test]
fn derive_for_structs() {
    let newtype = derive::key_part(quote!(
        struct OrderId(u64);
    ));
    let fields = derive::key_part(quote! {
        struct Request<T> where T: Clone {
            user: T,
            seq: u64,
            #[key_part(skip)]
            sent: f64,
        }
    });
    let displayed = derive::key_part(quote!(
        #[key_part(crate = runtime)]
        struct Link<T> {
            #[key_part(display)]
            to: Uri,
            #[key_part(display)]
            from: Option<T>,
            note: Option<String>,
        }
    ));
    assert_snapshot!(pretty(quote!(#newtype #fields #displayed)));
}

#[test]
fn derive_for_enums() {
    let some = derive::key_part(quote! {
        enum Payment {
            Card { number: String, #[key_part(skip)] weight: f64 },
            Transfer(Iban, u64),
            Cash,
        }
    });
    let none = derive::key_part(quote!(
        enum Never {}
    ));
    assert_snapshot!(pretty(quote!(#some #none)));
}

#[test]
fn derive_mistakes() {
    let union = derive::key_part(quote!(union Bits { a: u8, b: i8 }));
    let options = derive::key_part(quote! {
        #[key_part(krate = x)]
        struct Request {
            #[key_part(skp)]
            a: u8,
            #[key_part(skip = 1)]
            b: u8,
        }
    });
    let empty = derive::key_part(quote!(
        struct Nothing;
    ));
    assert_snapshot!(pretty(quote!(#union #options #empty)));
}

#[test]
fn derive_transitions() {
    assert_snapshot!(pretty(transitions::transitions(quote! {
        #[transitions(pay: Pending => Paid, cancel: Pending | Paid => Cancelled)]
        pub(crate) enum OrderStatus {
            Pending,
            Paid,
            #[transitions(rename = "called off")]
            Cancelled,
        }
    })));
}

#[test]
fn derive_transitions_with_mistakes_leaves_what_can_be_used() {
    assert_snapshot!(pretty(transitions::transitions(quote! {
        #[transitions(crate = my_sql, pay: Pendign => Paid, as_str: Pending => Paid)]
        enum OrderStatus { Pending, Paid }
    })));
}

/// Reads a file of the workspace.
fn file(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    std::fs::read_to_string(format!("{root}/{path}")).unwrap()
}

/// `scripts/test-long expand` compares the kept text with what `cargo expand` prints.
#[test]
fn the_quickstart_expands_to_what_is_kept_and_what_the_docs_show() {
    let kept = file("idempotent-macros/src/snapshots/quickstart_create_order.rs");
    let quickstart = syn::parse_file(&file("examples/quickstart.rs")).unwrap();
    let mut create_order = quickstart
        .items
        .into_iter()
        .find_map(|item| match item {
            syn::Item::Fn(item) if item.sig.ident == "create_order" => Some(item),
            _ => None,
        })
        .unwrap();
    let written = pretty(quote!(#create_order));
    let attribute = create_order.attrs.remove(0);
    let arguments = attribute.meta.require_list().unwrap().tokens.clone();
    let name = "::core::concat!(::core::module_path!(), \"::create_order\")";
    let expanded = expanded(arguments, quote!(#create_order));
    assert_eq!(expanded.replace(name, "\"quickstart::create_order\""), kept);

    let page = file("docs/expansion.md");
    for listing in [written, kept] {
        assert!(page.contains(&format!("```text\n{listing}```")), "{listing}");
    }
}
