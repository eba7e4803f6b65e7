//! The instance that attributed functions use: an override of this task, the installed one, or a
//! default one on a memory store.

use crate::engine::{ArcRef, Engine, scoped};
use crate::instance::Idempotency;
use crate::switch::REQUIRE_INSTALLED;
use once_cell::sync::OnceCell;
use std::error::Error as StdError;
use std::fmt;

static PROCESS_WIDE: OnceCell<ProcessWide> = OnceCell::new();

struct ProcessWide {
    instance: Idempotency,
    installed: bool,
}

pub(crate) fn install(instance: Idempotency) -> Result<(), InstallError> {
    let entry = ProcessWide { instance, installed: true };
    match PROCESS_WIDE.try_insert(entry) {
        Ok(_) => Ok(()),
        Err((known, _)) if known.installed => Err(InstallError(Reason::InstalledTwice)),
        Err(_) => Err(InstallError(Reason::DefaultInUse)),
    }
}

/// Fails unless an instance was installed. Call it at startup, so that a service does not run on
/// the embedded memory store by mistake.
///
/// ```
/// use idempotent_runtime::{Idempotency, require_installed};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// Idempotency::in_memory()?.install()?;
/// require_installed()?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// No instance was installed.
pub fn require_installed() -> Result<(), InstallError> {
    match PROCESS_WIDE.get() {
        Some(known) if known.installed => Ok(()),
        _ => Err(InstallError(Reason::NotInstalled)),
    }
}

/// Finds the instance for a call in this task.
pub(crate) fn engine<'a>() -> Result<ArcRef<'a, Engine>, InstallError> {
    if let Some(engine) = scoped::current() {
        return Ok(ArcRef::Owned(engine));
    }
    let known = match PROCESS_WIDE.get() {
        Some(known) => known,
        None => PROCESS_WIDE.get_or_try_init(start_default)?,
    };
    Ok(ArcRef::Borrowed(known.instance.engine()))
}

fn start_default() -> Result<ProcessWide, InstallError> {
    let required = std::env::var(REQUIRE_INSTALLED).is_ok_and(|set| !matches!(&*set, "" | "0"));
    if required {
        return Err(InstallError(Reason::NotInstalled));
    }
    let instance = Idempotency::in_memory()
        .map_err(|error| InstallError(Reason::DefaultFailed(error.to_string())))?;
    tracing::warn!(
        target: "idempotent",
        "no instance is installed: using a memory store that other processes do not see"
    );
    Ok(ProcessWide { instance, installed: false })
}

/// Error of installing an instance, or of requiring one.
#[derive(Debug)]
pub struct InstallError(Reason);

#[derive(Debug)]
enum Reason {
    InstalledTwice,
    DefaultInUse,
    NotInstalled,
    DefaultFailed(String),
}

impl fmt::Display for InstallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::InstalledTwice => formatter.write_str("an instance is installed already"),
            Reason::DefaultInUse => formatter.write_str(
                "an idempotent function was called before `install`, on a memory store of its own; \
                 install first",
            ),
            Reason::NotInstalled => write!(
                formatter,
                "no instance is installed; call `Idempotency::builder()..build()?.install()?` at \
                 the start"
            ),
            Reason::DefaultFailed(error) => formatter.write_str(error),
        }
    }
}

impl StdError for InstallError {}
