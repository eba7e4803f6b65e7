//! Describes a layer in OpenAPI documents of `utoipa`: the key, the refusals, the headers of
//! replays.
//!
//! ```
//! use idempotent_http::IdempotencyLayer;
//! use idempotent_http::openapi::IdempotencyDocs;
//! use idempotent_runtime::Idempotency;
//! use utoipa::Modify as _;
//! use utoipa::openapi::path::{HttpMethod, Operation, PathItem, PathsBuilder};
//! use utoipa::openapi::{Info, OpenApi};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = IdempotencyLayer::new(&Idempotency::in_memory()?, "shop").require_key();
//! // As `#[derive(OpenApi)]` makes it.
//! let orders = PathItem::new(HttpMethod::Post, Operation::new());
//! let paths = PathsBuilder::new().path("/orders", orders).build();
//! let mut document = OpenApi::new(Info::new("shop", "1"), paths);
//!
//! IdempotencyDocs::of(&layer).modify(&mut document);
//! let json = document.to_json()?;
//! assert!(json.contains("Idempotency-Key"));
//! # Ok(()) }
//! ```

mod pieces;
mod refusals;

use crate::IdempotencyLayer;
use crate::settings::{Settings, Usage};
use http::{Method, StatusCode};
use pieces::{key_parameter, problem, problem_schema, replayed, stored};
use refusals::refusals;
use std::fmt;
use std::sync::Arc;
use utoipa::Modify;
use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::{OpenApi, RefOr, Response, Responses, Schema};

/// The name of the schema of a refusal, among the components of the document.
pub const PROBLEM_SCHEMA: &str = "IdempotencyProblem";

/// Adds the behaviour of a layer to an OpenAPI document.
///
/// Each operation with a method that the layer guards gets the key as a parameter, unless keys are in
/// bodies only, and the refusals as responses of type `application/problem+json`. Responses that are
/// stored get the headers `Idempotent-Replayed` and `Idempotent-Stored`. Existing entries are not
/// replaced: if the document has a response with the status of a refusal, the refusal is added as a
/// further media type.
///
/// It is made from the layer, so that the two agree. It does not know the routes that the layer is
/// around: [`only`](Self::only) names them.
#[derive(Clone)]
pub struct IdempotencyDocs {
    settings: Arc<Settings>,
    is_guarded: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl IdempotencyDocs {
    /// Describes `layer`, on all paths of a document.
    pub fn of(layer: &IdempotencyLayer) -> Self {
        Self { settings: layer.settings(), is_guarded: Arc::new(|_| true) }
    }

    /// Restricts the description to the paths that the layer is around, as the document writes
    /// them: `/orders/{id}`.
    #[must_use]
    pub fn only(mut self, is_guarded: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.is_guarded = Arc::new(is_guarded);
        self
    }

    /// The parameter that carries the key, for documents that are assembled by hand. `None` if
    /// keys are in bodies only, which the schemas of the bodies describe.
    pub fn parameter(&self) -> Option<Parameter> {
        key_parameter(&self.settings)
    }

    /// The refusals by their status, for documents that are assembled by hand. They refer to the
    /// schema [`PROBLEM_SCHEMA`].
    pub fn responses(&self) -> Responses {
        let mut responses = Responses::new();
        for (status, kinds) in refusals(&self.settings) {
            responses.responses.insert(status.to_string(), RefOr::T(problem(&kinds)));
        }
        responses
    }

    /// The schema of a refusal.
    pub fn schema() -> Schema {
        problem_schema()
    }

    fn describe(&self, operation: &mut Operation) {
        if let Some(key) = self.parameter() {
            add_parameter(operation, key);
        }
        let responses = &mut operation.responses.responses;
        let refusals = self.responses().responses;
        if self.settings.usage == Usage::Exchange {
            for (status, response) in responses.iter_mut() {
                // `modify` may have added the refusal before. Refusals are never stored.
                let is_refusal = refusals.get(status) == Some(response);
                if let RefOr::T(response) = response
                    && self.stores(status)
                    && !is_refusal
                {
                    response.headers.entry(REPLAYED.to_owned()).or_insert(replayed().into());
                    response.headers.entry(STORED.to_owned()).or_insert(stored().into());
                }
            }
        }
        for (status, refusal) in refusals {
            match (responses.get_mut(&status), refusal) {
                (None, refusal) => drop(responses.insert(status, refusal)),
                (Some(RefOr::T(response)), RefOr::T(refusal)) => merge(response, refusal),
                // A reference to a component.
                (Some(_), _) => {}
            }
        }
    }

    /// Returns `true` if responses with a status, as the document writes it, are stored.
    fn stores(&self, status: &str) -> bool {
        let status = status.parse().ok().and_then(|status| StatusCode::from_u16(status).ok());
        status.is_some_and(|status| self.settings.stores(status))
    }
}

const REPLAYED: &str = "Idempotent-Replayed";
const STORED: &str = "Idempotent-Stored";

impl Modify for IdempotencyDocs {
    fn modify(&self, document: &mut OpenApi) {
        for (path, item) in &mut document.paths.paths {
            if (self.is_guarded)(path) {
                for (method, operation) in operations(item) {
                    if self.settings.guards(&method) {
                        self.describe(operation);
                    }
                }
            }
        }
        let components = document.components.get_or_insert_default();
        let schema = || RefOr::T(Self::schema());
        components.schemas.entry(PROBLEM_SCHEMA.to_owned()).or_insert_with(schema);
    }
}

impl fmt::Debug for IdempotencyDocs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        formatter.debug_struct("IdempotencyDocs").field("layer", settings).finish_non_exhaustive()
    }
}

/// The operations of a path that can be guarded.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let PathItem { put, post, delete, patch, .. } = item;
    let named = [
        (Method::PUT, put.as_mut()),
        (Method::POST, post.as_mut()),
        (Method::DELETE, delete.as_mut()),
        (Method::PATCH, patch.as_mut()),
    ];
    named.into_iter().filter_map(|(method, operation)| Some((method, operation?)))
}

/// Adds a parameter, unless the application has described it.
fn add_parameter(operation: &mut Operation, added: Parameter) {
    let parameters = operation.parameters.get_or_insert_default();
    let is_added = |it: &RefOr<Parameter>| match it {
        RefOr::T(it) => {
            it.name.eq_ignore_ascii_case(&added.name) && it.parameter_in == added.parameter_in
        }
        RefOr::Ref(_) => false,
    };
    if !parameters.iter().any(is_added) {
        parameters.push(RefOr::T(added));
    }
}

/// Adds a refusal to a response of the application with the same status.
fn merge(response: &mut Response, refusal: Response) {
    for (name, header) in refusal.headers {
        response.headers.entry(name).or_insert(header);
    }
    for (media_type, content) in refusal.content {
        response.content.entry(media_type).or_insert(content);
    }
}

#[cfg(test)]
mod tests;
