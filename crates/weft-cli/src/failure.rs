//! How a command ends, and what it says when it ends badly.

use weft_core::{Error, ErrorKind};

/// How the program ends, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It did what it was asked.
    Done = 0,
    /// The run failed or was cancelled.
    Failed = 1,
    /// It was called wrongly, or the canvas has errors.
    Usage = 2,
    /// The run waits for a person.
    Waiting = 3,
}

/// Why a command cannot go on.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell.
    New {
        /// The code to end with.
        exit: Exit,
        /// What went wrong, where and why.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// It has been told already.
    Reported(Exit),
    /// Nobody reads standard output any more, which is nobody's mistake.
    BrokenPipe,
}

/// What commands return.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    /// The caller can mend it.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::New { exit: Exit::Usage, message: message.into(), help: None }
    }

    /// Something broke on the way.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::New { exit: Exit::Failed, message: message.into(), help: None }
    }

    /// Says what to do about it.
    #[must_use]
    pub(crate) fn help(self, text: impl Into<String>) -> Self {
        match self {
            Self::New { exit, message, .. } => Self::New { exit, message, help: Some(text.into()) },
            other => other,
        }
    }

    /// A failure before anything ran: whatever its kind, the caller has to change something.
    pub(crate) fn before_running(error: &Error) -> Self {
        Self::told(Exit::Usage, error)
    }

    fn told(exit: Exit, error: &Error) -> Self {
        // Whoever runs the program is its operator.
        let (message, help) = error.for_operator();
        Self::New { exit, message, help }
    }

    /// The code to end with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::New { exit, .. } | Self::Reported(exit) => *exit,
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
    fn causes_and_remedies_are_told_apart() {
        let error =
            Error::invalid("cannot open the store").because(Error::internal("disk full")).help("make room");
        let Failure::New { exit, message, help } = Failure::from(error) else { panic!("nothing told") };
        assert_eq!((exit, message.as_str()), (Exit::Usage, "cannot open the store: disk full"));
        assert_eq!(help.as_deref(), Some("make room"));
    }
}
