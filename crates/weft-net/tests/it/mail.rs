//! Sending mail through a server that records what it receives.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use weft_core::seam::Mailer as _;
use weft_core::seam::mailer::{Mail, MailServer};
use weft_core::secret::Secret;
use weft_core::{ErrorKind, Result};
use weft_net::{AllowList, Outbound, SmtpMailer};

/// How the server behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Manner {
    starttls: bool,
    refuses_user: bool,
    refuses_recipient: bool,
    /// Receives the whole text and closes the connection without an answer.
    falls_silent: bool,
    /// Stops answering when it receives this command; `.` is the end of the text.
    stops_at: &'static str,
    floods: bool,
}

struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    certificate: CertificateDer<'static>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(manner: Manner) -> Self {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = own.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&heard);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                if stream.write_all(b"220 here\r\n").await.is_err() {
                    continue;
                }
                let Some(plain) = talk(stream, (manner, false), &notes).await else { continue };
                if let Ok(secured) = acceptor.accept(plain).await {
                    talk(secured, (manner, true), &notes).await;
                }
            }
        });
        Self { port, heard, certificate, _tasks: tasks }
    }

    fn mailer(&self) -> SmtpMailer {
        let outbound = Outbound::open(AllowList::parse(["localhost"]).unwrap());
        SmtpMailer::new(Arc::new(outbound)).trusting(vec![self.certificate.clone()])
    }

    async fn send(&self, mail: Mail) -> Result<()> {
        self.mailer().send(&"t".into(), mail).await
    }

    fn heard(&self) -> String {
        self.heard.lock().unwrap().join("\n")
    }
}

/// One conversation; returns the connection when the client wants to continue with TLS.
async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    (manner, secured): (Manner, bool),
    heard: &Mutex<Vec<String>>,
) -> Option<S> {
    let mut stream = BufReader::new(stream);
    let mut in_text = false;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let said = line.trim_end().to_owned();
        heard.lock().unwrap().push(said.clone());
        if in_text {
            if said != "." {
                continue;
            }
            in_text = false;
            if manner.stops_at == "." {
                std::future::pending::<()>().await;
            }
            if manner.falls_silent {
                return None;
            }
            stream.get_mut().write_all(b"250 taken\r\n").await.ok()?;
            continue;
        }
        let verb = said.split([' ', ':']).next().unwrap_or_default().to_uppercase();
        if verb == manner.stops_at {
            std::future::pending::<()>().await;
        }
        let answer: &[u8] = match verb.as_str() {
            "EHLO" if manner.floods => {
                while stream
                    .get_mut()
                    .write_all(b"250-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n")
                    .await
                    .is_ok()
                {}
                return None;
            }
            "EHLO" if manner.starttls && !secured => b"250-here\r\n250 STARTTLS\r\n",
            "EHLO" if secured => b"250-here\r\n250 AUTH PLAIN LOGIN\r\n",
            "EHLO" => b"250 here\r\n",
            "STARTTLS" => {
                stream.get_mut().write_all(b"220 go on\r\n").await.ok()?;
                return Some(stream.into_inner());
            }
            "AUTH" if manner.refuses_user => b"535 no\r\n",
            "AUTH" => b"235 welcome\r\n",
            "RCPT" if manner.refuses_recipient => b"550 nobody here\r\n",
            "DATA" => {
                in_text = true;
                b"354 go on\r\n"
            }
            "QUIT" => b"221 bye\r\n",
            _ => b"250 fine\r\n",
        };
        stream.get_mut().write_all(answer).await.ok()?;
    }
}

fn mail(server: &Server, user: &str) -> Mail {
    let host = "localhost".to_owned();
    Mail {
        server: MailServer {
            host,
            port: server.port,
            user: user.to_owned(),
            password: Secret::new("pass-word"),
        },
        from: ("Weft 汉\r\nBcc: evil@example.org".to_owned(), "weft@example.org".to_owned()),
        to: vec!["Ada <ada@example.org>".to_owned()],
        cc: vec!["grace@example.org".to_owned()],
        subject: "Hello\r\nBcc: evil@example.org".to_owned(),
        html: "<p>Grüße</p>\n.\n<p>2</p>".to_owned(),
        text: "Grüße".to_owned(),
        id: "run-1".to_owned(),
        time_limit: Duration::from_secs(10),
    }
}

#[tokio::test]
async fn a_mail_is_sent_encrypted() {
    let server = Server::start(Manner { starttls: true, ..Manner::default() }).await;
    server.send(mail(&server, "weft")).await.unwrap();
    let heard = server.heard();
    for part in [
        "STARTTLS",
        "AUTH PLAIN",
        "MAIL FROM:<weft@example.org>",
        "RCPT TO:<ada@example.org>",
        "RCPT TO:<grace@example.org>",
        "Message-ID: <run-1@example.org>",
        "To: Ada <ada@example.org>",
        "multipart/alternative",
        "text/html",
        "QUIT",
    ] {
        assert!(heard.contains(part), "{part}:\n{heard}");
    }
    assert!(!heard.lines().any(|line| line.starts_with("Bcc") || line.contains("RCPT TO:<evil")), "{heard}");
    let (before, _) = heard.split_once("STARTTLS").unwrap();
    assert!(!before.contains("AUTH") && !before.contains("MAIL"));
}

