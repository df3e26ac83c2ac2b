//! Flags of `weft models`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with models.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Take an embedder or a reranker from a folder, to run in Weft's own process from the next start on
    Add(ModelsAddArgs),
    /// List the models that are configured and those that were added
    List(ModelsListArgs),
}

/// Flags of `weft models add`.
#[derive(Debug, Args)]
pub(crate) struct ModelsAddArgs {
    /// The folder with config.json, tokenizer.json and model.safetensors
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// What to call it; without it the name of the folder
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Use it where no model is named
    #[arg(long)]
    pub default: bool,
    /// What goes before every question, such as "query: "; for embedders that want it
    #[arg(long, value_name = "TEXT")]
    pub query_prefix: Option<String>,
    /// What goes before every passage, such as "passage: "
    #[arg(long, value_name = "TEXT")]
    pub passage_prefix: Option<String>,
}

/// Flags of `weft models list`.
#[derive(Debug, Args)]
pub(crate) struct ModelsListArgs {
    /// Print a line of JSON for each model
    #[arg(long)]
    pub json: bool,
}
