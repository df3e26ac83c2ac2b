//! What the plan must know about an agent because of its tools: the same as for components on the canvas.

use weft_core::component::{WrittenProgram, WrittenSql};
use weft_core::{ComponentId, ParamProblem, Reference, Shape};

use super::arguments::ARGUMENTS;
use super::component_tool::is_set;
use super::entries::ToolsEntry;

/// What the plan must know about an agent because of its tools.
#[derive(Clone, Default)]
pub(super) struct ToolShape {
    /// References in the parameters of the tools.
    pub reads: Vec<Reference>,
    /// The references among them whose values are secret.
    pub secrets: Vec<Reference>,
    /// Number of history turns that the tools read.
    pub history_turns: usize,
    /// The reranking models that the tools use.
    pub rerankers: Vec<(String, String)>,
    /// The datasets that the tools search.
    pub datasets: Vec<(String, String)>,
    /// The memories that the tools search.
    pub memories: Vec<(String, String)>,
    /// The models that the tools use.
    pub models: Vec<(String, String)>,
    /// Their database queries, where the canvas contains them literally.
    pub sql: Vec<WrittenSql>,
    /// Their parameters without effect.
    pub warnings: Vec<ParamProblem>,
    /// The nodes among the tools.
    pub calls: Vec<ComponentId>,
    /// Their programs, where the canvas contains them literally.
    pub programs: Vec<WrittenProgram>,
}

impl ToolShape {
    /// Adds what a tool requires of the plan.
    pub(super) fn learn(&mut self, entry: &ToolsEntry<'_>, shape: &Shape) {
        // What the model fills in cannot be known to a plan.
        let foreign = shape.reads.all().filter(|r| r.component().is_none_or(|id| id.as_str() != ARGUMENTS));
        self.reads.extend(foreign.cloned());
        self.secrets.extend(shape.secrets.iter().cloned());
        self.history_turns = self.history_turns.max(shape.history_turns);
        let place = |pointer: &str| format!("{}/params{pointer}", entry.pointer);
        let named = |(pointer, name): &(String, String)| (place(pointer), name.clone());
        self.models.extend(shape.models.iter().map(named));
        self.rerankers.extend(shape.rerankers.iter().map(named));
        self.datasets.extend(shape.datasets.iter().map(named));
        self.memories.extend(shape.memories.iter().map(named));
        let sql = shape.sql.iter().map(|sql| WrittenSql { pointer: place(&sql.pointer), ..sql.clone() });
        self.sql.extend(sql);
        // An editor's default program is left out, and the model writes another. The program of a nested agent's tool
        // counts.
        let own = |program: &&WrittenProgram| {
            program.pointer != "/script"
                || entry.params.get("script").is_some_and(|script| is_set("script", script))
        };
        let moved =
            |program: &WrittenProgram| WrittenProgram { pointer: place(&program.pointer), ..program.clone() };
        self.programs.extend(shape.programs.iter().filter(own).map(moved));
        let moved =
            |warning: &ParamProblem| ParamProblem { pointer: place(&warning.pointer), ..warning.clone() };
        self.warnings.extend(shape.warnings.iter().map(moved));
        // Parameters that the canvas leaves open are filled in by the model.
        let filled_in = |problem: &&ParamProblem| {
            let name = problem.pointer.trim_start_matches('/').split('/').next().unwrap_or_default();
            entry.params.get(name).is_some_and(|value| is_set(name, value))
        };
        self.warnings.extend(shape.unfilled.iter().filter(filled_in).map(moved));
        self.calls.extend(shape.calls.iter().cloned());
    }
}
