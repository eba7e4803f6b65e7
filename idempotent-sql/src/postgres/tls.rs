//! Encrypted connections, with rustls.

use idempotent_runtime::store::{StoreError, StoreErrorKind};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Encryption with these authorities, or those of the system.
pub(super) fn connector(pem: Option<&[u8]>) -> Result<MakeRustlsConnect, StoreError> {
    let mut roots = RootCertStore::empty();
    match pem {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let added = certificate.ok().and_then(|it| roots.add(it).ok());
                added.ok_or_else(|| invalid("the root certificate is not one in PEM"))?;
            }
            if roots.is_empty() {
                return Err(invalid("the root certificate is not one in PEM"));
            }
        }
        None => {
            let native = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(native.certs);
            if roots.is_empty() {
                return Err(invalid(
                    "the system has no certificate authorities\nhelp: give one with \
                     `root_certificate`",
                ));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(&error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn invalid(text: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, text)
}
