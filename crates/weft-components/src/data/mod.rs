//! Values in, values out.

pub mod data_operations;
pub mod excel_processor;
pub mod list_operations;
pub mod lookup;
pub mod retrieval;
pub mod string_transform;
pub mod variable_aggregator;
pub mod variable_assigner;
