//! What went wrong, of which kind, and what to do about it.

use std::time::Duration;

/// The result of anything that crosses a seam.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What callers branch on. The text is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The caller's input is wrong; the same call fails again.
    Invalid,
    /// There is no such thing, or not for this caller.
    NotFound,
    /// Someone else changed it, or it is in use.
    Conflict,
    /// The caller is known and may not do this.
    Denied,
    /// A credential is missing or wrong.
    Unauthenticated,
    /// Too many calls; wait and try again.
    RateLimited,
    /// Paid quota or a budget is used up.
    QuotaExceeded,
    /// The content was refused by a filter.
    Filtered,
    /// It took longer than its limit.
    Timeout,
    /// The other side cannot be reached or answers with a server error.
    Unavailable,
    /// The other side answered something that is not valid.
    Garbled,
    /// Someone asked for it to stop.
    Cancelled,
    /// The work was cut off by a stop of the process and may not be repeated.
    Interrupted,
    /// Known, and not part of this build.
    Unsupported,
    /// A defect of ours or of the machine (disk full, memory).
    Internal,
}

impl ErrorKind {
    /// Whether the same call may succeed when it is made again a little later.
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

/// A failure: what we were doing, what kind it is, what to do, and why.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What callers branch on.
    pub kind: ErrorKind,
    /// A sentence without the cause in it, such as "cannot read the canvas `x`".
    pub message: String,
    /// What the reader can do about it.
    pub help: Option<String>,
    /// How long the other side asked us to wait.
    pub retry_after: Option<Duration>,
    /// Why, kept apart from the text.
    #[source]
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// What is for the operator alone: it may name files, servers and statements. Nothing else of the error
    /// repeats it, so whatever is made of the other fields may be shown to everybody.
    pub private: Option<Box<Private>>,
    /// The work came to its end and gave nothing, such as a model that answers without a word: whoever asked for
    /// something else than nothing may ask again.
    pub gave_nothing: bool,
}

/// What an error says to the operator in place of its public words.
#[derive(Debug)]
pub struct Private {
    /// In place of the message.
    pub message: String,
    /// In place of the remedy.
    pub help: Option<String>,
}

impl Error {
    /// A failure of this kind, described by `message`.
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

    /// The input is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// A defect of ours or of the machine.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Says what the reader can do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says that the work came to its end and gave nothing.
    #[must_use]
    pub fn for_nothing(mut self) -> Self {
        self.gave_nothing = true;
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Says something else to the operator, in logs and on the command line.
    #[must_use]
    pub fn in_private(mut self, message: impl Into<String>, help: Option<&str>) -> Self {
        self.private = Some(Box::new(Private { message: message.into(), help: help.map(str::to_owned) }));
        self
    }

    /// Whether the operator is told something else than the rest.
    pub fn is_private(&self) -> bool {
        self.private.is_some()
    }

    /// The message for the operator, without the remedy.
    pub fn private_message(&self) -> &str {
        self.private.as_ref().map_or(&self.message, |private| &private.message)
    }

    /// The remedy for the operator.
    pub fn private_help(&self) -> Option<&str> {
        self.private.as_ref().map_or(self.help.as_deref(), |private| private.help.as_deref())
    }

    /// What the operator is told: the message with the chain of causes, and the remedy.
    pub fn for_operator(&self) -> (String, Option<String>) {
        let mut text = self.private_message().to_owned();
        let mut help = self.private_help().map(str::to_owned);
        let mut cause: Option<&(dyn std::error::Error + 'static)> = self.cause.as_ref().map(|c| &**c as _);
        while let Some(error) = cause {
            text.push_str(": ");
            // Only our own errors say something else to the operator.
            match error.downcast_ref::<Self>() {
                Some(error) => {
                    text.push_str(error.private_message());
                    // What helps against the cause helps.
                    help = help.or_else(|| error.private_help().map(str::to_owned));
                }
                None => text.push_str(&error.to_string()),
            }
            cause = error.source();
        }
        (text, help)
    }

    /// The same in one line: for logs, never for an answer.
    pub fn detail(&self) -> String {
        match self.for_operator() {
            (text, Some(help)) => format!("{text} ({help})"),
            (text, None) => text,
        }
    }

    /// The message, the chain of causes and the remedy in one line, for an event or an answer.
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

/// What is there, or nothing where that is gone or never was: who removes something, or only looks for it, need not mind.
///
/// # Errors
/// Every other error than `NotFound`.
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
    fn only_what_is_not_there_is_nothing() {
        assert_eq!(found(Ok(1)).unwrap(), Some(1));
        assert_eq!(found::<u8>(Err(Error::not_found("no"))).unwrap(), None);
        assert_eq!(found::<u8>(Err(Error::internal("broken"))).unwrap_err().kind, ErrorKind::Internal);
    }

    #[test]
    fn the_full_text_holds_cause_and_remedy() {
        let error = Error::new(ErrorKind::Timeout, "cannot ask the model")
            .because(Error::internal("socket closed"))
            .help("try again");
        assert_eq!(error.full(), "cannot ask the model: socket closed (try again)");
    }

    #[test]
    fn what_is_private_is_in_no_public_text() {
        let hidden = Error::new(ErrorKind::Internal, "cannot read the run: the store failed")
            .in_private("cannot read the run: /data/weft.db: no such table", Some("restore it"));
        let error = Error::internal("cannot go on").because(hidden);
        assert_eq!(error.full(), "cannot go on: cannot read the run: the store failed");
        assert!(!format!("{error} {}", error.message).contains("weft.db"));
        let told = "cannot go on: cannot read the run: /data/weft.db: no such table (restore it)";
        assert_eq!(error.detail(), told);
    }
}
