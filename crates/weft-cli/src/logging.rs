//! Log lines, on standard error.

use tracing_subscriber::EnvFilter;

use crate::screen::{Log, Notes};
use crate::settings::Environment;

/// The log filter in the syntax of `tracing`, such as `debug` or `weft_engine=trace`.
pub(crate) const VARIABLE: &str = "WEFT_LOG";

/// Starts logging; `level` is the default filter. Failures of MCP servers, and of TLS certificates, are reported by
/// their callers, so the libraries need not log them.
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
    // A second start, as in tests, keeps the first.
    drop(writer.try_init());
}
