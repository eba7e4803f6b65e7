//! Payloads that must not change under one key.

use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Error, ErrorKind, idempotent};
use support::both;

#[idempotent(key = "id", fingerprint = "note", mode = "strong", name = "payloads.one")]
async fn with_one(id: u64, note: Option<&str>) -> Result<u64, Error> {
    Ok(id + note.map_or(0, |note| note.len() as u64))
}

#[idempotent(key = "id", fingerprint = "(id, note)", mode = "strong", name = "payloads.several")]
async fn with_several(id: u64, note: Option<&str>) -> Result<u64, Error> {
    Ok(id + note.map_or(0, |note| note.len() as u64))
}

#[tokio::test]
async fn a_payload_without_a_value_is_one_of_its_own() {
    let notes = [None, Some(""), Some("?"), Some("None"), Some("x")];
    for bench in both() {
        scoped(bench.idem.clone(), async {
            for (id, first) in (0..).zip(notes) {
                let answer = with_one(id, first).await.unwrap();
                with_several(id, first).await.unwrap();
                for note in notes {
                    for repeat in [with_one(id, note).await, with_several(id, note).await] {
                        match note == first {
                            true => assert_eq!(repeat.unwrap(), answer),
                            false => assert_eq!(repeat.unwrap_err().kind(), ErrorKind::Mismatch),
                        }
                    }
                }
            }
        })
        .await;
    }
}
