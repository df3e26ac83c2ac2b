//! Errors: what went wrong, of which kind it is, and what to do about it.

use std::time::Duration;

/// The result of any operation that crosses a seam.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, for callers to branch on. The message is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The caller's input is wrong; the same call fails again.
    Invalid,
    /// It does not exist, or not for this caller.
    NotFound,
    /// It was changed concurrently, or it is in use.
    Conflict,
    /// The caller is authenticated but not allowed to do this.
    Denied,
    /// A credential is missing or wrong.
    Unauthenticated,
    /// Too many calls; retry later.
    RateLimited,
    /// Paid quota or a budget is used up.
    QuotaExceeded,
    /// A content filter refused it.
    Filtered,
    /// It took longer than its limit.
    Timeout,
    /// The remote side cannot be reached or returns a server error.
    Unavailable,
    /// The remote side returned something invalid.
    Garbled,
    /// Its cancellation was requested.
    Cancelled,
    /// The work was interrupted by a stop of the process and must not be repeated.
    Interrupted,
    /// Known, but not part of this build.
    Unsupported,
    /// A bug in our code, or a problem of the machine (disk full, memory).
    Internal,
}

impl ErrorKind {
    /// Returns whether the same call may succeed when it is repeated a little later.
    pub fn is_passing(self) -> bool {
        matches!(self, Self::RateLimited | Self::Timeout | Self::Unavailable)
    }

    /// The kind in upper case with underscores, as it appears in answers and logs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Invalid => "INVALID_REQUEST",
            Self::NotFound => "NOT_FOUND",
            Self::Conflict => "CONFLICT",
            Self::Denied => "DENIED",
            Self::Unauthenticated => "AUTH_ERROR",
            Self::RateLimited => "RATE_LIMIT_EXCEEDED",
            Self::QuotaExceeded => "QUOTA_EXCEEDED",
            Self::Filtered => "CONTENT_FILTERED",
            Self::Timeout => "TIMEOUT",
            Self::Unavailable => "SERVER_ERROR",
            Self::Garbled => "MODEL_ERROR",
            Self::Cancelled => "CANCELLED",
            Self::Interrupted => "INTERRUPTED",
            Self::Unsupported => "UNSUPPORTED",
            Self::Internal => "INTERNAL_ERROR",
        }
    }
}

/// An error: what was being done, its kind, the remedy, and the cause.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind, for callers to branch on.
    pub kind: ErrorKind,
    /// A sentence that does not include the cause, such as "cannot read the canvas `x`".
    pub message: String,
    /// What the reader can do about it.
    pub help: Option<String>,
    /// How long the remote side asked us to wait.
    pub retry_after: Option<Duration>,
    /// The cause, kept apart from the message.
    #[source]
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// Details for the operator only, which may name files, servers and statements. No other field repeats them, so
    /// anything derived from the other fields may be shown to anyone.
    pub private: Option<Box<Private>>,
    /// The work completed without producing anything, such as a model that returns an empty answer. A caller that
    /// needs a result may try again.
    pub gave_nothing: bool,
}

/// What an error tells the operator instead of its public text.
#[derive(Debug)]
pub struct Private {
    /// Replaces the message.
    pub message: String,
    /// Replaces the remedy.
    pub help: Option<String>,
}

impl Error {
    /// Creates an error of this kind with this message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            help: None,
            retry_after: None,
            cause: None,
            private: None,
            gave_nothing: false,
        }
    }

    /// Creates an `Invalid` error: the input is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Creates a `NotFound` error.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Creates an `Internal` error: a bug in our code, or a problem of the machine.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds advice on what the reader can do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Marks the work as completed without a result.
    #[must_use]
    pub fn for_nothing(mut self) -> Self {
        self.gave_nothing = true;
        self
    }

    /// Attaches the cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Sets a different text for the operator, shown in logs and on the command line.
    #[must_use]
    pub fn in_private(mut self, message: impl Into<String>, help: Option<&str>) -> Self {
        self.private = Some(Box::new(Private { message: message.into(), help: help.map(str::to_owned) }));
        self
    }

    /// Returns whether the operator is shown a different text.
    pub fn is_private(&self) -> bool {
        self.private.is_some()
    }

    /// Returns the message for the operator, without the remedy.
    pub fn private_message(&self) -> &str {
        self.private.as_ref().map_or(&self.message, |private| &private.message)
    }

    /// Returns the remedy for the operator.
    pub fn private_help(&self) -> Option<&str> {
        self.private.as_ref().map_or(self.help.as_deref(), |private| private.help.as_deref())
    }

    /// Returns what the operator is shown: the message with the chain of causes, and the remedy.
    pub fn for_operator(&self) -> (String, Option<String>) {
        let mut text = self.private_message().to_owned();
        let mut help = self.private_help().map(str::to_owned);
        let mut cause: Option<&(dyn std::error::Error + 'static)> = self.cause.as_ref().map(|c| &**c as _);
        while let Some(error) = cause {
            text.push_str(": ");
            // Only our own errors can have a separate text for the operator.
            match error.downcast_ref::<Self>() {
                Some(error) => {
                    text.push_str(error.private_message());
                    // A remedy for the cause is also a remedy for the error.
                    help = help.or_else(|| error.private_help().map(str::to_owned));
                }
                None => text.push_str(&error.to_string()),
            }
            cause = error.source();
        }
        (text, help)
    }

    /// Like [`Error::for_operator`], on one line: for logs, never for an answer.
    pub fn detail(&self) -> String {
        match self.for_operator() {
            (text, Some(help)) => format!("{text} ({help})"),
            (text, None) => text,
        }
    }

    /// Returns the message, the chain of causes and the remedy on one line, for an event or an answer.
    pub fn full(&self) -> String {
        let mut text = self.message.clone();
        let mut cause: Option<&dyn std::error::Error> = self.cause.as_ref().map(|c| &**c as _);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        if let Some(help) = &self.help {
            text.push_str(" (");
            text.push_str(help);
            text.push(')');
        }
        text
    }
}

/// Turns `NotFound` into `None`, for callers that do not mind if the thing does not exist, such as those that delete
/// it or only look for it.
///
/// # Errors
/// Any error except `NotFound`.
pub fn found<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_not_found_becomes_none() {
        assert_eq!(found(Ok(1)).unwrap(), Some(1));
        assert_eq!(found::<u8>(Err(Error::not_found("no"))).unwrap(), None);
        assert_eq!(found::<u8>(Err(Error::internal("broken"))).unwrap_err().kind, ErrorKind::Internal);
    }

    #[test]
    fn the_full_text_contains_cause_and_remedy() {
        let error = Error::new(ErrorKind::Timeout, "cannot ask the model")
            .because(Error::internal("socket closed"))
            .help("try again");
        assert_eq!(error.full(), "cannot ask the model: socket closed (try again)");
    }

    #[test]
    fn private_details_are_in_no_public_text() {
        let hidden = Error::new(ErrorKind::Internal, "cannot read the run: the store failed")
            .in_private("cannot read the run: /data/weft.db: no such table", Some("restore it"));
        let error = Error::internal("cannot go on").because(hidden);
        assert_eq!(error.full(), "cannot go on: cannot read the run: the store failed");
        assert!(!format!("{error} {}", error.message).contains("weft.db"));
        let told = "cannot go on: cannot read the run: /data/weft.db: no such table (restore it)";
        assert_eq!(error.detail(), told);
    }
}
