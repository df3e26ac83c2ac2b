//! What runs may use.

use std::time::Duration;

use weft_core::budget::BudgetLimits;
use weft_dsl::Plan;

/// How often a run asks models when nobody has set it. A review cycle that never ends costs 670 calls
/// before the activations are used up.
const MODEL_CALLS: u64 = 200;
/// Calls of models about one document, when nothing is said.
// A document has thousands of chunks, each of which may be asked about several times.
const PIPELINE_MODEL_CALLS: u64 = 100_000;

/// What runs may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineLimits {
    /// Runs at the same time; a further one is refused.
    pub runs_at_once: usize,
    /// Runs of one tenant at the same time; 0: as many as there is room for.
    pub tenant_runs_at_once: usize,
    /// Nodes at the same time within a run.
    pub nodes_at_once: usize,
    /// Activations of a run, beyond one for each node, in each round of an Iteration or a Loop as well.
    pub activations: u64,
    /// Bytes of what one activation produces.
    pub output_bytes: usize,
    /// Bytes of what a run holds at the same time: outputs, results of rounds, variables.
    pub values_bytes: usize,
    /// Bytes of a run's journal. What ends a run that has reached it comes on top.
    pub journal_bytes: u64,
    /// What the models and tools of a run may use together.
    pub budget: BudgetLimits,
    /// How long a run may take.
    pub run_time: Duration,
    /// How long an activation may take whose component names no limit.
    pub node_time: Duration,
    /// How long a run may take that brings a document into a dataset.
    pub pipeline_time: Duration,
    /// Calls of models that such a run may make: it asks about every chunk.
    pub pipeline_model_calls: u64,
    /// How often a run is picked up that gets no further each time: it may be the run that ends its process.
    pub pick_ups: usize,
}

impl EngineLimits {
    /// The limits of a run of this plan.
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
            // As many as the engines run at a time that existing canvases were drawn for.
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
