//! A service without the layer, with scripted answers.

use crate::client::KEY;
use crate::server::{Server, serve};
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderName, StatusCode};
use std::sync::{Arc, Mutex};

/// A service without our layer: what it is asked, and what it says.
pub(crate) struct Script {
    pub(crate) server: Server,
    keys: Arc<Mutex<Vec<Option<String>>>>,
}

impl Script {
    /// Answers the n-th request as `answer` says, counted from 0.
    pub(crate) async fn new(
        answer: impl Fn(usize) -> Response + Clone + Send + Sync + 'static,
    ) -> Self {
        let keys = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&keys);
        let handler = async move |headers: http::HeaderMap| {
            let key = headers.get(KEY).map(|key| key.to_str().unwrap().to_owned());
            let mut heard = heard.lock().unwrap();
            heard.push(key);
            answer(heard.len() - 1)
        };
        let server = serve(Router::new().route("/", post(handler.clone()).get(handler))).await;
        Self { server, keys }
    }

    pub(crate) fn post(&self) -> reqwest::RequestBuilder {
        self.server.client.post(self.server.url("/"))
    }

    /// The keys that were sent, in order.
    pub(crate) fn keys(&self) -> Vec<Option<String>> {
        self.keys.lock().unwrap().clone()
    }
}

pub(crate) fn status(status: u16) -> Response {
    StatusCode::from_u16(status).unwrap().into_response()
}

pub(crate) fn with(status: u16, headers: &[(&'static str, &'static str)]) -> Response {
    let mut response = self::status(status);
    for (name, value) in headers {
        response.headers_mut().insert(HeaderName::from_static(name), value.parse().unwrap());
    }
    response
}
