//! How does a form survive a double click, without any script?
//!
//! ```text
//! cargo run --example form -- --port 3000
//! ```
//!
//! The form carries a token in a hidden field. However often the form is sent, it is handled once;
//! all other times are answered with a page that leads to the order. The service prints what to open.
#![allow(clippy::print_stdout)]

use axum::body::Body;
use axum::extract::{Form, Path, State};
use axum::middleware::map_response;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Router, serve};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, REFRESH};
use idempotent_http::{FormTokens, problem};
use idempotent_runtime::problem::{CODE_HEADER, ProblemType};
use idempotent_runtime::{Error, Idempotency};
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;

/// Long enough for a second click.
pub(crate) const MAKING_TAKES: Duration = Duration::from_millis(500);

pub(crate) struct Order {
    pub(crate) name: String,
    pub(crate) made: bool,
}

/// Orders by number, from 1.
pub(crate) struct Shop {
    tokens: FormTokens,
    making_takes: Duration,
    orders: Mutex<Vec<Order>>,
}

impl Shop {
    pub(crate) fn new(idem: &Idempotency, making_takes: Duration) -> Arc<Self> {
        let tokens = FormTokens::new(idem, "order");
        Arc::new(Self { tokens, making_takes, orders: Mutex::default() })
    }

    pub(crate) fn orders(&self) -> MutexGuard<'_, Vec<Order>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn router(shop: &Arc<Shop>) -> Router {
    let orders = get(list_orders).post(order).layer::<_, Infallible>(shop.tokens.clone());
    Router::new()
        .route("/", get(show_form))
        .route("/orders", orders)
        .route("/orders/{number}", get(show_order))
        .with_state(Arc::clone(shop))
        .layer(map_response(explain))
}

async fn show_form(State(shop): State<Arc<Shop>>) -> Result<impl IntoResponse, Error> {
    let token = shop.tokens.hidden_field(&shop.tokens.issue(None).await?);
    // Firefox would keep the old token when the page is loaded again, but for `autocomplete`.
    let form = format!(
        r#"<p>One lamp, made for you. Click as often as you like: it is one order.</p>
<form method="post" action="/orders" autocomplete="off">
{token}
<label for="name">Your name</label>
<input id="name" name="name" required maxlength="60">
<button>Order the lamp</button>
</form>"#
    );
    // Each visit gets a token of its own; going back shows the page as it was.
    Ok(([(CACHE_CONTROL, "private, no-cache")], page("Order a lamp", &form)))
}

#[derive(Deserialize)]
struct NewOrder {
    name: String,
}

/// Knows nothing of tokens: the layer lets each form through once.
async fn order(State(shop): State<Arc<Shop>>, Form(new): Form<NewOrder>) -> Redirect {
    let number = {
        let mut orders = shop.orders();
        orders.push(Order { name: new.name, made: false });
        orders.len()
    };
    tokio::time::sleep(shop.making_takes).await;
    shop.orders()[number - 1].made = true;
    Redirect::to(&format!("/orders/{number}"))
}

async fn show_order(State(shop): State<Arc<Shop>>, Path(number): Path<usize>) -> Response {
    let orders = shop.orders();
    match number.checked_sub(1).and_then(|index| orders.get(index)) {
        Some(order) => {
            let list = list(&[(number, order)]);
            let links = links(&[("/orders", "All orders"), ("/", "Order another")]);
            with_news(order.made, page("Thank you", &format!("{list}{links}")))
        }
        None => {
            let links = links(&[("/orders", "All orders"), ("/", "Order a lamp")]);
            (StatusCode::NOT_FOUND, page("There is no such order", &links)).into_response()
        }
    }
}

async fn list_orders(State(shop): State<Arc<Shop>>) -> Response {
    let orders = shop.orders();
    let numbered: Vec<_> = (1..).zip(orders.iter()).collect();
    let all_made = orders.iter().all(|order| order.made);
    let list = if numbered.is_empty() { "<p>None yet.</p>".to_owned() } else { list(&numbered) };
    let links = links(&[("/", "Order a lamp")]);
    with_news(all_made, page("Orders", &format!("{list}{links}")))
}

/// While something is being made, the page loads itself again.
fn with_news(all_made: bool, page: Html<String>) -> Response {
    if all_made { page.into_response() } else { ([(REFRESH, "1")], page).into_response() }
}

