//! Flags of `weft models`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with models.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Add an embedder or reranker from a folder; it runs in Weft's own process from the next start
    Add(ModelsAddArgs),
    /// List configured and added models
    List(ModelsListArgs),
}

/// Flags of `weft models add`.
#[derive(Debug, Args)]
pub(crate) struct ModelsAddArgs {
    /// Folder with config.json, tokenizer.json and model.safetensors
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Name of the model; default: the name of the folder
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Use it as the default model
    #[arg(long)]
    pub default: bool,
    /// Prefix for every question, such as "query: "; for embedders that need one
    #[arg(long, value_name = "TEXT")]
    pub query_prefix: Option<String>,
    /// Prefix for every passage, such as "passage: "
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
