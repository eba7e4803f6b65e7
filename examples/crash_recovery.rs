//! What happens to a key whose process is killed in the middle of its body?
//!
//! ```text
//! cargo run --example crash_recovery
//! ```
//!
//! A child process begins and is killed with SIGKILL inside the body. With `abandon = "retry"` the
//! next caller takes the key over when the lease ends. With `abandon = "block"` it does not
//! run again until an operator finds out what happened and resolves it.
#![allow(clippy::print_stdout)]

use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Error, ErrorKind, Idempotency, Resolution, current, idempotent};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::redis::RedisServer;

const LEASE: Duration = Duration::from_millis(500);

#[idempotent(key = "id", name = "mail.send", mode = "strong", lease = LEASE, abandon = "retry")]
async fn send_mail(id: u32, hang: bool) -> Result<u32, Error> {
    work(hang).await
}

#[idempotent(key = "id", name = "money.wire", mode = "strong", lease = LEASE, abandon = "block")]
async fn wire_money(id: u32, hang: bool) -> Result<u32, Error> {
    work(hang).await
}

/// Answers with the number of its attempt, or tells that it has begun and never ends.
async fn work(hang: bool) -> Result<u32, Error> {
    if hang {
        println!("begun");
        std::future::pending::<()>().await;
    }
    Ok(current().map_or(0, |current| current.attempt()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [url, function] = &arguments[..] {
        install(url).await?;
        match function.as_str() {
            "send_mail" => send_mail(1, true).await?,
            _ => wire_money(1, true).await?,
        };
        return Ok(());
    }
    let server = RedisServer::start();
    let idem = install(&server.url()).await?;

    kill_in_the_body(&server.url(), "send_mail")?;
    println!("send_mail was killed in its body");
    let attempt = until_taken_over().await?;
    println!("abandon = \"retry\": taken over after the lease, by attempt {attempt}");

    kill_in_the_body(&server.url(), "wire_money")?;
    println!("wire_money was killed in its body");
    let error = until_unknown().await;
    println!("abandon = \"block\": {error}");

    println!("an operator looks at the bank's books: it did happen, and its answer was 1");
    idem.operation("money.wire").key(1_u32).resolve(Resolution::Succeeded(Some(&1_u32))).await?;
    println!("resolved: {}", wire_money(1, false).await?);
    Ok(())
}

async fn install(url: &str) -> Result<Idempotency, Box<dyn std::error::Error>> {
    let idem = Idempotency::builder().store(RedisStore::connect(url).await?).build()?;
    idem.clone().install()?;
    Ok(idem)
}

/// Starts a process that calls `function`, and kills it once its body has begun.
fn kill_in_the_body(url: &str, function: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([url, function])
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    BufReader::new(output).lines().find(|line| line.as_deref().is_ok_and(|line| line == "begun"));
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Calls until the dead process's lease is over.
async fn until_taken_over() -> Result<u32, Error> {
    loop {
        match send_mail(1, false).await {
            Err(error) if error.kind() == ErrorKind::InProgress => wait(&error).await,
            answer => return answer,
        }
    }
}

async fn until_unknown() -> Error {
    loop {
        match wire_money(1, false).await {
            Err(error) if error.kind() == ErrorKind::InProgress => wait(&error).await,
            Err(error) => return error,
            Ok(_) => unreachable!("nobody runs it again"),
        }
    }
}

async fn wait(error: &Error) {
    tokio::time::sleep(error.retry_after().unwrap_or(LEASE)).await;
}
