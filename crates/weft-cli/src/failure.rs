//! Outcomes of commands, and messages for failures.

use weft_core::{Error, ErrorKind};

/// Exit codes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Success.
    Done = 0,
    /// The run failed or was cancelled.
    Failed = 1,
    /// Incorrect usage, or a canvas with errors.
    Usage = 2,
    /// The run waits for a person.
    Waiting = 3,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A failure to report.
    New {
        /// The exit code.
        exit: Exit,
        /// What went wrong, where and why.
        message: String,
        /// A remedy.
        help: Option<String>,
    },
    /// The failure has already been reported.
    Reported(Exit),
    /// The reader of standard output has closed the pipe, which is not an error.
    BrokenPipe,
}

/// The result of a command.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    /// An error that the caller can correct.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::New { exit: Exit::Usage, message: message.into(), help: None }
    }

    /// An error during the work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::New { exit: Exit::Failed, message: message.into(), help: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub(crate) fn help(self, text: impl Into<String>) -> Self {
        match self {
            Self::New { exit, message, .. } => Self::New { exit, message, help: Some(text.into()) },
            other => other,
        }
    }

    /// Converts an error in looking something up. The remedy is for what does not exist; other failures keep their own.
    pub(crate) fn finding(error: Error, help: &str) -> Self {
        let is_missing = matches!(error.kind, ErrorKind::NotFound | ErrorKind::Invalid);
        let failure = Self::from(error);
        if is_missing { failure.help(help) } else { failure }
    }

    /// Converts an error before anything ran: whatever its kind, the caller has to change something.
    pub(crate) fn before_running(error: &Error) -> Self {
        Self::told(Exit::Usage, error)
    }

    fn told(exit: Exit, error: &Error) -> Self {
        // The user of the command line is the operator.
        let (message, help) = error.for_operator();
        Self::New { exit, message, help }
    }

    /// Returns the exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::New { exit, .. } | Self::Reported(exit) => *exit,
            // The reader, such as `head`, has all that it wanted.
            Self::BrokenPipe => Exit::Done,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match error.kind {
            ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Unsupported => Exit::Usage,
            _ => Exit::Failed,
        };
        Self::told(exit, &error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::failed(format!("cannot write to standard output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_help_are_separated() {
        let error =
            Error::invalid("cannot open the store").because(Error::internal("disk full")).help("make room");
        let Failure::New { exit, message, help } = Failure::from(error) else {
            panic!("the failure was reported before")
        };
        assert_eq!((exit, message.as_str()), (Exit::Usage, "cannot open the store: disk full"));
        assert_eq!(help.as_deref(), Some("make room"));
    }

    #[test]
    fn only_what_does_not_exist_is_looked_up_in_a_list() {
        let help = |error: Error| match Failure::finding(error, "see the list") {
            Failure::New { help, .. } => help,
            other => panic!("{other:?}"),
        };
        assert_eq!(help(Error::not_found("there is no run")).as_deref(), Some("see the list"));
        assert_eq!(help(Error::internal("disk full").help("make room")).as_deref(), Some("make room"));
        assert_eq!(help(Error::internal("disk full")), None);
    }
}
