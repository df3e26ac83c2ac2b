//! Values in, values out.

pub mod string_transform;
pub mod variable_aggregator;
pub mod variable_assigner;
