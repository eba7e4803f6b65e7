//! One-time tokens, on every store.

use idempotent_runtime::ErrorKind;
use idempotent_runtime::store::StoreErrorKind;
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::tokens::{Consumed, Exchanged, Tokens};
use std::time::Duration;
use support::{both, remote, while_time_passes};

/// The result of consuming a token, in a word.
async fn consume(tokens: &Tokens, token: &str) -> &'static str {
    match tokens.consume("order", token).await.unwrap() {
        Consumed::Accepted(_) => "accepted",
        Consumed::Used => "used",
        Consumed::Unknown => "unknown",
        Consumed::BoundElsewhere => "bound elsewhere",
        other => panic!("{other:?}"),
    }
}

async fn issue(tokens: &Tokens) -> String {
    tokens.issue("order").await.unwrap().to_string()
}

#[tokio::test]
async fn a_token_is_consumed_once() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem);
        let token = issue(&tokens).await;
        assert_eq!(consume(&tokens, &token).await, "accepted");
        assert_eq!(consume(&tokens, &token).await, "used");
        assert_eq!(consume(&tokens, &token).await, "used");
    }
}

#[tokio::test]
async fn of_many_who_consume_a_token_one_is_accepted() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem);
        for _ in 0..20 {
            let token = issue(&tokens).await;
            let racers: Vec<_> = (0..32)
                .map(|_| {
                    let (tokens, token) = (tokens.clone(), token.clone());
                    tokio::spawn(async move { consume(&tokens, &token).await })
                })
                .collect();
            let mut accepted = 0;
            for racer in racers {
                accepted += usize::from(racer.await.unwrap() == "accepted");
            }
            assert_eq!(accepted, 1);
        }
    }
}

#[tokio::test]
async fn a_wrong_binding_is_told_and_does_not_burn_the_token() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem).bound_to("session-1");
        let token = issue(&tokens).await;
        let other = Tokens::new(&bench.idem).bound_to("session-2");
        assert_eq!(consume(&other, &token).await, "bound elsewhere");
        assert_eq!(consume(&Tokens::new(&bench.idem), &token).await, "bound elsewhere");
        assert_eq!(consume(&tokens, &token).await, "accepted");
    }
}

#[tokio::test]
async fn a_forged_binding_makes_an_unknown_token() {
    for bench in both() {
        let thief = Tokens::new(&bench.idem).bound_to("thief");
        let token = issue(&Tokens::new(&bench.idem).bound_to("owner")).await;
        let own = issue(&thief).await;
        let forged = format!("{}{}", &token[..32], &own[32..]);
        assert_ne!(consume(&thief, &forged).await, "accepted");
    }
}

#[tokio::test]
async fn another_business_type_refuses_a_token_and_does_not_burn_it() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem);
        let token = issue(&tokens).await;
        let refund = tokens.consume("refund", &token).await.unwrap();
        assert!(matches!(refund, Consumed::Unknown), "{refund:?}");
        assert_eq!(consume(&tokens, &token).await, "accepted");
    }
}

#[tokio::test]
async fn a_token_expires() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem).expire(Duration::from_secs(60));
        let token = issue(&tokens).await;
        bench.clock.advance(Duration::from_secs(60));
        assert_eq!(consume(&tokens, &token).await, "unknown");
        assert_eq!(consume(&tokens, &token).await, "unknown", "asking leaves nothing behind");
    }
}

