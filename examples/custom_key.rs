//! What can a key be made of, and what does it look like in the store?
//!
//! Every function below returns the key of its own record, so the output shows what the store
//! holds for each call.
//!
//! ```text
//! cargo run --example custom_key
//! ```
#![allow(clippy::print_stdout)]

use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::key::{KeyWriter, Parts};
use idempotent_runtime::{Error, ErrorKind, Idempotency, KeyPart, current, idempotent};
use std::collections::HashSet;

/// A struct with one unnamed field is that field.
#[derive(Clone, Copy, KeyPart)]
struct AccountId(u64);

/// Any other struct is the tuple of its fields. What does not tell calls apart is left out.
#[derive(KeyPart)]
struct Transfer {
    from: AccountId,
    to: AccountId,
    amount: Money,
    #[key_part(skip)]
    comment: &'static str,
}

/// An enum is the name of its variant and the variant's fields.
#[derive(KeyPart)]
enum Channel {
    Email,
    Sms { number: String },
}

/// Written by hand: `1.50 EUR` and `150 cents` are one amount, so they are one key.
struct Money {
    units: u64,
    cents: u64,
    currency: &'static str,
}

impl KeyPart for Money {
    fn encode(&self, key: &mut KeyWriter) {
        key.tuple().part(self.currency).part(&(self.units * 100 + self.cents));
    }
}

struct Signup {
    email: String,
    campaign: String,
    request_id: Option<String>,
}

#[idempotent(key = "transfer", name = "bank.transfer")]
async fn transfer_money(transfer: Transfer) -> Result<String, Error> {
    assert!(!transfer.comment.is_empty());
    Ok(own_key())
}

#[idempotent(key = (channel, user), name = "user.notify")]
async fn notify(channel: Channel, user: u32) -> Result<String, Error> {
    Ok(own_key())
}

#[idempotent(key = "signup:{req.campaign}:{req.email.trim()}", name = "user.signup")]
async fn sign_up(req: &Signup) -> Result<String, Error> {
    Ok(own_key())
}

#[idempotent(key = "req.request_id?", name = "user.confirm")]
async fn confirm(req: &Signup) -> Result<String, Error> {
    Ok(own_key())
}

#[idempotent(key = "invoice", scope = "tenant", name = "invoice.issue")]
async fn issue_invoice(tenant: &str, invoice: u32) -> Result<String, Error> {
    Ok(own_key())
}

#[idempotent(name = "cart.checkout")]
async fn check_out() -> Result<String, Error> {
    Ok(own_key())
}

fn own_key() -> String {
    current().map_or_else(String::new, |attempt| attempt.key().to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let idem = Idempotency::in_memory()?;
    idem.install()?;
    let mut keys = Keys::default();

    println!("derived: structs, enums, fields left out");
    let transfer = |units, cents, comment| Transfer {
        from: AccountId(17),
        to: AccountId(23),
        amount: Money { units, cents, currency: "EUR" },
        comment,
    };
    keys.show("17 pays 23 1.50 EUR", transfer_money(transfer(1, 50, "rent")).await?);
    let same = transfer_money(transfer(0, 150, "the rent")).await;
    show_refused("17 pays 23 150 cents", &same, ErrorKind::Duplicate);
    keys.show("17 pays 23 2.00 EUR", transfer_money(transfer(2, 0, "tip")).await?);
    keys.show("notify 7 by email", notify(Channel::Email, 7).await?);
    let sms = Channel::Sms { number: "+49 30".to_owned() };
    keys.show("notify 7 by sms", notify(sms, 7).await?);

    println!("\ntemplates: what fills a hole cannot imitate the text around it");
    let signup = |campaign: &str, email: &str| Signup {
        email: email.to_owned(),
        campaign: campaign.to_owned(),
        request_id: None,
    };
    let honest = sign_up(&signup("autumn", "ada@example.org")).await?;
    keys.show("sign up", honest.clone());
    keys.show("sign up, colon in campaign", sign_up(&signup("autumn:x", "ada@x.org")).await?);
    keys.show("sign up, colon in email", sign_up(&signup("autumn", "x:ada@x.org")).await?);
    let by_hand =
        Parts::template().text("signup:").part("autumn").text(":").part("ada@example.org").finish();
    let by_hand = idem.operation("user.signup").encoded_key(by_hand).record_key()?;
    println!("  {:<28}{}", "the same, built by hand", by_hand.as_str());
    assert_eq!(by_hand.as_str(), honest);

    println!("\noptional: a call without a key is refused, it does not share one with others");
    let mut request = signup("autumn", "ada@example.org");
    show_refused("request id is None", &confirm(&request).await, ErrorKind::MissingKey);
    request.request_id = Some("7f3a".to_owned());
    keys.show("request id is Some", confirm(&request).await?);

    println!("\nscopes: one key per tenant, and the caller's own token");
    keys.show("invoice 1 of acme", issue_invoice("acme", 1).await?);
    keys.show("invoice 1 of globex", issue_invoice("globex", 1).await?);
    let request = Ambient::new().token("9b1c").scope("acme");
    keys.show("check out, ambient token", ambient::scope(request, check_out()).await?);
    show_refused("check out, no token", &check_out().await, ErrorKind::MissingKey);
    Ok(())
}

/// The keys so far; no two calls that differ may share one.
#[derive(Default)]
struct Keys(HashSet<String>);

impl Keys {
    fn show(&mut self, call: &str, key: String) {
        println!("  {call:<28}{key}");
        assert!(self.0.insert(key), "two different calls share a key");
    }
}

fn show_refused(call: &str, answer: &Result<String, Error>, kind: ErrorKind) {
    let Err(error) = answer else { panic!("{call} ran") };
    println!("  {call:<28}refused, {:?}: {}", error.kind(), error.message());
    assert_eq!(error.kind(), kind);
}
