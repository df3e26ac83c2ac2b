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
    /// The folder to make
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Which template to begin with; `weft templates` lists them
    #[arg(long, value_name = "ID", default_value = "greet")]
    pub template: String,
}
