//! Texts, causes and kinds of errors.

use super::*;

#[test]
fn the_text_says_what_whether_and_when() {
    let error = Error::new(ErrorKind::InProgress, &"orders.create".into())
        .with_key("#0123".to_owned())
        .with_message("please wait")
        .with_retry_after(Duration::from_millis(1500));
    assert_eq!(
        error.to_string(),
        "orders.create [#0123]: in progress: please wait \
         (the body did not run; retry after 1500 ms)"
    );
}

#[test]
fn all_kinds_are_listed_in_their_order() {
    for (number, kind) in ErrorKind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, number, "{kind:?}");
    }
    assert_eq!(ErrorKind::Misconfigured as usize + 1, ErrorKind::ALL.len());
    assert_eq!(ErrorKind::Unknown as usize, ErrorKind::ALL.len());
}

#[test]
fn superseded_is_the_kind_whose_body_ran() {
    let error = Error::new(ErrorKind::Superseded, &"o".into());
    assert_eq!((error.body(), error.body_ran()), (BodyRun::Ran, true));
    assert!(error.to_string().contains("the body ran"));
}

#[cfg(feature = "redis")]
#[test]
fn an_unknown_run_is_said_to_be_unknown() {
    let error = || Error::new(ErrorKind::StoreUnavailable, &"o".into()).with_message("lost");
    let unknown = error().with_body_unknown();
    assert_eq!((unknown.body(), unknown.body_ran()), (BodyRun::Unknown, false));
    assert_eq!(
        unknown.to_string(),
        "o: the store is unavailable: lost (it is unknown whether the body ran; may be retried)"
    );
    assert_eq!(error().after_the_body_ran().with_body_unknown().body(), BodyRun::Ran);
}

#[test]
fn a_remedy_comes_last() {
    let error = Error::new(ErrorKind::Misconfigured, &"o".into());
    assert_eq!(
        error.with_message("no such user\nhelp: ACL SETUSER").to_string(),
        "o: misconfigured: no such user \
         (the body did not run; a retry with this key does not help)\nhelp: ACL SETUSER"
    );
}

/// An error and its causes in a row, as reports print them.
fn chain(error: &dyn StdError) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn refused() -> std::io::Error {
    std::io::Error::other("connection refused")
}

#[test]
fn a_store_s_text_is_in_the_chain_once() {
    let lost = StoreError::new(StoreErrorKind::Unavailable, "10.0.0.7 does not answer");
    let error = Error::from_store(lost.with_source(refused()), &"o".into());
    assert_eq!(
        chain(&error),
        "o: the store is unavailable: 10.0.0.7 does not answer \
         (the body did not run; may be retried): connection refused"
    );
    assert_eq!(error.store_error().unwrap().kind(), StoreErrorKind::Unavailable);
}

#[test]
fn a_cause_that_a_store_quotes_is_in_the_chain_once() {
    let lost = || {
        StoreError::new(StoreErrorKind::Unavailable, format!("redis: {}", refused()))
            .with_source(refused())
    };
    assert_eq!(chain(&lost()), "redis: connection refused");
    assert_eq!(
        chain(&Error::from_store(lost(), &"o".into())),
        "o: the store is unavailable: redis: connection refused \
         (the body did not run; may be retried)"
    );
}

#[test]
fn a_cause_that_the_text_leaves_out_is_in_the_chain() {
    let raced = StoreError::new(StoreErrorKind::Contended, "lost a race");
    let error = Error::new(ErrorKind::InProgress, &"o".into())
        .with_message("please wait")
        .with_source(raced);
    assert_eq!(
        chain(&error),
        "o: in progress: please wait (the body did not run; may be retried): lost a race"
    );
}

#[test]
fn a_taken_window_can_be_retried_later_and_a_success_cannot() {
    let duplicate = || Error::new(ErrorKind::Duplicate, &"o".into());
    assert!(!duplicate().is_retryable());
    assert!(duplicate().with_retry_after(Duration::from_secs(1)).is_retryable());
}
