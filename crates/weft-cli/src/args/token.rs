//! Flags of `weft token`.

use clap::{Args, Subcommand};

use super::RoleArg;

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create an API key and print it; it is never shown again
    Create(TokenCreateArgs),
    /// List API keys
    List(TokenListArgs),
    /// Revoke an API key; running servers reject it from then on
    Revoke(TokenRevokeArgs),
}

/// Flags of `weft token create`.
#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// Name to show in lists
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Tenant it grants access to
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Role it grants in the tenant
    #[arg(long, value_name = "ROLE", default_value = "owner")]
    pub role: RoleArg,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft token list`.
#[derive(Debug, Args)]
pub(crate) struct TokenListArgs {
    /// Only those of this tenant
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Print a line of JSON for each API key
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft token revoke`.
#[derive(Debug, Args)]
pub(crate) struct TokenRevokeArgs {
    /// API key: its listed id, its name if unique, or the key itself
    #[arg(value_name = "TOKEN")]
    pub token: String,
    /// Tenant it belongs to; without it an id is found in all tenants, a name in the tenant `default`
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}