#[tokio::test]
async fn a_password_is_not_sent_without_encryption() {
    let server = Server::start(Manner::default()).await;
    let error = server.send(mail(&server, "weft")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{}", error.full());
    assert!(!server.heard().contains("AUTH"));
    server.send(mail(&server, "")).await.unwrap();
    assert!(server.heard().contains("RCPT"));
}

#[tokio::test]
async fn an_untrusted_mail_server_is_refused() {
    let server = Server::start(Manner { starttls: true, ..Manner::default() }).await;
    let outbound = Outbound::open(AllowList::parse(["localhost"]).unwrap());
    let error =
        SmtpMailer::new(Arc::new(outbound)).send(&"t".into(), mail(&server, "weft")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{}", error.full());
    assert!(!server.heard().contains("AUTH"));
}

#[tokio::test]
async fn the_error_tells_whether_the_mail_may_be_sent_again() {
    let check = async |manner: Manner, kind: ErrorKind| {
        let server = Server::start(Manner { starttls: true, ..manner }).await;
        let error = server.send(mail(&server, "weft")).await.unwrap_err();
        assert_eq!(error.kind, kind, "{manner:?}: {}", error.full());
        assert!(!error.full().contains("pass-word"));
    };
    check(Manner { refuses_user: true, ..Manner::default() }, ErrorKind::Unauthenticated).await;
    check(Manner { refuses_recipient: true, ..Manner::default() }, ErrorKind::Invalid).await;
    check(Manner { falls_silent: true, ..Manner::default() }, ErrorKind::Interrupted).await;
    check(Manner { floods: true, ..Manner::default() }, ErrorKind::Unavailable).await;
    // What the server never received cannot have been delivered.
    for (stops_at, kind) in
        [("MAIL", ErrorKind::Unavailable), ("DATA", ErrorKind::Unavailable), (".", ErrorKind::Interrupted)]
    {
        let server = Server::start(Manner { stops_at, ..Manner::default() }).await;
        let mail = Mail { time_limit: Duration::from_millis(500), ..mail(&server, "") };
        let error = server.send(mail).await.unwrap_err();
        assert_eq!(error.kind, kind, "{stops_at}: {}", error.full());
    }
}

/// A server that expects TLS from the first byte waits for the client to begin.
#[tokio::test]
async fn a_server_that_never_greets_times_out_and_the_error_names_the_tls_port() {
    let server = Server::start(Manner::default()).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut mail = Mail { time_limit: Duration::from_secs(60), ..mail(&server, "weft") };
    mail.server.port = silent.local_addr().unwrap().port();
    let accepted = async {
        let (stream, _) = silent.accept().await.unwrap();
        // From here on only time passes.
        tokio::time::pause();
        (stream, tokio::time::Instant::now())
    };
    let (sent, (_stream, since)) = futures::future::join(server.send(mail), accepted).await;
    let error = sent.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{}", error.full());
    assert!(error.full().contains("implicit TLS") && error.full().contains("465"), "{}", error.full());
    assert!(since.elapsed() < Duration::from_secs(40), "{:?}", since.elapsed());
}

#[tokio::test]
async fn an_error_repeats_the_servers_message_once() {
    let server = Server::start(Manner { refuses_recipient: true, ..Manner::default() }).await;
    let said = server.send(mail(&server, "")).await.unwrap_err().full();
    assert_eq!((said.matches("nobody here").count(), said.matches("550").count()), (1, 1), "{said}");
    let server = Server::start(Manner { floods: true, ..Manner::default() }).await;
    let said = server.send(mail(&server, "")).await.unwrap_err().full();
    let parts: Vec<&str> = said.split(": ").collect();
    assert!((1..parts.len()).all(|at| parts[at] != parts[at - 1]), "{said}");
}

#[tokio::test]
async fn invalid_addresses_are_refused_before_connecting() {
    let server = Server::start(Manner::default()).await;
    for bad in ["", "ada", "a@b@c", "ada@example.org\r\nRCPT TO:<evil@example.org>", "<x>", "a@exa mple.org"]
    {
        let error = server.send(Mail { to: vec![bad.to_owned()], ..mail(&server, "") }).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{bad}: {}", error.full());
    }
    let many = vec!["a@example.org".to_owned(); 101];
    assert_eq!(
        server.send(Mail { to: many, ..mail(&server, "") }).await.unwrap_err().kind,
        ErrorKind::Invalid
    );
    assert_eq!(server.heard(), "");
}

#[tokio::test]
async fn mail_servers_at_private_addresses_are_refused() {
    let server = Server::start(Manner::default()).await;
    let outbound = Arc::new(Outbound::open(AllowList::parse(Vec::<String>::new()).unwrap()));
    for host in ["localhost", "127.0.0.1", "[::1]", "2130706433", "169.254.169.254"] {
        let mut mail = mail(&server, "");
        mail.server.host = host.to_owned();
        let error = SmtpMailer::new(Arc::clone(&outbound)).send(&"t".into(), mail).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{host}: {}", error.full());
    }
    assert_eq!(server.heard(), "");
}
