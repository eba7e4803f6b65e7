use idempotent_runtime::{Error, idempotent};
use std::path::{Path, PathBuf};

#[idempotent(key = "file")]
async fn import(file: PathBuf) -> Result<(), Error> {
    drop(file);
    Ok(())
}

#[idempotent(key = "import:{file}")]
async fn import_borrowed(file: &Path) -> Result<bool, Error> {
    Ok(file.exists())
}

#[idempotent(key = "files")]
async fn import_all(files: Vec<PathBuf>) -> Result<usize, Error> {
    Ok(files.len())
}

fn main() {}
