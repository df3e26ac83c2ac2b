//! Components that compute values from values.

pub(crate) mod data_operations;
pub(crate) mod excel_processor;
pub(crate) mod list_operations;
pub(crate) mod lookup;
pub(crate) mod retrieval;
pub(crate) mod string_transform;
pub(crate) mod variable_aggregator;
pub(crate) mod variable_assigner;
