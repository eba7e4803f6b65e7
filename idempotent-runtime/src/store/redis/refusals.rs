//! Every error that a server answers with, as a table: what it means for a verb and for its caller.
//!
//! `docs/redis.md` shows the same table, and a test compares the two. An error that a script ran
//! into counts as the script's: servers before 7.0 quote it, later ones answer with it.

use super::error::Failure;
use crate::store::StoreErrorKind;
use redis::{ErrorKind, RedisError};

/// The meaning of an error.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The code of the error: its first word.
    pub(super) code: &'static str,
    /// Words that tell it from other errors of the same code; empty if there are no others.
    pub(super) says: &'static str,
    /// The cause, in a few words.
    pub(super) cause: &'static str,
    pub(super) failure: Failure,
    pub(super) effect: Effect,
    pub(super) connection: Connection,
    pub(super) reads: Reads,
    pub(super) kind: StoreErrorKind,
    /// A remedy that can be typed; empty if there is none.
    pub(super) help: &'static str,
}

/// The possible effect of a command that was answered like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Possible,
}

/// The fate of the connection on which the error came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    Kept,
    /// Another one may lead to a server that is better off.
    Replaced,
}

/// Replays from a server that refused a write: it may still answer a `GET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Served,
    Refused,
}

macro_rules! refusals {
    ($($code:literal $says:literal $cause:literal:
       $failure:ident $effect:ident $connection:ident $reads:ident $kind:ident $help:literal;)*) => {
        &[$(Refusal {
            code: $code,
            says: $says,
            cause: $cause,
            failure: Failure::$failure,
            effect: Effect::$effect,
            connection: Connection::$connection,
            reads: Reads::$reads,
            kind: StoreErrorKind::$kind,
            help: $help,
        }),*]
    };
}

/// The errors of servers. Of rows with one code the first whose words occur decides.
pub(super) const REFUSALS: &[Refusal] = refusals! {
    "MISCONF" "" "the server cannot save to its disk":
        WritesRefused None Kept Served Unavailable
        "make room on the server's disk, or CONFIG SET stop-writes-on-bgsave-error no";
    "LOADING" "" "the server has started and reads its records from disk":
        Other None Replaced Refused Unavailable "";
    "BUSY" "" "a script keeps the server busy":
        Other None Kept Refused Unavailable "SCRIPT KILL";
    "MASTERDOWN" "" "a replica that has lost its master":
        Other None Replaced Refused Unavailable "";
    "CLUSTERDOWN" "" "the cluster does not serve the record's slot":
        Other None Replaced Refused Unavailable "CLUSTER INFO";
    "TRYAGAIN" "" "the keys of a script are being moved to another node":
        Other None Kept Served Unavailable "";
    "NOREPLICAS" "" "the master has fewer replicas than `min-replicas-to-write`":
        WritesRefused None Replaced Served NotReplicated "INFO replication";
    "READONLY" "" "a replica":
        WritesRefused None Replaced Served Unavailable "";
    "OOM" "" "the server is full":
        Full None Kept Served Full "CONFIG SET maxmemory, or a shorter expire";
    "NOPERM" "" "the user may not run the command or use the key":
        Forbidden None Kept Served Misconfigured "ACL SETUSER user +set +get +pttl +eval +evalsha ~*";
    "NOAUTH" "" "the connection is not logged in":
        Forbidden None Replaced Refused Misconfigured "redis://user:password@host, or login()";
    "WRONGPASS" "" "a wrong user or password":
        Forbidden None Replaced Refused Misconfigured "check user and password";
    "DENIED" "" "the server is in protected mode":
        Forbidden None Replaced Refused Misconfigured
        "CONFIG SET protected-mode no, or a password";
    "WRONGTYPE" "" "the key is in use for something that is not a record":
        WrongType None Kept Refused Undecodable "another key_prefix";
    "MOVED" "" "the record's slot is on another node":
        Other None Replaced Refused Unavailable "RedisStore::cluster([url])";
    "ASK" "" "the record's slot is being moved to another node":
        Other None Replaced Refused Unavailable "RedisStore::cluster([url])";
    "CROSSSLOT" "" "the keys of a script lie in several slots":
        Other None Kept Refused Misconfigured "put the same {tag} into every key";
    "EXECABORT" "" "a transaction was given up":
        Other None Kept Refused Unavailable "";
    "NOSCRIPT" "" "the server does not have the script, which is sent again with its text":
        NoScript None Kept Refused Misconfigured "";
    "ERR" "max number of clients reached" "the server takes no more connections":
        Other None Replaced Refused Unavailable "CONFIG SET maxclients";
    "ERR" "unknown command" "the server does not have the command":
        UnknownCommand None Kept Refused Misconfigured "use Redis 6.2 or later, or Valkey";
    "ERR" "syntax error" "the server does not have an option of the command":
        UnknownCommand None Kept Refused Misconfigured "use Redis 6.2 or later, or Valkey";
    "ERR" "can't run this command" "the user may not run a command of a script":
        Forbidden None Kept Served Misconfigured "ACL SETUSER user +set +get +pttl +eval +evalsha ~*";
    "ERR" "ACL failure in script" "the user may not run a command of a script":
        Forbidden None Kept Served Misconfigured "ACL SETUSER user +set +get +pttl +eval +evalsha ~*";
    "ERR" "Script killed" "a script was killed before it wrote anything":
        Other None Kept Refused Unavailable "";
    "ERR" "" "any other error":
        Other Possible Kept Refused Unavailable "";
};

