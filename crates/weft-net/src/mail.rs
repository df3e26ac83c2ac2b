//! Submits mail over SMTP, to addresses that were checked.
//!
//! Until the server has been sent the whole text, an error means that nothing was submitted. After that only its reply
//! counts: without one the outcome is unknown, and nothing is sent again.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use lettre::address::Envelope;
use lettre::message::header::MessageId;
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, Message};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use weft_core::seam::Mailer;
use weft_core::seam::mailer::{Mail, MailServer};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

use crate::outbound::Outbound;
use crate::tls;

/// The port for implicit TLS.
const IMPLICIT_TLS: u16 = 465;
/// Time limit for a server's greeting. A server that expects implicit TLS never sends one.
// Servers that delay clients to deter spam do so for up to half a minute.
const GREETING_LIMIT: Duration = Duration::from_secs(30);
/// Maximum number of bytes that a server may send in one conversation. The client parses a multi-line reply again for
/// each of its lines.
const SAID_MAX: usize = 64 * 1024;
/// Maximum number of recipients of a mail.
// Every server accepts as many (RFC 5321, section 4.5.3.1.8).
const RECIPIENTS_MAX: usize = 100;
/// The name by which this program identifies itself to servers: the literal that RFC 5321 defines for clients without a
/// name.
const HELLO: &str = "[127.0.0.1]";

/// Submits mail over SMTP.
#[derive(Debug)]
pub struct SmtpMailer {
    outbound: Arc<Outbound>,
    trusted: Vec<CertificateDer<'static>>,
}

impl SmtpMailer {
    /// Creates a mailer that connects to servers through `outbound`, and verifies them against the machine's
    /// certificates.
    pub fn new(outbound: Arc<Outbound>) -> Self {
        Self { outbound, trusted: Vec::new() }
    }

    /// Also trusts these certificates.
    #[must_use]
    pub fn trusting(self, certificates: Vec<CertificateDer<'static>>) -> Self {
        Self { trusted: certificates, ..self }
    }

    /// Submits a mail; `given` is set before its text is sent.
    async fn handed_in(&self, mail: &Mail, given: &AtomicBool) -> Result<()> {
        let (envelope, text) = written(mail)?;
        let mut connection = self.connected(&mail.server).await?;
        let handed_in = match prepared(&mut connection, &mail.server, &envelope).await {
            Ok(()) => {
                // Set before the text is sent: if the time limit ends this future in the middle, the outcome is
                // unknown.
                given.store(true, Ordering::Relaxed);
                hand_in(&mut connection, &mail.server, &text).await
            }
            Err(error) => Err(error),
        };
        if handed_in.is_ok() {
            // The mail has been accepted, whatever the server replies to QUIT.
            let _ = connection.quit().await;
        }
        handed_in
    }

    async fn connected(&self, server: &MailServer) -> Result<AsyncSmtpConnection> {
        let stream = self.outbound.connect(&server.host, server.port).await?;
        let hello = ClientId::Domain(HELLO.to_owned());
        let failed = |cause: SmtpError| unavailable(&server.host, answer(&cause));
        // The port decides, because a server that expects implicit TLS says nothing that could tell it from others.
        if server.port == IMPLICIT_TLS {
            let config = tls::config_trusting(&self.trusted)?;
            let name = ServerName::try_from(server.host.clone())
                .map_err(|cause| Error::invalid("the name of the mail server is not valid").because(cause))?;
            let secured = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await;
            let secured = secured.map_err(|cause| unavailable(&server.host, reason(&cause)))?;
            let stream = Box::new(Bounded::new(secured));
            return AsyncSmtpConnection::connect_with_transport(stream, &hello).await.map_err(failed);
        }
        greeted(&stream, server).await?;
        let stream = Box::new(Bounded::new(stream));
        let mut connection =
            AsyncSmtpConnection::connect_with_transport(stream, &hello).await.map_err(failed)?;
        if connection.can_starttls() {
            let mut parameters = TlsParameters::builder(server.host.clone());
            for certificate in &self.trusted {
                let certificate = Certificate::from_der(certificate.to_vec()).map_err(failed)?;
                parameters = parameters.add_root_certificate(certificate);
            }
            connection.starttls(parameters.build().map_err(failed)?, &hello).await.map_err(failed)?;
        } else if !server.user.is_empty() {
            let message = format!("`{}` offers no encryption, so the password is not sent", server.host);
            return Err(Error::new(ErrorKind::Denied, message)
                .help("use a server with TLS, usually at port 465 or 587"));
        }
        Ok(connection)
    }
}

