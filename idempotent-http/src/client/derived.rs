//! Derived keys on single requests.

use crate::downstream::derived;
use crate::header::IDEMPOTENCY_KEY;
use reqwest::RequestBuilder;

/// Extension trait that adds a key derived from the current attempt.
///
/// ```no_run
/// use idempotent_http::client::RequestBuilderExt as _;
/// use idempotent_runtime::{Error, idempotent};
///
/// #[idempotent(key = "order_id", mode = "strong")]
/// async fn pay(order_id: u64) -> Result<u16, Box<dyn std::error::Error + Send + Sync>> {
///     let charge = reqwest::Client::new()
///         .post("https://api.stripe.com/v1/charges")
///         .body(format!("amount=2000&currency=eur&metadata[order]={order_id}"))
///         .derived_key("stripe.charge");
///     Ok(charge.send().await?.status().as_u16())
/// }
/// ```
pub trait RequestBuilderExt: sealed::Sealed {
    /// Adds `Idempotency-Key` with the key that the current attempt
    /// [derives](idempotent_runtime::Current::derived_key) under `name`.
    ///
    /// A request that has the header keeps it; outside of any attempt nothing is added. Call it after
    /// the headers are set. [`Retry::send`](super::Retry::send) sends the key that it finds here.
    ///
    /// A body that is a stream hides the headers of its request: a key that was set before gets a
    /// second line, which servers refuse.
    #[must_use]
    fn derived_key(self, name: &str) -> Self;
}

impl RequestBuilderExt for RequestBuilder {
    fn derived_key(self, name: &str) -> Self {
        // The request in a builder can only be inspected in a copy. A stream cannot be copied, nor
        // can a builder that has failed, which ignores headers and keeps its error.
        let seen = self.try_clone().and_then(|copy| copy.build().ok());
        if seen.is_some_and(|request| request.headers().contains_key(IDEMPOTENCY_KEY)) {
            return self;
        }
        match derived(name) {
            Some(key) => self.header(IDEMPOTENCY_KEY, key),
            None => self,
        }
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for reqwest::RequestBuilder {}
}
