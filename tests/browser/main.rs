//! Forms in a real browser: the service of `examples/form.rs`, and a person who clicks.
#![allow(missing_docs)]

mod browser;
mod driver;
#[path = "../../examples/form.rs"]
#[allow(dead_code)]
mod form;
mod shop;

use browser::Browser;
use shop::{Manner, OpenShop};
use std::time::Duration;

const BUTTON: &str = "button";
const LINK: &str = "a";
const NAME: &str = "#name";

/// A browser that shows the form, filled in.
async fn filled_in(shop: &OpenShop, name: &str) -> Browser {
    let browser = Browser::start().await;
    browser.open(&shop.url()).await;
    browser.enter(NAME, name).await;
    browser
}

#[tokio::test]
async fn a_click_makes_an_order_and_shows_it() {
    let shop = OpenShop::start(Manner::Usual).await;
    let browser = filled_in(&shop, "Ada").await;
    browser.click(BUTTON).await;
    browser.shows(&["Thank you", "Order 1: a lamp for Ada", "\nmade"]).await;
    assert_eq!(browser.path().await, "/orders/1");
    shop.saw_posts(1).await;
    assert_eq!(shop.orders(), 1);
}

/// The second click comes while the first is being handled, and takes its answer's place.
#[tokio::test]
async fn a_second_click_makes_no_second_order_and_leads_to_the_first() {
    let shop = OpenShop::start(Manner::Slow).await;
    let browser = filled_in(&shop, "Ada").await;
    let button = browser.place_of(BUTTON).await;
    browser.click_at(&button).await;
    shop.saw_posts(1).await;
    browser.click_at(&button).await;
    shop.saw_posts(2).await;
    shop.answer();
    browser.shows(&["Orders", "Order 1: a lamp for Ada", "\nmade"]).await;
    assert_eq!(browser.path().await, "/orders");
    assert_eq!(shop.orders(), 1);
}

/// The mouse does not wait for anything. Whether the browser sends both clicks is up to the browser.
#[tokio::test]
async fn a_double_click_makes_one_order() {
    let shop = OpenShop::start(Manner::Usual).await;
    let browser = filled_in(&shop, "Ada").await;
    browser.double_click(BUTTON).await;
    browser.shows(&["Order 1: a lamp for Ada", "\nmade"]).await;
    assert!(browser.path().await.starts_with("/orders"));
    assert_eq!(shop.orders(), 1);
}

#[tokio::test]
async fn going_back_and_sending_the_form_again_makes_no_second_order() {
    let shop = OpenShop::start(Manner::Still).await;
    let browser = filled_in(&shop, "Ada").await;
    browser.click(BUTTON).await;
    browser.shows(&["Thank you"]).await;
    browser.back().await;
    browser.shows(&["Order a lamp"]).await;
    browser.click(BUTTON).await;
    shop.saw_posts(2).await;
    let page = browser.shows(&["Your order was already sent", "nothing more was ordered"]).await;
    assert!(!page.contains(['{', '}']), "{page}");
    browser.click(LINK).await;
    browser.shows(&["Orders", "Order 1: a lamp for Ada", "\nmade"]).await;
    assert_eq!(shop.orders(), 1);
}

#[tokio::test]
async fn a_form_that_has_expired_leads_to_a_fresh_one() {
    let shop = OpenShop::start(Manner::Usual).await;
    let browser = filled_in(&shop, "Ada").await;
    shop.clock.advance(Duration::from_secs(600));
    browser.click(BUTTON).await;
    browser.shows(&["This form has expired", "Nothing was ordered"]).await;
    assert_eq!(shop.orders(), 0);
    browser.click(LINK).await;
    browser.shows(&["Order a lamp"]).await;
    browser.enter(NAME, "Ada").await;
    browser.click(BUTTON).await;
    browser.shows(&["Thank you", "Order 1: a lamp for Ada"]).await;
    assert_eq!(shop.orders(), 1);
}

#[tokio::test]
async fn what_a_person_typed_is_shown_as_it_is() {
    let shop = OpenShop::start(Manner::Usual).await;
    let typed = r#"<b>Ada</b> & "Grace" &lt; 'x'"#;
    let browser = filled_in(&shop, typed).await;
    browser.click(BUTTON).await;
    browser.shows(&[&format!("Order 1: a lamp for {typed}")]).await;
    assert_eq!(shop.shop.orders()[0].name, typed);
}
