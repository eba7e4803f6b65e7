//! Servers for several test processes: starts them, prints the environment variables that tell tests about them, one line
//! each and in this order, and ends them when standard input is closed, or with this process.

use std::io::Read as _;
use std::thread;
use support::mariadb::{self, MariaDbServer};
use support::nats::{self, NatsServer};
use support::postgres::{self, PostgresServer};
use support::rabbitmq::{self, RabbitMqServer};
use support::redis::{self, RedisServer};

#[expect(clippy::print_stdout, reason = "the lines are for the process that has started this one")]
fn main() {
    // The last one takes longest, and is read last.
    let rabbitmq = thread::spawn(RabbitMqServer::start);
    let mariadb = thread::spawn(MariaDbServer::start_to_share);
    let postgres = PostgresServer::start_to_share();
    println!("{}={}", postgres::SHARED, postgres.url("").trim_end_matches('/'));
    let mariadb = mariadb.join().expect("MariaDB starts");
    println!("{}={}", mariadb::SHARED, mariadb.url("").trim_end_matches('/'));
    let redis = RedisServer::start();
    println!("{}={}", redis::SHARED, redis.url());
    let nats = NatsServer::start();
    println!("{}={}", nats::SHARED, nats.url());
    let rabbitmq = rabbitmq.join().expect("RabbitMQ starts");
    println!("{}={}", rabbitmq::SHARED, rabbitmq.url());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
