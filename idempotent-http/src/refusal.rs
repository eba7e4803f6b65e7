//! Refusals on their way to the client: in the format of the service if it has one, and marked as
//! refusals in any case.

use crate::body::ResponseBody;
use crate::form::FormTokens;
use crate::layer::IdempotencyLayer;
use crate::problem::{Dialect, mark};
use crate::settings::call_hook;
use bytes::Bytes;
use http::Response;
use http::request::Parts;
use idempotent_runtime::observe::PendingCall;
use idempotent_runtime::problem::{Problem, TypeBase};
use std::fmt;
use std::sync::Arc;

type Hook = dyn Fn(&Problem, &Parts) -> Option<Response<Bytes>> + Send + Sync;

/// Format of refusals.
#[derive(Clone, Default)]
pub(crate) struct Refusals {
    hook: Option<Arc<Hook>>,
    base: Option<TypeBase>,
}

impl Refusals {
    fn shape_by(
        &mut self,
        hook: impl Fn(&Problem, &Parts) -> Option<Response<Bytes>> + Send + Sync + 'static,
    ) {
        self.hook = Some(Arc::new(hook));
    }

    /// Copies the head of a request for the hook. Boxed, because futures hold it.
    pub(crate) fn remember(&self, parts: &Parts) -> Option<Box<Parts>> {
        self.hook.as_ref().map(|_| Box::new(parts.clone()))
    }

    /// Refuses a request before an operation has begun, and reports it.
    pub(crate) fn refuse<B>(
        &self,
        call: PendingCall<'_>,
        problem: &Problem,
        parts: &Parts,
    ) -> Response<ResponseBody<B>> {
        call.refused(problem.kind());
        let dialect = Dialect::of(&parts.headers);
        self.response(problem, Some(parts), dialect).map(ResponseBody::of)
    }

    /// The response for a problem. The hook is not called for gRPC, whose refusals have one form
    /// only.
    pub(crate) fn response(
        &self,
        problem: &Problem,
        parts: Option<&Parts>,
        dialect: Dialect,
    ) -> Response<Bytes> {
        let problem = match &self.base {
            Some(base) => problem.clone().base(base.clone()),
            None => problem.clone(),
        };
        let shaped = parts
            .filter(|_| dialect == Dialect::Http)
            .and_then(|parts| self.shape(&problem, parts));
        let mut response = shaped.unwrap_or_else(|| dialect.response(&problem));
        mark(response.headers_mut(), &problem);
        response.extensions_mut().insert(problem);
        response
    }

    fn shape(&self, problem: &Problem, parts: &Parts) -> Option<Response<Bytes>> {
        let shape = self.hook.as_ref()?;
        call_hook("on_refusal", || shape(problem, parts)).flatten()
    }
}

impl fmt::Debug for Refusals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Refusals")
            .field("shaped", &self.hook.is_some())
            .field("base", &self.base)
            .finish()
    }
}

impl IdempotencyLayer {
    /// Sets a hook for the layer's own answers. The hook gets the problem and the head of the
    /// request, and returns the response, or `None` for the usual one.
    ///
    /// [`problem_response`](crate::problem_response) makes the usual one, to be changed. gRPC calls
    /// are always refused with a gRPC status. A response that the hook returns gets the header
    /// `Idempotency-Problem` in any case, and `Cache-Control: no-store` and `Retry-After` where the
    /// hook did not set them. A hook that panics is logged, and the client gets the usual response.
    ///
    /// With or without a hook, the [`Problem`] is in the extensions of the response, for layers
    /// outside of this one.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::Response;
    /// use idempotent_http::IdempotencyLayer;
    /// # use idempotent_runtime::Idempotency;
    /// # let idem = Idempotency::in_memory().unwrap();
    ///
    /// let layer = IdempotencyLayer::new(&idem, "shop").on_refusal(|problem, _| {
    ///     let body = format!(r#"{{"error":"{}"}}"#, problem.kind().code());
    ///     let response = Response::builder()
    ///         .status(problem.kind().status())
    ///         .header("content-type", "application/json")
    ///         .body(Bytes::from(body));
    ///     response.ok()
    /// });
    /// # drop(layer);
    /// ```
    #[must_use]
    pub fn on_refusal(
        self,
        hook: impl Fn(&Problem, &Parts) -> Option<Response<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.refusals.shape_by(hook))
    }

    /// Sets the base address of problem types: the `type` of a refusal is this and its code.
    ///
    /// By default it is the base of the process, which
    /// [`set_base`](idempotent_runtime::problem::set_base) sets, or `urn:idempotent:problem:`. Clients
    /// compare it, so choose it once.
    ///
    /// ```
    /// use idempotent_http::IdempotencyLayer;
    /// use idempotent_runtime::Idempotency;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// let layer = IdempotencyLayer::new(&idem, "shop")
    ///     .problem_base("https://shop.example/problems/".parse()?);
    /// # drop(layer);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn problem_base(self, base: TypeBase) -> Self {
        self.with(|it| it.refusals.base = Some(base))
    }
}

impl FormTokens {
    /// Sets a hook for the layer's own answers, like [`IdempotencyLayer::on_refusal`]: a page in
    /// place of problem details, for example.
    #[must_use]
    pub fn on_refusal(
        self,
        hook: impl Fn(&Problem, &Parts) -> Option<Response<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.refusals.shape_by(hook))
    }

    /// Sets the base address of problem types, as [`IdempotencyLayer::problem_base`] does.
    #[must_use]
    pub fn problem_base(self, base: TypeBase) -> Self {
        self.with(|it| it.refusals.base = Some(base))
    }
}