/// No answer came, or none that can be read.
pub(super) const UNANSWERED: &Refusal = &Refusal {
    code: "",
    says: "",
    cause: "no answer",
    failure: Failure::Disconnected,
    effect: Effect::Possible,
    connection: Connection::Replaced,
    reads: Reads::Refused,
    kind: StoreErrorKind::Unavailable,
    help: "",
};

/// An error with a code that the table does not have.
const OTHER: &Refusal = &REFUSALS[REFUSALS.len() - 1];

/// The row of an error.
pub(super) fn refusal(error: &RedisError) -> &'static Refusal {
    if error.kind() == ErrorKind::AuthenticationFailed {
        return row("WRONGPASS", "");
    }
    let Some(code) = error.code() else { return UNANSWERED };
    let detail = error.detail().unwrap_or_default();
    quoted(code, detail).unwrap_or_else(|| row(code, detail))
}

fn row(code: &str, detail: &str) -> &'static Refusal {
    let is_meant = |row: &&Refusal| row.code == code && detail.contains(row.says);
    REFUSALS.iter().find(is_meant).unwrap_or(OTHER)
}

/// The row of an error that a script of a server before 7.0 ran into.
fn quoted(code: &str, detail: &str) -> Option<&'static Refusal> {
    if code != "ERR" || !detail.starts_with("Error running script") {
        return None;
    }
    let is_quoted = |row: &&Refusal| {
        let quoted = |before| detail.contains(&format!("{before}{} ", row.code));
        row.code != "ERR" && (quoted(": -") || quoted(": "))
    };
    REFUSALS.iter().find(is_quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error as a server sends it.
    fn error(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    fn found(line: &str) -> (&'static str, &'static str) {
        let Refusal { code, says, .. } = refusal(&error(line));
        (code, says)
    }

    /// As servers from 6.2 to 9.1 word them.
    #[test]
    fn every_error_is_recognised_by_its_code() {
        for row in REFUSALS {
            let line = format!("{} {} and more", row.code, row.says);
            assert_eq!(found(&line), (row.code, row.says), "{line}");
        }
        assert_eq!(found("ERR something else"), ("ERR", ""));
        assert_eq!(found("UNHEARDOF something else"), ("ERR", ""));
    }

    #[test]
    fn an_error_that_a_script_ran_into_is_the_scripts() {
        let old = "ERR Error running script (call to f_1a31): @user_script:1: @user_script: 1: ";
        for (quoted, code) in [
            ("-OOM command not allowed when used memory > 'maxmemory'.", "OOM"),
            ("-NOREPLICAS Not enough good replicas to write.", "NOREPLICAS"),
            ("-READONLY You can't write against a read only replica.", "READONLY"),
            ("-MISCONF Redis is configured to save RDB snapshots, but ..", "MISCONF"),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGTYPE"),
        ] {
            assert_eq!(found(&format!("{old}{quoted}")).0, code);
            let later =
                format!("{} script: 1a31, on @user_script:1.", quoted.trim_start_matches('-'));
            assert_eq!(found(&later).0, code);
        }
        let forbidden = "The user executing the script can't run this command or subcommand";
        for line in [
            format!("{old}{forbidden}"),
            format!("ERR {forbidden} script: 1a31, on @user_script:1."),
            "ERR ACL failure in script: User u has no permissions to run the 'set' command".into(),
        ] {
            assert_eq!(refusal(&error(&line)).failure, Failure::Forbidden, "{line}");
        }
        let killed = "Script killed by user with SCRIPT KILL...";
        for line in [format!("{old}{killed}"), format!("ERR {killed} script: 4dff")] {
            assert_eq!(refusal(&error(&line)).effect, Effect::None, "{line}");
        }
    }

    #[test]
    fn a_code_in_the_arguments_of_a_command_is_not_an_error_of_that_code() {
        let line = "ERR unknown command 'SET', with args beginning with: -OOM : -READONLY x";
        assert_eq!(found(line), ("ERR", "unknown command"));
    }

    #[test]
    fn without_an_answer_an_effect_is_possible_and_the_connection_is_replaced() {
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let garbage = redis::parse_redis_value(b"?\r\n").unwrap_err();
        for error in [lost, garbage] {
            let Refusal { effect, connection, .. } = refusal(&error);
            assert_eq!((*effect, *connection), (Effect::Possible, Connection::Replaced), "{error}");
        }
    }

    /// The rows of the table in the documentation.
    fn documented() -> Vec<String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redis.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, section) = text.split_once("\n## Errors of servers\n").unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| "));
        rows.skip(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_table_is_the_one_in_the_documentation() {
        let shown = REFUSALS.iter().chain([UNANSWERED]).map(|row| {
            let Refusal { code, says, cause, effect, connection, reads, kind, .. } = row;
            let error = match (*code, *says) {
                ("", _) => "none".to_owned(),
                ("ERR", "") => "`ERR`, or a code that is not here".to_owned(),
                (code, "") => format!("`{code}`"),
                (code, says) => format!("`{code} .. {says}`"),
            };
            let effect = if *effect == Effect::None { "none" } else { "possible" };
            let connection = if *connection == Connection::Kept { "kept" } else { "replaced" };
            let reads = if *reads == Reads::Served { "served" } else { "refused" };
            let operation = "o".into();
            let told =
                crate::Error::from_store(crate::store::StoreError::new(*kind, ""), &operation);
            let told = told.kind();
            format!("| {error} | {cause} | {effect} | {connection} | {reads} | `{told:?}` |")
        });
        let (documented, shown) = (documented(), shown.collect::<Vec<_>>());
        assert_eq!(documented, shown, "docs/redis.md should say:\n{}", shown.join("\n"));
    }
}
