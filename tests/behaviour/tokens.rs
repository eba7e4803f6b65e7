//! One-time tokens, on every store.

use idempotent_runtime::store::StoreErrorKind;
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{Consumed, ErrorKind, Exchanged, Tokens};
use std::time::Duration;
use support::{both, remote};

#[tokio::test]
async fn a_token_is_consumed_once() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem);
        let token = tokens.issue("order").await.unwrap().to_string();
        assert_eq!(tokens.consume("order", &token).await.unwrap(), Consumed::Accepted);
        assert_eq!(tokens.consume("order", &token).await.unwrap(), Consumed::Refused);
    }
}

#[tokio::test]
async fn of_many_who_consume_a_token_one_is_accepted() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem);
        for _ in 0..20 {
            let token = tokens.issue("order").await.unwrap().to_string();
            let racers: Vec<_> = (0..32)
                .map(|_| {
                    let (tokens, token) = (tokens.clone(), token.clone());
                    tokio::spawn(async move { tokens.consume("order", &token).await.unwrap() })
                })
                .collect();
            let mut accepted = 0;
            for racer in racers {
                accepted += usize::from(racer.await.unwrap() == Consumed::Accepted);
            }
            assert_eq!(accepted, 1);
        }
    }
}

#[tokio::test]
async fn a_wrong_binding_or_type_refuses_a_token_and_does_not_burn_it() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem).bound_to("session-1");
        let token = tokens.issue("order").await.unwrap().to_string();
        let other = Tokens::new(&bench.idem).bound_to("session-2");
        assert_eq!(other.consume("order", &token).await.unwrap(), Consumed::Refused);
        let unbound = Tokens::new(&bench.idem);
        assert_eq!(unbound.consume("order", &token).await.unwrap(), Consumed::Refused);
        assert_eq!(tokens.consume("refund", &token).await.unwrap(), Consumed::Refused);
        assert_eq!(tokens.consume("order", &token).await.unwrap(), Consumed::Accepted);
    }
}

#[tokio::test]
async fn a_token_expires() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem).expire(Duration::from_secs(60));
        let token = tokens.issue("order").await.unwrap().to_string();
        bench.clock.advance(Duration::from_secs(60));
        assert_eq!(tokens.consume("order", &token).await.unwrap(), Consumed::Refused);
    }
}

#[tokio::test]
async fn what_is_not_a_token_is_refused_without_asking_the_store() {
    let bench = remote();
    let tokens = Tokens::new(&bench.idem);
    assert_eq!(tokens.consume("order", "'; DROP TABLE").await.unwrap(), Consumed::Refused);
    assert_eq!(bench.store.calls(Verb::Release), 0);
}

#[tokio::test]
async fn an_exchanged_token_is_used_up_and_the_next_one_is_good() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem);
        let first = tokens.issue("order").await.unwrap().to_string();
        let Exchanged::Next(next) = tokens.exchange("order", &first).await.unwrap() else {
            panic!("the token was good");
        };
        assert_eq!(tokens.exchange("order", &first).await.unwrap(), Exchanged::Refused);
        assert_eq!(tokens.consume("order", &next.to_string()).await.unwrap(), Consumed::Accepted);
    }
}

#[tokio::test]
async fn an_issue_whose_answer_was_lost_is_repeated_for_the_same_token() {
    let bench = remote();
    bench.store.fault_at(Verb::Begin, 1, Fault::After(StoreErrorKind::Unavailable));
    let tokens = Tokens::new(&bench.idem);
    let token = tokens.issue("order").await.unwrap().to_string();
    assert_eq!(bench.store.calls(Verb::Begin), 2);
    assert_eq!(tokens.consume("order", &token).await.unwrap(), Consumed::Accepted);
}

#[tokio::test]
async fn a_token_that_may_have_been_used_up_by_a_lost_answer_is_not_accepted() {
    let bench = remote();
    let tokens = Tokens::new(&bench.idem);
    let token = tokens.issue("order").await.unwrap().to_string();
    bench.store.fault_at(Verb::Release, 1, Fault::After(StoreErrorKind::Unavailable));
    let error = tokens.consume("order", &token).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    assert_eq!(tokens.consume("order", &token).await.unwrap(), Consumed::Refused);
}