/// The answers to 32 callers that consume one token at the same time.
async fn racers(tokens: &Tokens, business_type: &'static str, token: &str) -> Vec<Consumed> {
    let racers: Vec<_> = (0..32)
        .map(|_| {
            let (tokens, token) = (tokens.clone(), token.to_owned());
            tokio::spawn(async move { tokens.consume(business_type, &token).await.unwrap() })
        })
        .collect();
    let mut told = Vec::new();
    for racer in racers {
        told.push(racer.await.unwrap());
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_told_that_an_unknown_or_expired_token_was_used() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem).expire(Duration::from_secs(60));
        for _ in 0..50 {
            let token = issue(&tokens).await;
            let unknown = racers(&tokens, "refund", &token).await;
            bench.clock.advance(Duration::from_secs(60));
            let expired = racers(&tokens, "order", &token).await;
            for told in unknown.iter().chain(&expired) {
                assert!(matches!(told, Consumed::Unknown), "{told:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_unknown_token_stays_unknown_while_another_who_asked_has_not_let_go_of_it() {
    let bench = remote();
    let tokens = Tokens::new(&bench.idem);
    let token = issue(&tokens).await;
    bench.clock.advance(Duration::from_secs(600));
    // The first to ask finds nothing, and goes away before it can say so to the store.
    bench.store.fault_always(Verb::Release, Fault::Before(StoreErrorKind::Unavailable));
    let first = tokens.consume("order", &token);
    assert!(while_time_passes(|it| bench.clock.advance(it), first).await.is_err());
    assert_eq!(consume(&tokens, &token).await, "unknown");
    bench.store.all_up();
    assert_eq!(consume(&tokens, &token).await, "unknown");
}

#[tokio::test]
async fn a_good_token_costs_no_more_than_its_begin() {
    let bench = remote();
    let tokens = Tokens::new(&bench.idem);
    let token = issue(&tokens).await;
    let before = bench.store.calls(Verb::Begin);
    assert_eq!(consume(&tokens, &token).await, "accepted");
    // One message finds what was issued, and one takes it.
    assert_eq!(bench.store.calls(Verb::Begin) - before, 2);
    assert_eq!((bench.store.calls(Verb::Get), bench.store.calls(Verb::Release)), (0, 0));
}

#[tokio::test]
async fn what_is_not_a_token_is_refused_without_asking_the_store() {
    let bench = remote();
    let tokens = Tokens::new(&bench.idem);
    assert_eq!(consume(&tokens, "'; DROP TABLE").await, "unknown");
    assert_eq!(bench.store.calls(Verb::Begin), 0);
}

#[tokio::test]
async fn a_token_that_is_given_back_can_be_used_again() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem);
        let token = issue(&tokens).await;
        for _ in 0..3 {
            let Consumed::Accepted(used) = tokens.consume("order", &token).await.unwrap() else {
                panic!("the token was good");
            };
            assert_eq!(consume(&tokens, &token).await, "used");
            used.give_back().await.unwrap();
        }
        assert_eq!(consume(&tokens, &token).await, "accepted");
    }
}

#[tokio::test]
async fn an_exchanged_token_is_used_up_and_the_next_one_is_good() {
    for bench in both() {
        let tokens = Tokens::new(&bench.idem);
        let first = issue(&tokens).await;
        let Exchanged::Next(next) = tokens.exchange("order", &first).await.unwrap() else {
            panic!("the token was good");
        };
        let again = tokens.exchange("order", &first).await.unwrap();
        assert!(matches!(again, Exchanged::Refused(Consumed::Used)), "{again:?}");
        assert_eq!(consume(&tokens, &next.to_string()).await, "accepted");
    }
}

#[tokio::test]
async fn lost_answers_neither_lose_nor_double_a_token() {
    for lost in [Verb::Begin, Verb::Fail] {
        let bench = remote();
        bench.store.fault_at(lost, 1, Fault::After(StoreErrorKind::Unavailable));
        let tokens = Tokens::new(&bench.idem);
        let token = while_time_passes(|it| bench.clock.advance(it), issue(&tokens)).await;
        bench.store.fault_next(Verb::Begin, Fault::After(StoreErrorKind::Unavailable));
        let consumed =
            while_time_passes(|it| bench.clock.advance(it), consume(&tokens, &token)).await;
        assert_eq!(consumed, "accepted");
        assert_eq!(consume(&tokens, &token).await, "used");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_accepts_nothing() {
    let bench = remote();
    let tokens = Tokens::new(&bench.idem);
    let token = issue(&tokens).await;
    bench.store.all_down();
    let consumed =
        while_time_passes(|it| bench.clock.advance(it), tokens.consume("order", &token)).await;
    let error = consumed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    bench.store.all_up();
    assert_eq!(consume(&tokens, &token).await, "accepted");
}

#[tokio::test]
async fn a_token_that_may_have_been_used_up_is_said_to_be_so() {
    let bench = remote();
    let tokens = Tokens::new(&bench.idem);
    let token = issue(&tokens).await;
    bench.store.fault_always(Verb::Begin, Fault::After(StoreErrorKind::Unavailable));
    let consumed =
        while_time_passes(|it| bench.clock.advance(it), tokens.consume("order", &token)).await;
    let text = consumed.unwrap_err().to_string();
    assert!(text.contains("the token may have been used up"), "{text}");
    assert!(text.ends_with("help: issue another token"), "{text}");
    bench.store.all_up();
    bench.store.fault_always(Verb::Begin, Fault::Before(StoreErrorKind::Full));
    let text = tokens.consume("order", &token).await.unwrap_err().to_string();
    assert!(!text.contains("used up"), "{text}");
}
