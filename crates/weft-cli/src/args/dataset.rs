//! The flags of `weft dataset`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with datasets.
#[derive(Debug, Subcommand)]
pub(crate) enum DatasetCommand {
    /// Make an empty dataset and print its id
    Add(DatasetAddArgs),
    /// List the datasets
    List(DatasetListArgs),
    /// Show a dataset and its documents
    Show(DatasetShowArgs),
    /// Read files into a dataset, which is made if it is not there
    Ingest(DatasetIngestArgs),
    /// Search datasets
    Search(DatasetSearchArgs),
    /// Show the chunks that a document was cut into
    Chunks(DatasetChunksArgs),
    /// Let documents that are being read wait until `weft dataset ingest` goes on
    Pause(DatasetDocumentsArgs),
    /// Stop reading documents for good
    Cancel(DatasetDocumentsArgs),
    /// Remove documents, or the whole dataset with --all
    Remove(DatasetRemoveArgs),
    /// Make the index of a dataset again from what is stored
    Reindex(DatasetNameArgs),
    /// Make all vectors of a dataset again by another model; it is searched by those that it has meanwhile
    Embed(DatasetEmbedArgs),
}

/// How documents are cut and enriched.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DatasetMethodArgs {
    /// How documents are cut: naive, book, laws, paper, manual, presentation, qa, table, one, email or tag
    #[arg(long, value_name = "NAME")]
    pub method: Option<String>,
    /// An ingestion pipeline that documents go through instead: the file of a canvas that starts with `File`
    #[arg(long, value_name = "FILE", conflicts_with = "method")]
    pub pipeline: Option<PathBuf>,
    /// A setting such as chunk_token_num=256 or children_delimiter="\n", read as JSON if it is JSON;
    /// repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}

/// Flags of `weft dataset add`.
#[derive(Debug, Args)]
pub(crate) struct DatasetAddArgs {
    /// Its name
    pub name: String,
    /// The model that makes its vectors, or `none`; the default one without it, if there is any
    #[arg(long, value_name = "NAME")]
    pub embedder: Option<String>,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    #[command(flatten)]
    pub method: DatasetMethodArgs,
}

/// Flags of `weft dataset list`.
#[derive(Debug, Args)]
pub(crate) struct DatasetListArgs {
    /// Print them as JSON, one in a line
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft dataset show`.
#[derive(Debug, Args)]
pub(crate) struct DatasetShowArgs {
    /// Its name or id
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// Print its documents as JSON, one in a line
    #[arg(long)]
    pub json: bool,
}

/// A dataset alone.
#[derive(Debug, Args)]
pub(crate) struct DatasetNameArgs {
    /// Its name or id
    #[arg(value_name = "DATASET")]
    pub dataset: String,
}

/// Flags of `weft dataset embed`.
#[derive(Debug, Args)]
pub(crate) struct DatasetEmbedArgs {
    /// Its name or id
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// The model that makes the vectors, or `none`; without it, what was begun goes on
    #[arg(long, value_name = "NAME")]
    pub embedder: Option<String>,
}

/// Flags of `weft dataset ingest`.
#[derive(Debug, Args)]
pub(crate) struct DatasetIngestArgs {
    /// The dataset's name or id
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// Files, and folders with everything in them; without any, what is not done yet goes on
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Metadata of every document, read as JSON if it is JSON and as text otherwise; repeatable
    #[arg(long = "meta", value_name = "KEY=VALUE")]
    pub metadata: Vec<String>,
    /// The model that makes the vectors of a new dataset, or `none`
    #[arg(long, value_name = "NAME")]
    pub embedder: Option<String>,
    /// Read documents again that have not changed
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
    /// What to look for
    #[arg(value_name = "QUESTION")]
    pub question: String,
    /// Search this dataset, by name or id; repeatable; all of them without it
    #[arg(long = "in", value_name = "DATASET")]
    pub datasets: Vec<String>,
    /// So many passages at most
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub top: u32,
    /// What a passage has to score, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    pub threshold: f64,
    /// The share of the vectors in a score, 0 to 1; words have the rest
    #[arg(long, value_name = "SHARE")]
    pub vector_weight: Option<f64>,
    /// Let this model rank what was found
    #[arg(long, value_name = "NAME")]
    pub reranker: Option<String>,
    /// Only documents with such metadata, as KEY=VALUE, KEY>VALUE, `KEY contains VALUE` …; repeatable
    #[arg(long = "where", value_name = "CONDITION")]
    pub conditions: Vec<String>,
    /// Print the passages as JSON, one in a line
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft dataset chunks`.
#[derive(Debug, Args)]
pub(crate) struct DatasetChunksArgs {
    /// The dataset's name or id
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// The document's name or id
    #[arg(value_name = "DOCUMENT")]
    pub document: String,
    /// Print them as JSON, one in a line
    #[arg(long)]
    pub json: bool,
}

/// Documents of a dataset.
#[derive(Debug, Args)]
pub(crate) struct DatasetDocumentsArgs {
    /// The dataset's name or id
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// The documents' names or ids; all that are waiting or being read without any
    #[arg(value_name = "DOCUMENT")]
    pub documents: Vec<String>,
}

/// Flags of `weft dataset remove`.
#[derive(Debug, Args)]
pub(crate) struct DatasetRemoveArgs {
    /// The dataset's name or id
    #[arg(value_name = "DATASET")]
    pub dataset: String,
    /// The documents' names or ids
    #[arg(value_name = "DOCUMENT", required_unless_present = "all", conflicts_with = "all")]
    pub documents: Vec<String>,
    /// Remove the dataset with everything in it
    #[arg(long)]
    pub all: bool,
}
