//! Where databases may be. Refused addresses are never connected to.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weft_core::ErrorKind;
use weft_core::seam::Databases as _;
use weft_core::seam::databases::{Database, DatabaseKind, SqlPart, SqlRequest, TlsMode};
use weft_core::secret::Secret;
use weft_net::{AllowList, DirectConnector, Outbound, Resolver};
use weft_sql::{DatabaseClients, OwnDatabase};

struct Inside;

#[weft_core::async_trait]
impl Resolver for Inside {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        match host {
            "inside.example" => Ok(vec!["10.1.2.3".parse().unwrap()]),
            "mixed.example" => Ok(vec!["93.184.216.34".parse().unwrap(), "127.0.0.1".parse().unwrap()]),
            _ => Err(std::io::Error::other("no such name")),
        }
    }
}

fn clients(allowed: &[&str], own: Option<OwnDatabase>) -> DatabaseClients {
    let allowed = AllowList::parse(allowed).unwrap();
    let outbound = Outbound::new(allowed, Arc::new(Inside), Arc::new(DirectConnector::default()));
    DatabaseClients::new(Arc::new(outbound), Arc::new(|_| None), own)
}

fn request(host: &str, port: u16) -> SqlRequest {
    let database = Database {
        kind: DatabaseKind::Postgres,
        host: host.to_owned(),
        port,
        name: "d".to_owned(),
        user: "u".to_owned(),
        password: Secret::new("secret-word"),
        tls: TlsMode::default(),
    };
    let sql = vec![SqlPart::Text("SELECT 1".to_owned())];
    SqlRequest { database, sql, rows_max: 1, bytes_max: 1_000, time_limit: Duration::from_secs(5) }
}

#[tokio::test]
async fn private_addresses_of_databases_are_refused() {
    let clients = clients(&[], None);
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "[::1]",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "0.0.0.0",
        "inside.example",
        "mixed.example",
    ] {
        let error = clients.ask(&"t".into(), request(host, 5432)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{host}: {}", error.full());
        assert!(!error.full().contains("secret-word"));
    }
    for host in ["", "a b", "user@host", "/tmp/socket", "unknown.example"] {
        let error = clients.ask(&"t".into(), request(host, 5432)).await.unwrap_err();
        assert!(
            matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unavailable),
            "{host}: {}",
            error.full()
        );
    }
}

#[tokio::test]
async fn the_database_of_weft_itself_is_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let clients = clients(&["127.0.0.1"], Some(OwnDatabase { host: "localhost".to_owned(), port }));
    for host in ["127.0.0.1", "::ffff:127.0.0.1"] {
        let error = clients.ask(&"t".into(), request(host, port)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{host}: {}", error.full());
        assert!(error.full().contains("own database"), "{host}: {}", error.full());
    }
}

/// A name that leads elsewhere each time it is looked up.
struct Rebound(Arc<AtomicUsize>);

#[weft_core::async_trait]
impl Resolver for Rebound {
    async fn resolve(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        let ip = if self.0.fetch_add(1, Ordering::Relaxed) == 0 { "127.0.0.1" } else { "10.9.9.9" };
        Ok(vec![ip.parse().unwrap()])
    }
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_checked() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = tokio::task::JoinSet::new();
    server.spawn(async move { drop(listener.accept().await) });
    let looked_up = Arc::new(AtomicUsize::new(0));
    let allowed = AllowList::parse(["127.0.0.1"]).unwrap();
    let resolver = Arc::new(Rebound(Arc::clone(&looked_up)));
    let outbound = Outbound::new(allowed, resolver, Arc::new(DirectConnector::default()));
    // At the same port, so that the addresses are compared.
    let own = Some(OwnDatabase { host: "192.0.2.1".to_owned(), port });
    let clients = DatabaseClients::new(Arc::new(outbound), Arc::new(|_| None), own);
    let error = clients.ask(&"t".into(), request("db.example", port)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{}", error.full());
    assert_eq!(looked_up.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_silent_server_and_a_slow_query_give_different_errors() {
    // The system accepts connections, but the test never does.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let clients = clients(&["127.0.0.1"], None);
    for kind in [DatabaseKind::Postgres, DatabaseKind::MySql] {
        let mut asked = request("127.0.0.1", port);
        asked.database.kind = kind;
        asked.time_limit = Duration::from_secs(6);
        let error = clients.ask(&"t".into(), asked).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{kind:?}: {}", error.full());
        assert!(error.full().contains("within 1.5 s") && error.full().contains("`port`"), "{}", error.full());
    }
}

#[tokio::test]
async fn an_endless_server_message_is_refused() {
    use tokio::io::AsyncWriteExt as _;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = tokio::task::JoinSet::new();
    server.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // No TLS; then a message that claims a gigabyte and never ends.
        let _ = stream.write_all(b"NR\x3f\xff\xff\xff").await;
        while stream.write_all(&[0; 65_536]).await.is_ok() {}
    });
    let clients = clients(&["127.0.0.1"], None);
    let error = clients.ask(&"t".into(), request("127.0.0.1", port)).await.unwrap_err();
    assert!(error.full().contains("more than 1000 bytes"), "{}", error.full());
}

/// Whether a client first asks a PostgreSQL server for TLS, and whether it signs in when the server has none.
async fn signed_in_without_tls(tls: TlsMode) -> (bool, bool) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = tokio::task::JoinSet::new();
    server.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0; 8];
        stream.read_exact(&mut first).await.unwrap();
        // A length, and the number that asks for TLS.
        let asks = first == *b"\0\0\0\x08\x04\xd2\x16\x2f";
        stream.write_all(b"N").await.unwrap();
        let more = stream.read(&mut [0; 64]).await.unwrap_or_default();
        (asks, more > 0)
    });
    let mut asked = request("127.0.0.1", port);
    asked.database.tls = tls;
    let error = clients(&["127.0.0.1"], None).ask(&"t".into(), asked).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{tls:?}: {}", error.full());
    server.join_next().await.unwrap().unwrap()
}

#[tokio::test]
async fn required_encryption_is_not_left_out() {
    for (tls, expected) in [
        (TlsMode::Disable, (false, true)),
        (TlsMode::Prefer, (true, true)),
        (TlsMode::Require, (true, false)),
        (TlsMode::VerifyFull, (true, false)),
    ] {
        assert_eq!(signed_in_without_tls(tls).await, expected, "{tls:?}");
    }
}
