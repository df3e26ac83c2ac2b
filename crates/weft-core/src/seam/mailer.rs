//! E-mail on behalf of a canvas.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;
use crate::secret::Secret;

/// The server that takes mail.
#[derive(Clone, Debug, PartialEq)]
pub struct MailServer {
    /// Its name.
    pub host: String,
    /// 465 for TLS from the first byte on, any other for TLS by `STARTTLS`.
    pub port: u16,
    /// Who sends; empty to send without signing in.
    pub user: String,
    /// How the server knows that it is them.
    pub password: Secret,
}

/// An e-mail.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    /// Where it is handed in.
    pub server: MailServer,
    /// The sender: display name and address.
    pub from: (String, String),
    /// Addresses, with or without a display name.
    pub to: Vec<String>,
    /// Who gets a copy.
    pub cc: Vec<String>,
    /// The subject.
    pub subject: String,
    /// The text as HTML.
    pub html: String,
    /// The same without markup.
    pub text: String,
    /// What names this mail wherever it goes: letters, digits, `-` and `.`. The same when it is handed in again.
    pub id: String,
    /// For everything.
    pub time_limit: Duration,
}

/// The one way to servers of mail.
///
/// An implementation connects to addresses only that canvases may reach, hands over passwords on encrypted
/// connections only, and never hands in a mail twice that a server has taken.
#[async_trait]
pub trait Mailer: Send + Sync + fmt::Debug {
    /// Hands in a mail.
    ///
    /// # Errors
    /// `Invalid` for an address that is none, `Denied` for a server that may not be reached, `Unauthenticated` when it
    /// refuses the user, `Unavailable` when nothing was handed in and it may be tried again, `Interrupted` when the
    /// connection ended before the server said whether it has taken the mail, `Upstream` when it does not take it.
    async fn send(&self, tenant: &TenantId, mail: Mail) -> Result<()>;
}

/// Nobody takes mail.
#[derive(Clone, Copy, Debug)]
pub struct NoMailer;

#[async_trait]
impl Mailer for NoMailer {
    async fn send(&self, _: &TenantId, _: Mail) -> Result<()> {
        Err(Error::new(ErrorKind::Denied, "no mail can be sent here"))
    }
}