/// Waits until a server sends something or closes the connection, without consuming anything.
async fn greeted(stream: &TcpStream, server: &MailServer) -> Result<()> {
    let first = tokio::time::timeout(GREETING_LIMIT, stream.peek(&mut [0])).await;
    first.map(drop).map_err(|_| {
        let (MailServer { host, port, .. }, seconds) = (server, GREETING_LIMIT.as_secs());
        let message = format!("the mail server `{host}` does not respond at port {port} within {seconds} s");
        Error::new(ErrorKind::Unavailable, message).help(format!(
            "it may expect implicit TLS, which is used at port {IMPLICIT_TLS} only: use that port, or one with \
             STARTTLS, usually 587"
        ))
    })
}

/// Identifies the client and the recipients of a mail, up to the point where its text follows.
async fn prepared(
    connection: &mut AsyncSmtpConnection,
    server: &MailServer,
    envelope: &Envelope,
) -> Result<()> {
    if !server.user.is_empty() {
        let credentials = Credentials::new(server.user.clone(), server.password.reveal().to_owned());
        // XOAUTH2 is left out: it needs a token instead of a password.
        let mechanisms = [Mechanism::Plain, Mechanism::Login];
        connection.auth(&mechanisms, &credentials).await.map_err(|cause| {
            if cause.is_permanent() {
                Error::new(
                    ErrorKind::Unauthenticated,
                    format!("the mail server `{}` rejects the user", server.host),
                )
                .help("check the user and the password; many servers require an app password")
                .because(answer(&cause))
            } else {
                refused(server, &cause)
            }
        })?;
    }
    let step = |cause: SmtpError| refused(server, &cause);
    connection.command(MailFrom::new(envelope.from().cloned(), Vec::new())).await.map_err(step)?;
    // One refused recipient refuses the whole mail: nobody then receives it twice when it is corrected.
    for recipient in envelope.to() {
        connection.command(Rcpt::new(recipient.clone(), Vec::new())).await.map_err(|cause| {
            let error = refused(server, &cause);
            Error { message: format!("{}: {recipient}", error.message), ..error }
        })?;
    }
    connection.command(Data).await.map_err(step).map(drop)
}

async fn hand_in(connection: &mut AsyncSmtpConnection, server: &MailServer, text: &[u8]) -> Result<()> {
    let taken = connection.message(text).await;
    taken.map(drop).map_err(|cause| match cause.status() {
        Some(_) => refused(server, &cause),
        None => Error::new(
            ErrorKind::Interrupted,
            format!("`{}` received the mail but did not confirm that it was accepted", server.host),
        )
        .help("check whether it has arrived, and send it again if it has not")
        .because(reason(&cause)),
    })
}

/// Returns the error for a server's refusal, or its silence, before it was sent the text.
fn refused(server: &MailServer, cause: &SmtpError) -> Error {
    if cause.is_permanent() {
        Error::invalid(format!("the mail server `{}` does not accept the mail", server.host))
            .because(answer(cause))
    } else {
        unavailable(&server.host, answer(cause))
    }
}

fn unavailable(host: &str, why: String) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the mail was not submitted to `{host}`")).because(why)
}

/// Returns what a server said, after its reply code; otherwise why there is no reply.
fn answer(cause: &SmtpError) -> String {
    match cause.status() {
        Some(code) if std::error::Error::source(cause).is_some() => format!("{code} {}", reason(cause)),
        _ => reason(cause),
    }
}

