//! One TLS configuration for every client, with one crypto provider. The machine's certificates are read when the first
//! TLS connection is made: a process that only uses plain HTTP never reads them, and one on a machine without any can
//! still start.

use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;
use weft_core::{Error, Result};

/// Returns the shared configuration.
///
/// # Errors
/// `Internal` when the crypto provider offers no TLS version at all.
pub(crate) fn config() -> Result<ClientConfig> {
    verified(shared())
}

/// Returns the shared verifier, so that the machine's certificates are not read again for each client.
fn shared() -> Arc<LateVerifier> {
    static SHARED: LazyLock<Arc<LateVerifier>> = LazyLock::new(|| {
        // Named explicitly: a default provider of the process may be absent, or another one.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Arc::new(LateVerifier { provider, platform: LazyLock::new(platform) })
    });
    let shared: &Arc<LateVerifier> = &SHARED;
    Arc::clone(shared)
}

/// Returns a configuration that also trusts these certificates.
///
/// # Errors
/// As [`config`].
pub(crate) fn config_trusting(certificates: &[CertificateDer<'static>]) -> Result<ClientConfig> {
    if certificates.is_empty() {
        return config();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(certificates.iter().cloned(), provider)
        .map_err(|cause| Error::internal("cannot set up TLS").because(cause))?;
    verified(Arc::new(verifier))
}

fn verified(verifier: Arc<dyn ServerCertVerifier>) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::internal("cannot set up TLS").because(cause))?
        // The only way to set any verifier; this one checks as strictly as the platform does.
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(config)
}

type Platform = Result<Verifier, rustls::Error>;

fn platform() -> Platform {
    Verifier::new(Arc::new(rustls::crypto::ring::default_provider()))
}

#[derive(Debug)]
struct LateVerifier {
    provider: Arc<CryptoProvider>,
    platform: LazyLock<Platform>,
}

impl ServerCertVerifier for LateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let platform = self.platform.as_ref().map_err(Clone::clone)?;
        platform.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clients_share_the_system_certificates() {
        assert!(Arc::ptr_eq(&shared(), &shared()));
    }
}
