//! Faults of messages, the same on every server.

/// A test of each verb of a call, for every fault of its message.
///
/// The module around it has `is_begin`, `is_completion` and `is_renewal`, which know the messages of its
/// server, and a `Site` with `Process`es that reach the server through a proxy.
macro_rules! faults_of_messages {
    () => {
        use crate::proxy::Fault;
        use idempotent_runtime::Abandon;
        use idempotent_runtime::protocol::{BeginRequest, Begun, StoreExt as _};
        use idempotent_runtime::store::{Claim, Store as _, StoreError, StoreErrorKind, Token};
        use std::sync::Arc;
        use support::{OwnError, until};
        use tokio::task::JoinSet;

        fn asking() -> BeginRequest {
            let claim = Claim::Lease { lease: LEASE, linger: LEASE, abandon: Abandon::Retry };
            BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim }
        }

        /// Asks until there is an answer: on a busy machine it may take longer than a process waits
        /// for it.
        async fn answered<T, F>(ask: impl Fn() -> F) -> T
        where
            F: Future<Output = Result<T, StoreError>>,
        {
            loop {
                match ask().await {
                    Ok(answer) => break answer,
                    Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
                }
            }
        }

        /// Runs a test once for every fault, all at the same time, with a process each.
        async fn for_each_fault<F>(test: impl Fn(Arc<Site>, Process, Fault, String) -> F)
        where
            F: Future<Output = ()> + Send + 'static,
        {
            let site = Arc::new(Site::start().await);
            let mut trials = JoinSet::new();
            for fault in Fault::ALL {
                let process = site.process().await;
                trials.spawn(test(Arc::clone(&site), process, fault, format!("{fault:?}")));
            }
            while let Some(ended) = trials.join_next().await {
                ended.unwrap();
            }
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn whatever_happens_to_a_begin_the_body_runs_once() {
            for_each_fault(|site, process, fault, key| async move {
                process.proxy.strike(is_begin, fault);
                assert_eq!(process.run(&key).await.unwrap(), 1, "{key}");
                assert!(process.proxy.has_struck(), "{key}");
                site.until_state(&key, "succeeded").await;
                assert_eq!(process.run(&key).await.unwrap(), 1, "{key}");
                assert_eq!(site.runs.ran(&key), 1, "{key}");
            })
            .await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn whatever_happens_to_an_answer_it_reaches_its_caller_and_is_stored_once() {
            for_each_fault(|site, process, fault, key| async move {
                process.proxy.strike(is_completion, fault);
                assert_eq!(process.run(&key).await.unwrap(), 1, "{key}");
                until(|| process.proxy.has_struck()).await;
                site.until_state(&key, "succeeded").await;
                until(|| process.idem.in_flight() == 0).await;
                assert_eq!(process.run(&key).await.unwrap(), 1, "{key}");
                assert_eq!(site.runs.ran(&key), 1, "{key}");
            })
            .await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn whatever_happens_to_an_error_it_reaches_its_caller_and_frees_the_key() {
            for_each_fault(|site, process, fault, key| async move {
                process.proxy.strike(is_completion, fault);
                let failing = process.op(&key).run(async {
                    site.runs.record(&key);
                    Err::<usize, _>(OwnError::new("own"))
                });
                assert_eq!(failing.await.unwrap_err().0, "own", "{key}");
                until(|| process.proxy.has_struck()).await;
                site.until_state(&key, "free").await;
                assert_eq!(process.run(&key).await.unwrap(), 2, "{key}");
            })
            .await;
        }

        /// The verbs themselves: unanswered is told as such, and the same request asked again finds its own
        /// record; another one is not granted.
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_begin_that_is_asked_again_finds_its_own_record() {
            for_each_fault(|_site, process, fault, key| async move {
                let (record, request) = (record_key(&key), asking());
                process.proxy.strike(is_begin, fault);
                let error = process.store.begin(&record, &request).await.unwrap_err();
                assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{key}: {error}");
                assert!(error.may_have_taken_effect(), "{key}: {error}");
                let again = answered(|| process.store.begin(&record, &request)).await;
                assert_eq!(again, Begun::Fresh(request.first_attempt()), "{key}");
                let another = asking();
                let other = answered(|| process.store.begin(&record, &another)).await;
                assert!(matches!(other, Begun::InFlight { .. }), "{key}: {other:?}");
            })
            .await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn whatever_happens_to_a_renewal_the_attempt_is_kept() {
            for_each_fault(|_site, process, fault, key| async move {
                let (record, request) = (record_key(&key), asking());
                answered(|| process.store.begin(&record, &request)).await;
                process.proxy.strike(is_renewal, fault);
                let attempt = request.first_attempt();
                let error = process.store.renew(&record, &attempt, LEASE * 10).await.unwrap_err();
                assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{key}: {error}");
                assert!(error.may_have_taken_effect(), "{key}: {error}");
                answered(|| process.store.renew(&record, &attempt, LEASE * 10)).await;
                let found = answered(|| process.store.load(&record)).await.unwrap();
                assert_eq!(found.head.attempt, attempt, "{key}");
                assert!(found.ttl > LEASE * 9, "{key}: {:?}", found.ttl);
            })
            .await;
        }
    };
}
pub(crate) use faults_of_messages;
