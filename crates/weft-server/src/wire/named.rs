//! What a list is asked for by name.

use weft_core::seam::dataset_store::{DatasetFilter, DocumentFilter};

/// Something that a request names, and that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

impl Named {
    /// What it is called in the request.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Id(text) | Self::Name(text) => text,
        }
    }

    /// Only the dataset that it names.
    pub fn of_datasets(&self) -> DatasetFilter {
        match self {
            Self::Id(id) => {
                DatasetFilter { ids: Some(vec![id.as_str().into()]), limit: 1, ..DatasetFilter::default() }
            }
            Self::Name(name) => {
                DatasetFilter { name: Some(name.clone()), limit: 1, ..DatasetFilter::default() }
            }
        }
    }

    /// Only the document that it names.
    pub fn of_documents(&self) -> DocumentFilter {
        match self {
            Self::Id(id) => {
                DocumentFilter { ids: Some(vec![id.as_str().into()]), limit: 1, ..DocumentFilter::default() }
            }
            Self::Name(name) => {
                DocumentFilter { name: Some(name.clone()), limit: 1, ..DocumentFilter::default() }
            }
        }
    }
}
