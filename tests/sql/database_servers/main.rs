//! PostgreSQL and MariaDB for several test processes: starts them, prints the environment variables that tell tests
//! about them, and ends them when standard input is closed, or with this process.

use std::io::Read as _;
use support::mariadb::{self, MariaDbServer};
use support::postgres::{self, PostgresServer};

#[expect(clippy::print_stdout, reason = "the lines are for the process that has started this one")]
fn main() {
    let mariadb = std::thread::spawn(MariaDbServer::start_to_share);
    let postgres = PostgresServer::start_to_share();
    let mariadb = mariadb.join().expect("MariaDB starts");
    println!("{}={}", postgres::SHARED, postgres.url("").trim_end_matches('/'));
    println!("{}={}", mariadb::SHARED, mariadb.url("").trim_end_matches('/'));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
