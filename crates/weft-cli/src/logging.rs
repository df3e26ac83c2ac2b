//! Log lines, on standard error.

use tracing_subscriber::EnvFilter;

use crate::screen::{Log, Notes};
use crate::settings::Environment;

/// Which lines are written, as `tracing` filters them: `debug`, `weft_engine=trace`.
pub(crate) const VARIABLE: &str = "WEFT_LOG";

/// Starts writing log lines; `level` is what is written when nobody says otherwise. What goes wrong with a
/// server of tools, or with the certificate of a server, is told by whoever asked it, so the libraries need not.
pub(crate) fn start(environment: &Environment, level: &str) {
    let usual = format!("{level},rmcp=off,rustls_platform_verifier=off");
    let filter = environment.text(VARIABLE).unwrap_or(&usual);
    let filter = EnvFilter::builder().parse_lossy(filter);
    let terminal = Notes::is_terminal();
    let writer = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Log)
        .with_ansi(terminal)
        .log_internal_errors(false);
    // A second start, as tests may do, keeps the first.
    drop(writer.try_init());
}
