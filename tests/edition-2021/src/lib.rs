//! The attribute, used from the 2021 edition.
#![deny(rust_2024_compatibility)]

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::Arc;

    use idempotent_runtime::{idempotent, Error, ErrorKind, Idempotency, KeyPart};

    #[derive(KeyPart)]
    struct OrderId(u64);

    struct Request {
        id: OrderId,
        user: String,
        note: Option<String>,
        runs: Arc<AtomicU64>,
    }

    fn request() -> Request {
        let runs = Arc::default();
        Request { id: OrderId(7), user: "ada".to_owned(), note: None, runs }
    }

    #[idempotent(key = "req.id", expire = 300, mode = "strong")]
    async fn create(req: Request) -> Result<u64, Error> {
        Ok(req.runs.fetch_add(1, Ordering::Relaxed) + 1)
    }

    #[tokio::test]
    async fn second_caller_gets_first_result() {
        let runs = Arc::new(AtomicU64::new(0));
        for _ in 0..2 {
            let req = Request { runs: Arc::clone(&runs), ..request() };
            assert_eq!(create(req).await.unwrap(), 1);
        }
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }

    #[idempotent(key = "user:{user}:{{{id}}}", mode = "reject", message = "twice")]
    async fn template(Request { id, user, .. }: Request) -> Result<String, Error> {
        Ok(format!("{user}{}", id.0))
    }

    #[tokio::test]
    async fn templates_and_patterns_work() {
        assert_eq!(template(request()).await.unwrap(), "ada7");
        assert_eq!(template(request()).await.unwrap_err().message(), "twice");
    }

    #[idempotent(key = "id", mode = "strong", with = idem)]
    async fn with(id: u64, idem: &Idempotency) -> Result<u64, Error> {
        let _ = idem;
        Ok(id)
    }

    #[tokio::test]
    async fn instances_may_be_parameters() {
        let idem = Idempotency::builder().build().unwrap();
        assert_eq!(with(1, &idem).await.unwrap(), 1);
    }

    struct Orders {
        idem: Idempotency,
        created: Vec<u64>,
    }

    impl Orders {
        #[idempotent(name = "orders.create", key = (id, note?), mode = "strong", with = self.idem)]
        async fn create(&mut self, id: u64, note: &Option<String>) -> Result<usize, Error> {
            self.created.extend(note.iter().map(|_| id));
            Ok(self.created.len())
        }
    }

    #[tokio::test]
    async fn methods_borrow_their_receiver_and_instance() {
        let idem = Idempotency::builder().build().unwrap();
        let mut orders = Orders { idem, created: Vec::new() };
        let note = request().note.or_else(|| Some("first".to_owned()));
        assert_eq!(orders.create(1, &note).await.unwrap(), 1);
        assert_eq!(orders.create(1, &note).await.unwrap(), 1);
        assert_eq!(orders.create(2, &note).await.unwrap(), 2);
    }

    #[idempotent(key = "async_", mode = "window", expire = "5s")]
    async fn generic<T: KeyPart>(async_: T) -> Result<T, Error> {
        Ok(async_)
    }

    #[tokio::test]
    async fn windows_and_generics_work() {
        assert_eq!(generic("once").await.unwrap(), "once");
        assert!(generic("once").await.is_err());
    }

    #[idempotent(key = "id", mode = "strong", detach)]
    async fn detached(id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    #[tokio::test]
    async fn detached_bodies_answer() {
        assert_eq!(detached(3).await.unwrap(), 3);
    }

    struct Card;

    impl Card {
        #[idempotent(key = "id")]
        async fn pay(id: u64) -> Result<u64, Error> {
            Ok(id)
        }
    }

    #[tokio::test]
    async fn what_a_derived_name_leaves_out_is_refused() {
        #[idempotent(key = "id")]
        async fn pay(id: u64) -> Result<u64, Error> {
            Ok(id)
        }
        for (call, name) in [
            (Card::pay(1).await, "tests::Card::pay"),
            (pay(1).await, "tests::what_a_derived_name_leaves_out_is_refused::pay"),
        ] {
            let error = call.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(error.message().ends_with(&format!("::{name}\"`")), "{error}");
        }
    }
}
