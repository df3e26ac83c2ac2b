//! The flags of `weft dataset`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::free_text::free_text;

/// What to do with datasets.
#[derive(Debug, Subcommand)]
pub(crate) enum DatasetCommand {
    /// Create an empty dataset and print its id
    Add(DatasetAddArgs),
    /// List the datasets
    List(DatasetListArgs),
    /// Show a dataset and its documents
    Show(DatasetShowArgs),
    /// Read files into a dataset, creating it if necessary
    Ingest(DatasetIngestArgs),
    /// Search datasets
    Search(DatasetSearchArgs),
    /// Show the chunks of a document
    Chunks(DatasetChunksArgs),
    /// Pause reading documents until `weft dataset ingest` continues
    Pause(DatasetDocumentsArgs),
    /// Stop reading documents for good
    Cancel(DatasetDocumentsArgs),
    /// Remove documents, or the whole dataset with --all
    Remove(DatasetRemoveArgs),
    /// Rebuild the index of a dataset from the store
    Reindex(DatasetNameArgs),
    /// Recompute all vectors of a dataset with another model; searches use the old ones meanwhile
    Embed(DatasetEmbedArgs),
}

/// How documents are cut and enriched.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DatasetMethodArgs {
    /// Chunking method: naive, book, laws, paper, manual, presentation, qa, table, one, email, tag, picture or
    /// resume
    #[arg(long, value_name = "NAME")]
    pub method: Option<String>,
    /// Ingestion pipeline to use instead: the file of a canvas that starts with `File`
    #[arg(long, value_name = "FILE", conflicts_with = "method")]
    pub pipeline: Option<PathBuf>,
    /// Chunking setting such as chunk_token_num=256 or children_delimiter="\n", read as JSON if it is JSON;
    /// repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}

/// Flags of `weft dataset add`.
#[derive(Debug, Args)]
pub(crate) struct DatasetAddArgs {
    /// Name of the dataset
    pub name: String,
    /// Model that computes its vectors, or `none`; default: the default embedding model, if any
    #[arg(long, value_name = "NAME")]
    pub embedder: Option<String>,
    /// Description of the dataset
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = free_text)]
    pub description: Option<String>,
    #[command(flatten)]
    pub method: DatasetMethodArgs,
}

/// Flags of `weft dataset list`.
#[derive(Debug, Args)]
pub(crate) struct DatasetListArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft dataset show`.
#[derive(Debug, Args)]
pub(crate) struct DatasetShowArgs {
    /// Name or id of the dataset
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// Print its documents, one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// A dataset alone.
#[derive(Debug, Args)]
pub(crate) struct DatasetNameArgs {
    /// Name or id of the dataset
    #[arg(value_name = "DATASET")]
    pub dataset: String,
}

/// Flags of `weft dataset embed`.
#[derive(Debug, Args)]
pub(crate) struct DatasetEmbedArgs {
    /// Name or id of the dataset
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// Model that computes the vectors, or `none`; without it, continue what was started
    #[arg(long, value_name = "NAME")]
    pub embedder: Option<String>,
}

/// Flags of `weft dataset ingest`.
#[derive(Debug, Args)]
pub(crate) struct DatasetIngestArgs {
    /// Name or id of the dataset
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// Files, and folders with everything in them; without any, continue with unfinished documents
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Metadata for every document, read as JSON if it is JSON and as text otherwise; repeatable
    #[arg(long = "meta", value_name = "KEY=VALUE")]
    pub metadata: Vec<String>,
    /// Model that computes the vectors of a new dataset, or `none`
    #[arg(long, value_name = "NAME")]
    pub embedder: Option<String>,
    /// Read unchanged documents again, too
    #[arg(long)]
    pub again: bool,
    /// Leave the reading to `weft serve` or `weft worker`
    #[arg(long)]
    pub queue: bool,
    #[command(flatten)]
    pub method: DatasetMethodArgs,
}

/// Flags of `weft dataset search`.
#[derive(Debug, Args)]
pub(crate) struct DatasetSearchArgs {
    /// Search query
    #[arg(value_name = "QUESTION")]
    pub question: String,
    /// Search this dataset, by name or id; repeatable; default: all datasets
    #[arg(long = "in", value_name = "DATASET")]
    pub datasets: Vec<String>,
    /// Maximum number of passages
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub top: u32,
    /// Minimum score of a passage, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    pub threshold: f64,
    /// Weight of vector similarity in the score, 0 to 1; keywords have the rest
    #[arg(long, value_name = "SHARE")]
    pub vector_weight: Option<f64>,
    /// Rerank the results with this model
    #[arg(long, value_name = "NAME")]
    pub reranker: Option<String>,
    /// Filter documents by metadata: KEY=VALUE, KEY>VALUE, `KEY contains VALUE` …; repeatable
    #[arg(long = "where", value_name = "CONDITION")]
    pub conditions: Vec<String>,
    /// Print the passages, one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft dataset chunks`.
#[derive(Debug, Args)]
pub(crate) struct DatasetChunksArgs {
    /// Name or id of the dataset
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// Name or id of the document
    #[arg(value_name = "DOCUMENT")]
    pub document: String,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Documents of a dataset.
#[derive(Debug, Args)]
pub(crate) struct DatasetDocumentsArgs {
    /// Name or id of the dataset
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// Names or ids of documents; default: all that are waiting or being read
    #[arg(value_name = "DOCUMENT")]
    pub documents: Vec<String>,
}

/// Flags of `weft dataset remove`.
// In a group, so that the message about missing documents names --all as well.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["documents", "all"]))]
pub(crate) struct DatasetRemoveArgs {
    /// Name or id of the dataset
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// Names or ids of documents
    #[arg(value_name = "DOCUMENT")]
    pub documents: Vec<String>,
    /// Remove the dataset with everything in it
    #[arg(long)]
    pub all: bool,
}
