//! Flags of `weft token`.

use clap::{Args, Subcommand};

use super::RoleArg;

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it; it is never shown again
    Create(TokenCreateArgs),
    /// List the tokens
    List(TokenListArgs),
    /// Take a token back; a running server refuses it from then on
    Revoke(TokenRevokeArgs),
}

/// Flags of `weft token create`.
#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// What to call it in lists
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Whose data it opens
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// What whoever shows it may do there
    #[arg(long, value_name = "ROLE", default_value = "owner")]
    pub role: RoleArg,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft token list`.
#[derive(Debug, Args)]
pub(crate) struct TokenListArgs {
    /// Those of this tenant only
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Print a line of JSON for each token
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft token revoke`.
#[derive(Debug, Args)]
pub(crate) struct TokenRevokeArgs {
    /// The token: its id as listed, a name that no other has, or the token itself
    #[arg(value_name = "TOKEN")]
    pub token: String,
    /// Whose it is
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}
