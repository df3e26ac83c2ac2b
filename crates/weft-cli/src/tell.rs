//! How a failure is reported.

use crate::failure::Failure;
use crate::screen::Notes;

/// Prints a failure.
pub(crate) fn tell(failure: &Failure) {
    if let Failure::New { message, help, .. } = failure {
        Notes::line(format!("error: {message}"));
        if let Some(help) = help {
            Notes::line(format!("  help: {help}"));
        }
    }
}
