//! `Store::open`, and its errors.

use weft_core::{Error, ErrorKind};
use weft_store::Store;

async fn refusal(url: &str) -> Error {
    Store::open(url).await.expect_err("must be refused")
}

#[tokio::test]
async fn an_unknown_scheme_is_refused_without_the_password() {
    for url in ["oracle://me:s3cret@host/db", "s3cret", ""] {
        let error = refusal(url).await;
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().contains("sqlite:, postgres: or mysql:"), "{}", error.full());
    }
    assert!(!refusal("oracle://me:s3cret@host/db").await.full().contains("s3cret"));
}

#[tokio::test]
async fn a_url_without_a_file_is_refused() {
    for url in ["sqlite:", "sqlite://", "sqlite:a\0b"] {
        let error = refusal(url).await;
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().contains("sqlite:PATH"), "{}", error.full());
    }
}

#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn a_build_without_postgres_gives_a_clear_error() {
    for url in ["postgres://me:s3cret@127.0.0.1/weft", "postgresql://127.0.0.1/weft"] {
        let error = refusal(url).await;
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.full().contains("built without postgres"), "{}", error.full());
        assert!(error.help.is_some());
        assert!(!error.full().contains("s3cret"));
    }
}

#[cfg(not(feature = "mysql"))]
#[tokio::test]
async fn a_build_without_mysql_gives_a_clear_error() {
    for url in ["mysql://127.0.0.1/weft", "mariadb://127.0.0.1/weft"] {
        let error = refusal(url).await;
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.full().contains("built without mysql"), "{}", error.full());
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_server_that_does_not_answer_is_named() {
    // A port that was just free, on which nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refusal(&format!("postgres://me:s3cret@127.0.0.1:{port}/weft")).await;
    assert_eq!(error.kind, ErrorKind::Unavailable, "{}", error.full());
    let told = error.detail();
    assert!(told.contains(&format!("127.0.0.1:{port}/weft")) && !told.contains("s3cret"), "{told}");
    assert!(!error.full().contains("127.0.0.1"), "{}", error.full());
}
