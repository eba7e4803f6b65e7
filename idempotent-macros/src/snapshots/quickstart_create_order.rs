async fn create_order(req: CreateOrder) -> Result<Order, ShopError> {
    static __IDEMPOTENT_SITE: ::idempotent_runtime::__private::Site = ::idempotent_runtime::__private::Site::derived(
            "quickstart::create_order",
            || {},
        )
        .expire(::core::time::Duration::from_secs(300))
        .mode(::idempotent_runtime::__private::Mode::Strong);
    let __idempotent_key = ::idempotent_runtime::__private::key(
        ::idempotent_runtime::__private::part(&req.order_id).__idempotent_checked(),
    );
    let __idempotent_returns = ::idempotent_runtime::__private::returned::<
        Result<Order, ShopError>,
        ShopError,
    >()
        .__idempotent_kept::<Order>(::core::marker::PhantomData);
    let __idempotent_body = async move {
        #[allow(unreachable_code, unreachable_patterns)]
        if let ::core::option::Option::Some(__idempotent_never) = ::core::option::Option::None::<
            Result<Order, ShopError>,
        > {
            return __idempotent_never;
        }
        {
            let receipt = BODIES.fetch_add(1, Relaxed) + 1;
            take_from_stock(req.quantity).await?;
            Ok(Order { id: req.order_id, receipt })
        }
    };
    ::idempotent_runtime::__private::run(
            ::idempotent_runtime::__private::Call::new(
                &__IDEMPOTENT_SITE,
                __idempotent_key,
            ),
            __idempotent_returns,
            __idempotent_body,
        )
        .await
}
