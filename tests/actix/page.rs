//! The program of `idempotent-http/guide/actix-web.md`, and the answers that the page promises.

mod program {
    include!(concat!(env!("OUT_DIR"), "/program.rs"));

    mod tests {
        use super::*;
        use actix_web::body::to_bytes;
        use actix_web::test::{TestRequest, init_service};

        /// Sends an order, and returns status, code of the problem and body.
        async fn send(key: Option<&str>, item: &str) -> (u16, String, String) {
            let app = init_service(App::new().service(orders)).await;
            let mut request = TestRequest::post().uri("/orders");
            request = request.insert_header((CONTENT_TYPE, "application/json"));
            if let Some(key) = key {
                request = request.insert_header(("idempotency-key", key));
            }
            let request = request.set_payload(format!(r#"{{"item":"{item}"}}"#)).to_request();
            let response = actix_web::test::call_service(&app, request).await;
            let code =
                response.headers().get(CODE_HEADER).map(|it| it.to_str().unwrap().to_owned());
            let status = response.status().as_u16();
            let body = to_bytes(response.into_body()).await.unwrap();
            (status, code.unwrap_or_default(), String::from_utf8(body.to_vec()).unwrap())
        }

        #[actix_web::test]
        async fn a_repeat_gets_the_order_of_the_first_request() {
            let first = send(Some("\"a\""), "lamp").await;
            assert_eq!(first, (200, String::new(), r#"{"number":1,"item":"lamp"}"#.to_owned()));
            // Quoted or not, it is one key.
            assert_eq!(send(Some("a"), "lamp").await, first);
        }

        #[actix_web::test]
        async fn another_payload_and_a_bad_or_missing_key_are_refused() {
            assert_eq!(send(Some("b"), "lamp").await.0, 200);
            let (status, code, body) = send(Some("b"), "chair").await;
            assert_eq!((status, code.as_str()), (422, ProblemType::PAYLOAD_MISMATCH.code()));
            assert!(body.contains(ProblemType::PAYLOAD_MISMATCH.code()), "{body}");
            let (status, code, _) = send(None, "lamp").await;
            assert_eq!((status, code.as_str()), (400, ProblemType::MISSING_KEY.code()));
            let (status, code, _) = send(Some("a,b"), "lamp").await;
            assert_eq!((status, code.as_str()), (400, ProblemType::INVALID_KEY.code()));
        }
    }
}