/// Returns only the root cause: each error of the library repeats that of its cause.
fn reason(cause: &(dyn std::error::Error + 'static)) -> String {
    let mut first = cause;
    while let Some(before) = first.source() {
        first = before;
    }
    first.to_string()
}

/// Returns the envelope of a mail, and its text as it is sent over the connection.
fn written(mail: &Mail) -> Result<(Envelope, Vec<u8>)> {
    let address = |text: &String| -> Result<Mailbox> {
        // A line break would begin another header.
        let parsed =
            if text.contains(|c: char| c.is_control()) { None } else { text.trim().parse::<Mailbox>().ok() };
        // Other letters need the extension SMTPUTF8 (RFC 6531), which is not requested.
        let mailbox = parsed.filter(|mailbox| AsRef::<str>::as_ref(&mailbox.email).is_ascii());
        mailbox.ok_or_else(|| {
            Error::invalid(format!("{text:?} is not a valid e-mail address"))
                .help("write it as `name@example.org`")
        })
    };
    if mail.to.len() + mail.cc.len() > RECIPIENTS_MAX {
        return Err(Error::invalid(format!("a mail can have at most {RECIPIENTS_MAX} recipients")));
    }
    let sender = address(&mail.from.1)?;
    let name = Some(one_line(&mail.from.0)).filter(|name| !name.is_empty());
    // The same when it is submitted again, so that a recipient of both can recognise the duplicate.
    let id = format!("<{}@{}>", mail.id, sender.email.domain());
    let from = Mailbox::new(name.or(sender.name), sender.email);
    let mut message = Message::builder().from(from.clone()).subject(one_line(&mail.subject));
    let mut recipients: Vec<Address> = Vec::new();
    for text in &mail.to {
        let mailbox = address(text)?;
        recipients.push(mailbox.email.clone());
        message = message.to(mailbox);
    }
    for text in &mail.cc {
        let mailbox = address(text)?;
        recipients.push(mailbox.email.clone());
        message = message.cc(mailbox);
    }
    let unsendable =
        |cause: lettre::error::Error| Error::invalid("the mail cannot be written").because(cause);
    let body = MultiPart::alternative_plain_html(mail.text.clone(), mail.html.clone());
    let message = message.header(MessageId::from(id)).date_now().multipart(body).map_err(unsendable)?;
    let envelope = Envelope::new(Some(from.email), recipients).map_err(unsendable)?;
    Ok((envelope, message.formatted()))
}

/// Replaces control characters, so that a text cannot end a header.
fn one_line(text: &str) -> String {
    text.split(char::is_control).collect::<Vec<_>>().join(" ").trim().to_owned()
}

#[async_trait]
impl Mailer for SmtpMailer {
    async fn send(&self, _tenant: &TenantId, mail: Mail) -> Result<()> {
        let given = AtomicBool::new(false);
        let handed_in = tokio::time::timeout(mail.time_limit, self.handed_in(&mail, &given)).await;
        handed_in.unwrap_or_else(|_| {
            let seconds = mail.time_limit.as_secs_f64();
            if !given.load(Ordering::Relaxed) {
                let host = &mail.server.host;
                let message =
                    format!("the mail server `{host}` was not ready for the mail within {seconds} s");
                return Err(Error::new(ErrorKind::Unavailable, message).help("nothing was sent: try again"));
            }
            // It may already have been sent.
            Err(Error::new(
                ErrorKind::Interrupted,
                format!(
                    "the mail server `{}` has not accepted the mail within {seconds} s",
                    mail.server.host
                ),
            )
            .help("check whether it has arrived, and send it again if it has not"))
        })
    }
}

/// A connection that limits how much a server may send.
#[derive(Debug)]
struct Bounded<S> {
    stream: S,
    left: usize,
}

impl<S> Bounded<S> {
    fn new(stream: S) -> Self {
        Self { stream, left: SAID_MAX }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(std::io::Error::other("the server sends too much data")));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        // A single read is bounded by the size of the reader's buffer.
        self.left = self.left.saturating_sub(buf.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl AsyncTokioStream for Bounded<TcpStream> {
    fn peer_addr(&self) -> std::io::Result<std::net::SocketAddr> {
        self.stream.peer_addr()
    }
}

impl AsyncTokioStream for Bounded<tokio_rustls::client::TlsStream<TcpStream>> {
    fn peer_addr(&self) -> std::io::Result<std::net::SocketAddr> {
        self.stream.get_ref().0.peer_addr()
    }
}
