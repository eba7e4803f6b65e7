//! The meaning of SQLite's errors for a verb.
//!
//! Until COMMIT, an error means that there was no effect. One of COMMIT itself is different: the
//! transaction may be in the log of the file although the disk did not confirm it, and a process that
//! reads the log after a crash then finds it.

use super::file::File;
use crate::client::rusqlite::sql_error;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use rusqlite::{Error, ErrorCode};

/// `true` if another connection holds a lock.
pub(super) fn is_busy(error: &Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// `true` if a COMMIT that failed so has certainly not been carried out.
pub(super) fn is_rolled_back(error: &Error) -> bool {
    match error.sqlite_error_code() {
        // The commit is the last thing that is written: there was no room for it.
        Some(ErrorCode::DiskFull) => true,
        // Refused before anything was written.
        Some(
            ErrorCode::ConstraintViolation
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::ReadOnly,
        ) => true,
        _ => false,
    }
}

/// The error of a COMMIT.
pub(super) fn commit_error(error: Error, file: &File) -> StoreError {
    if is_rolled_back(&error) {
        return store_error(error, file);
    }
    let text = format!(
        "SQLite: {error}; the disk may or may not have written the last transaction to `{}`",
        file.path.display()
    );
    StoreError::new(StoreErrorKind::Unavailable, text).with_source(sql_error(error))
}

/// The error of anything else. There was no effect.
pub(super) fn store_error(error: Error, file: &File) -> StoreError {
    let path = file.path.display();
    let table = &file.table.quoted;
    let misconfigured = |text: String| StoreError::new(StoreErrorKind::Misconfigured, text);
    let answer = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            let text = format!(
                "SQLite: no room to write to `{path}`\nhelp: free some space on its disk, or let \
                 records expire earlier"
            );
            StoreError::new(StoreErrorKind::Full, text)
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let text = format!(
                "another connection has locked `{path}` for longer than {:?}\nhelp: keep \
                 transactions on this file short, or raise `patience`",
                file.patience
            );
            StoreError::new(StoreErrorKind::Contended, text)
        }
        Some(ErrorCode::ReadOnly) => read_only(file),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => cannot_open(file),
        Some(ErrorCode::NotADatabase) => misconfigured(format!(
            "`{path}` is not a database of SQLite\nhelp: choose a path where there is no file yet, \
             or a database"
        )),
        Some(ErrorCode::DatabaseCorrupt) => {
            let text = format!(
                "SQLite: `{path}` is damaged: {error}\nhelp: sqlite3 {path} 'PRAGMA \
                 integrity_check', then `.recover` or a copy of yours"
            );
            StoreError::new(StoreErrorKind::Unavailable, text).without_effect()
        }
        _ if is_missing_table(&error) => misconfigured(format!(
            "the table {table} is not in `{path}` any more\nhelp: open the store again, which makes \
             it, or run the statements that `schema()` returns"
        )),
        _ if is_other_table(&error) => another_version(file, &error.to_string()),
        _ => StoreError::new(StoreErrorKind::Unavailable, format!("SQLite: {error} in `{path}`"))
            .without_effect(),
    };
    answer.with_source(sql_error(error))
}

fn is_missing_table(error: &Error) -> bool {
    error.to_string().contains("no such table")
}

fn is_other_table(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("no such column") || text.contains("has no column")
}

/// The table is there, and is not one that this version can use.
pub(super) fn another_version(file: &File, found: &str) -> StoreError {
    let text = format!(
        "the table {} in `{}` is not one of this version: {found}\nhelp: choose another one with \
         `table`, or compare it with the statements that `schema()` returns",
        file.table.quoted,
        file.path.display()
    );
    StoreError::new(StoreErrorKind::Misconfigured, text)
}

pub(super) fn read_only(file: &File) -> StoreError {
    let text = format!(
        "`{}` is read-only\nhelp: let the user of this process write to the file and to its folder, \
         where SQLite keeps two more files beside it",
        file.path.display()
    );
    StoreError::new(StoreErrorKind::Misconfigured, text)
}

fn cannot_open(file: &File) -> StoreError {
    let path = file.path.display();
    let folder = file.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let text = match folder {
        Some(folder) if !folder.is_dir() => {
            let folder = folder.display();
            format!("the folder of `{path}` does not exist\nhelp: mkdir -p {folder}")
        }
        _ if file.path.is_dir() => {
            format!("`{path}` is a folder\nhelp: name a file in it, such as `{path}/records.db`")
        }
        _ => format!(
            "`{path}` cannot be opened\nhelp: let the user of this process read and write the file \
             and its folder"
        ),
    };
    StoreError::new(StoreErrorKind::Misconfigured, text)
}

/// The writer has ended before it answered.
pub(super) fn ended() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the thread that writes to SQLite has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn of(code: i32) -> Error {
        Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_commit_that_failed_is_unknown_unless_it_was_certainly_refused() {
        for code in [
            ffi::SQLITE_FULL,
            ffi::SQLITE_BUSY,
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
            ffi::SQLITE_CONSTRAINT_COMMITHOOK,
            ffi::SQLITE_READONLY,
        ] {
            assert!(is_rolled_back(&of(code)), "{code}");
        }
        for code in [
            ffi::SQLITE_IOERR,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_NOMEM,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_INTERRUPT,
        ] {
            assert!(!is_rolled_back(&of(code)), "{code}");
        }
    }
}
