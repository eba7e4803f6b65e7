//! Marks: the key of a call, as statements of its body carry it into the database's log.

use idempotent_runtime::current;
use idempotent_runtime::key::RecordKey;

/// The most characters of an operation in a mark.
const LONGEST_OPERATION: usize = 64;

/// The mark of a key: its operation, and its hash as logs and errors of this library show it.
pub(crate) fn mark(key: &RecordKey) -> String {
    // Nothing that could end a comment, or make a line of a log two.
    let plain = |it: char| if it.is_ascii_alphanumeric() || ".:_-".contains(it) { it } else { '_' };
    let operation: String = key.operation().chars().take(LONGEST_OPERATION).map(plain).collect();
    format!("{operation} #{}", key.hashed())
}

/// Appends the key of the running call to a statement, as a comment, so that the database's log tells
/// which call sent it.
///
/// ```
/// # use idempotent_runtime::{Error, Idempotency};
/// use idempotent_sql::marked;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let idem = Idempotency::in_memory()?;
/// let text = idem.operation("payments.charge").key(17).run(async {
///     Ok::<_, Error>(marked("INSERT INTO charges (payment) VALUES ($1)"))
/// });
/// let text = text.await?;
/// assert!(text.starts_with("INSERT INTO charges (payment) VALUES ($1) /* idempotent payments.charge #"));
/// assert_eq!(marked("SELECT 1"), "SELECT 1", "there is no call here");
/// # Ok(()) }
/// ```
///
/// The text differs from call to call, so a database that prepares it prepares it anew each time: mark
/// the statement that stands for the effect, and not every one. sqlx takes the text as
/// `AssertSqlSafe(marked(".."))`; `query(..).persistent(false)` keeps it out of the cache of
/// statements.
pub fn marked(statement: &str) -> String {
    let Some(call) = current() else { return statement.to_owned() };
    let last_line = statement.lines().next_back().unwrap_or_default();
    // Behind a comment that ends with its line, another line begins.
    let between = if last_line.contains("--") { '\n' } else { ' ' };
    format!("{statement}{between}/* idempotent {} */", mark(&RecordKey::from(call.key())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotent_runtime::{Error, Idempotency};

    #[test]
    fn an_operation_cannot_end_the_comment() {
        let key = RecordKey::from("p|a*/; DROP TABLE\n--|42");
        assert_eq!(mark(&key), format!("a__;_DROP_TABLE_-- #{}", key.hashed()).replace(';', "_"));
    }

    #[tokio::test]
    async fn a_mark_is_not_part_of_a_comment_before_it() {
        let idem = Idempotency::in_memory().unwrap();
        let text = idem.operation("op").key(1).run(async {
            Ok::<_, Error>([
                marked("SELECT 1"),
                marked("SELECT 1 -- one"),
                marked("-- one\nSELECT 1"),
            ])
        });
        let [plain, behind, before] = text.await.unwrap();
        assert!(plain.starts_with("SELECT 1 /* idempotent op #"), "{plain}");
        assert!(behind.starts_with("SELECT 1 -- one\n/* idempotent op #"), "{behind}");
        assert!(before.starts_with("-- one\nSELECT 1 /* idempotent op #"), "{before}");
    }
}
