//! Certificates are verified; the one of this server is self-signed.

use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use weft_core::seam::Http as _;
use weft_core::{ErrorKind, TenantId};
use weft_net::{AllowList, Outbound, operator_client};

use crate::guard::get;

/// A TLS server with a self-signed certificate; counts the bytes that it receives.
async fn untrusted(tasks: &mut JoinSet<usize>) -> String {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let (connection, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        match TlsAcceptor::from(Arc::new(config)).accept(connection).await {
            Ok(mut secured) => secured.read_to_end(&mut seen).await.unwrap_or(seen.len()),
            Err(_) => 0,
        }
    });
    format!("https://{address}/?key=secret")
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused_before_anything_is_sent() {
    let mut tasks = JoinSet::new();
    let url = untrusted(&mut tasks).await;
    let outbound = Outbound::open(AllowList::parse(["127.0.0.0/8"]).unwrap());
    let error = outbound.send(&TenantId::from("t"), get(&url)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.full().contains("certificate"), "{}", error.full());
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn the_operators_client_also_verifies_certificates() {
    let mut tasks = JoinSet::new();
    let url = untrusted(&mut tasks).await;
    assert!(operator_client().unwrap().get(url).send().await.unwrap_err().is_connect());
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), 0);
}
