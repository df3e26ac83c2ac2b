//! What components declare their parameters with, and read them by.

pub(crate) use weft_core::field::{Choice, Field, FieldGroup, Kind, Widget, choice, fields};
pub(crate) use weft_core::params::{Params, asks_for_something, is_empty, pointer};
pub(crate) use weft_core::value::{described, number, truth, whole};