/// A form that was refused is answered with a page for people, in the place of JSON.
async fn explain(response: Response) -> Response {
    let code = response.headers().get(CODE_HEADER).and_then(|code| code.to_str().ok());
    let Some(code) = code else { return response };
    let is = |kind: ProblemType| code == kind.code();
    let sent_before = is(problem::FORM_TOKEN_USED);
    let expired = is(problem::FORM_TOKEN_UNKNOWN) || is(problem::FORM_TOKEN_MISSING);
    let (title, text, link) = if sent_before {
        let text = "This form was sent before, so nothing more was ordered. \
            The orders follow in a moment.";
        ("Your order was already sent", text, ("/orders", "See the orders"))
    } else if expired {
        let text = "Nothing was ordered. Forms can be sent for ten minutes.";
        ("This form has expired", text, ("/", "Show me a fresh form"))
    } else {
        let text = "Nothing was ordered. Please try again in a moment.";
        ("That did not work", text, ("/", "Back to the form"))
    };
    let Html(page) = page(title, &format!("<p>{text}</p>\n{}", links(&[link])));
    // Status and code stay, for programs.
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if sent_before {
        // Not at once: the click that came first may not have reached its handler.
        parts.headers.insert(REFRESH, HeaderValue::from_static("2; url=/orders"));
    }
    Response::from_parts(parts, Body::from(page))
}

const STYLE: &str = "
body { margin: 0; background: #f4f1ea; color: #2b2620; font: 1.1rem/1.5 system-ui, sans-serif }
main { max-width: 26rem; margin: 12vh auto; padding: 2rem; background: #fff; border-radius: .75rem;
  box-shadow: 0 .25rem 1.5rem #0001 }
h1 { margin: 0 0 1rem; font-size: 1.6rem; line-height: 1.2 }
label, input, button { display: block; box-sizing: border-box; width: 100%; font: inherit }
input { margin: .25rem 0 1.25rem; padding: .6rem; border: 1px solid #b8afa0; border-radius: .4rem }
button { padding: .7rem; border: 0; border-radius: .4rem; background: #a34a00; color: #fff }
button:hover { background: #873d00 }
ul { margin: 0 0 1.25rem; padding: 0; list-style: none }
li { padding: .6rem 0; border-bottom: 1px solid #e6e0d6; overflow-wrap: anywhere }
small { display: block; color: #6b6256 }
a { margin-right: 1.25rem; color: #a34a00 }
";

fn page(title: &str, content: &str) -> Html<String> {
    Html(format!(
        r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{STYLE}</style>
<main>
<h1>{title}</h1>
{content}
</main>
</html>
"#
    ))
}

fn list(orders: &[(usize, &Order)]) -> String {
    let item = |(number, order): &(usize, &Order)| {
        let (name, state) = (escape(&order.name), if order.made { "made" } else { "being made" });
        format!("<li>Order {number}: a lamp for {name}<small>{state}</small></li>\n")
    };
    format!("<ul>\n{}</ul>\n", orders.iter().map(item).collect::<String>())
}

fn links(links: &[(&str, &str)]) -> String {
    let link = |(address, text): &(&str, &str)| format!("<a href=\"{address}\">{text}</a>\n");
    links.iter().map(link).collect()
}

fn escape(text: &str) -> String {
    let escape = |character| match character {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(escape).collect()
}

async fn print_what_to_open(address: &str, shop: &Shop) -> Result<(), Error> {
    let token = shop.tokens.issue(None).await?;
    println!("open http://{address}/ and click twice");
    println!("without a browser; the second one was sent before, the third has expired:");
    for token in [&*token, &*token, "0"] {
        println!("  curl -i http://{address}/orders -d 'name=Ada&form_token={token}'");
    }
    println!("Ctrl-C ends it");
    Ok(())
}

/// What follows `--port`; 3000 if nothing does.
fn port() -> Result<u16, String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => Ok(3000),
        [flag, port] if flag == "--port" => {
            port.parse().map_err(|_| format!("`{port}` is not a port"))
        }
        _ => Err("help: form --port 3000".to_owned()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let idem = Idempotency::in_memory()?;
    let shop = Shop::new(&idem, MAKING_TAKES);
    let listener = TcpListener::bind(("127.0.0.1", port()?)).await?;
    print_what_to_open(&listener.local_addr()?.to_string(), &shop).await?;

    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    serve(listener, router(&shop)).with_graceful_shutdown(interrupted).await?;
    // Orders whose pages were left are waited for as well.
    let drained = idem.shutdown(Duration::from_secs(10)).await;
    println!("{drained:?}: {} lamps were ordered", shop.orders().len());
    Ok(())
}
