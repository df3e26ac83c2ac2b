//! Flags of `weft templates` and `weft new`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `weft templates`.
#[derive(Debug, Args)]
pub(crate) struct TemplatesArgs {
    /// Print a line of JSON for each template
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Folder to create
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Template to start from; `weft templates` lists them
    #[arg(long, value_name = "ID", default_value = "greet")]
    pub template: String,
}
