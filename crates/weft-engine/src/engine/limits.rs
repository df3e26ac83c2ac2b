//! Limits of runs.

use std::time::Duration;

use weft_core::budget::BudgetLimits;
use weft_dsl::Plan;

/// Default limit of model calls per run. A review cycle that never ends would otherwise cost 670 calls before
/// its activations are used up.
const MODEL_CALLS: u64 = 200;
/// Default limit of model calls while processing one document.
// A document has thousands of chunks, each of which may be asked about several times.
const PIPELINE_MODEL_CALLS: u64 = 100_000;

/// Limits of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineLimits {
    /// Maximum number of concurrent runs; further ones are refused.
    pub runs_at_once: usize,
    /// Maximum number of concurrent runs of one tenant; 0 means no separate limit.
    pub tenant_runs_at_once: usize,
    /// Maximum number of concurrent nodes within a run.
    pub nodes_at_once: usize,
    /// Number of activations of a run beyond the one that each node has; nodes in a body have one in each
    /// round of its Iteration or Loop.
    pub activations: u64,
    /// Maximum size in bytes of what one activation produces.
    pub output_bytes: usize,
    /// Maximum size in bytes of what a run holds at any time: outputs, results of rounds, variables.
    pub values_bytes: usize,
    /// Maximum size in bytes of a run's journal. The records that end a run which has reached it come on top.
    pub journal_bytes: u64,
    /// What the models and tools of a run may use together.
    pub budget: BudgetLimits,
    /// Time limit of a run.
    pub run_time: Duration,
    /// Time limit of an activation whose component sets none of its own.
    pub node_time: Duration,
    /// Time limit of a run that adds a document to a dataset.
    pub pipeline_time: Duration,
    /// Model calls that such a run may make: it asks about every chunk.
    pub pipeline_model_calls: u64,
    /// How often a run may be picked up without making progress: it may be the run itself that ends its process.
    pub pick_ups: usize,
}

impl EngineLimits {
    /// Returns the limits of a run of this plan.
    pub(super) fn of(self, plan: &Plan) -> Self {
        if !plan.is_pipeline {
            return self;
        }
        let budget = BudgetLimits { model_calls: Some(self.pipeline_model_calls), ..self.budget };
        Self { run_time: self.pipeline_time, budget, ..self }
    }
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            runs_at_once: 4_096,
            tenant_runs_at_once: 0,
            // The same number of nodes as in the engines that existing canvases were drawn for.
            nodes_at_once: 5,
            activations: 1_000,
            output_bytes: 32 << 20,
            values_bytes: 64 << 20,
            journal_bytes: 256 << 20,
            budget: BudgetLimits { model_calls: Some(MODEL_CALLS), ..BudgetLimits::default() },
            run_time: Duration::from_secs(3_600),
            node_time: Duration::from_secs(600),
            pipeline_time: Duration::from_secs(86_400),
            pipeline_model_calls: PIPELINE_MODEL_CALLS,
            pick_ups: 5,
        }
    }
}
