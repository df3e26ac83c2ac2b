//! E-mail on behalf of a canvas.

use std::fmt;
use std::time::Duration;

use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;
use crate::secret::Secret;

/// The server that accepts mail.
#[derive(Clone, Debug, PartialEq)]
pub struct MailServer {
    /// Its host name.
    pub host: String,
    /// Port 465 uses TLS from the start; any other port uses `STARTTLS`.
    pub port: u16,
    /// The user name; empty to send without authentication.
    pub user: String,
    /// The user's password.
    pub password: Secret,
}

/// An e-mail.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    /// The server to submit it to.
    pub server: MailServer,
    /// The sender: display name and address.
    pub from: (String, String),
    /// The recipients: addresses, with or without a display name.
    pub to: Vec<String>,
    /// The recipients of a copy.
    pub cc: Vec<String>,
    /// The subject.
    pub subject: String,
    /// The text as HTML.
    pub html: String,
    /// The text without markup.
    pub text: String,
    /// The message id: letters, digits, `-` and `.`. It stays the same when the mail is submitted again.
    pub id: String,
    /// Time limit for the whole exchange.
    pub time_limit: Duration,
}

/// The only way to mail servers.
///
/// An implementation connects only to addresses that canvases may reach, sends passwords only over encrypted
/// connections, and never submits a mail again that a server has accepted.
#[async_trait]
pub trait Mailer: Send + Sync + fmt::Debug {
    /// Submits a mail.
    ///
    /// # Errors
    /// `Invalid` for an invalid address, `Denied` for a server that must not be reached, `Unauthenticated` when it
    /// rejects the user, `Unavailable` when nothing was submitted and it may be tried again, `Interrupted` when the
    /// connection ended before the server said whether it accepted the mail, `Upstream` when it rejects the mail.
    async fn send(&self, tenant: &TenantId, mail: Mail) -> Result<()>;
}

/// There is no mail server.
#[derive(Clone, Copy, Debug)]
pub struct NoMailer;

#[async_trait]
impl Mailer for NoMailer {
    async fn send(&self, _: &TenantId, _: Mail) -> Result<()> {
        Err(Error::new(ErrorKind::Denied, "sending mail is not configured"))
    }
}
