//! Objects that the filter of a list names.

use weft_core::seam::dataset_store::{DatasetFilter, DocumentFilter};

/// An object that a request names, and that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

impl Named {
    /// Returns the id or name in the request.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Id(text) | Self::Name(text) => text,
        }
    }

    /// Returns a filter for only this dataset.
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

    /// Returns a filter for only this document.
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
