//! Servers for several test processes: starts those that its arguments name, or all of them, and prints the environment
//! variables that tell tests about them, one line each and in the order below. They end when standard input is closed, or
//! with this process.

use std::io::Read as _;
use std::thread;
use support::mariadb::{self, MariaDbServer};
use support::nats::{self, NatsServer};
use support::postgres::{self, PostgresServer};
use support::rabbitmq::{self, RabbitMqServer};
use support::redis::{self, RedisServer};

fn main() {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| named.is_empty() || named.iter().any(|it| it == name);
    // The last one takes longest, and is read last.
    let rabbitmq = is_wanted("rabbitmq").then(|| thread::spawn(RabbitMqServer::start));
    let mariadb = is_wanted("mariadb").then(|| thread::spawn(MariaDbServer::start_to_share));
    let postgres = is_wanted("postgres").then(PostgresServer::start_to_share);
    if let Some(postgres) = &postgres {
        tell(postgres::SHARED, postgres.url("").trim_end_matches('/'));
    }
    let mariadb = mariadb.map(|starts| starts.join().expect("MariaDB starts"));
    if let Some(mariadb) = &mariadb {
        tell(mariadb::SHARED, mariadb.url("").trim_end_matches('/'));
    }
    let redis = is_wanted("redis").then(RedisServer::start);
    if let Some(redis) = &redis {
        tell(redis::SHARED, &redis.url());
    }
    let nats = is_wanted("nats").then(NatsServer::start);
    if let Some(nats) = &nats {
        tell(nats::SHARED, &nats.url());
    }
    let rabbitmq = rabbitmq.map(|starts| starts.join().expect("RabbitMQ starts"));
    if let Some(rabbitmq) = &rabbitmq {
        tell(rabbitmq::SHARED, &rabbitmq.url());
    }
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[expect(clippy::print_stdout, reason = "the lines are for the process that has started this one")]
fn tell(variable: &str, url: &str) {
    println!("{variable}={url}");
}
