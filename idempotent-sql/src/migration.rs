//! Tables that several processes create at the same moment.
//!
//! `CREATE TABLE IF NOT EXISTS` of PostgreSQL looks before it creates, so one of two that run at the
//! same moment can fail, with an error of whichever catalogue they met in. A lock makes them take
//! turns. MySQL and SQLite need none: they lock the name, or the file.

/// The number of the lock under which tables are created: "idempote" in ASCII.
pub(crate) const LOCK: i64 = 0x6964_656d_706f_7465;

/// One statement for several that create tables. The lock ends with it, or with the transaction that
/// it is part of.
pub(crate) fn one_at_a_time(statements: &[String]) -> String {
    let statements = statements.join("; ");
    format!(
        "DO $migration$ BEGIN PERFORM pg_advisory_xact_lock({LOCK}); {statements}; END $migration$"
    )
}
