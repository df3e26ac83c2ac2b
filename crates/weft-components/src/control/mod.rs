//! Where a run goes.

pub mod begin;
pub mod categorize;
pub mod exit_loop;
pub mod iteration;
pub mod iteration_item;
pub mod loop_item;
pub mod repeat;
pub mod switch;
pub mod unbuilt;
pub mod user_fill_up;

mod fields;
mod webhook;
