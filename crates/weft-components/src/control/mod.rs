//! Control flow of a run.

pub(crate) mod begin;
pub(crate) mod categorize;
pub(crate) mod exit_loop;
pub(crate) mod iteration;
pub(crate) mod iteration_item;
pub(crate) mod loop_item;
pub(crate) mod repeat;
pub(crate) mod switch;
pub(crate) mod unbuilt;
pub(crate) mod user_fill_up;

mod fields;
mod loop_end;
mod webhook;
