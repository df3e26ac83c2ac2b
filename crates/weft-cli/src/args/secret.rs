//! Flags of `weft secret`.

use clap::{Args, Subcommand};

/// What to do with secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Store a value, read from standard input, for canvases to use as `{secret.NAME}`
    Set(SecretArgs),
    /// List the names; values are never shown
    List(SecretListArgs),
    /// Remove a secret
    Delete(SecretArgs),
}

/// Flags of `weft secret set` and `weft secret delete`.
#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// Name of the secret: letters, digits, `_` and `-`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Tenant it belongs to
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft secret list`.
#[derive(Debug, Args)]
pub(crate) struct SecretListArgs {
    /// Tenant they belong to
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Print a line of JSON for each secret
    #[arg(long)]
    pub json: bool,
}
