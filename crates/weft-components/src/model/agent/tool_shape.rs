//! What the plan has to know about an agent because of its tools: the same as of components that stand on the canvas.

use weft_core::component::{WrittenProgram, WrittenSql};
use weft_core::{ComponentId, ParamProblem, Reference, Shape};

use super::arguments::ARGUMENTS;
use super::component_tool::is_set;
use super::entries::Entry;

/// What the plan has to know about an agent because of its tools.
#[derive(Clone, Default)]
pub(super) struct ToolShape {
    /// What their parameters refer to.
    pub reads: Vec<Reference>,
    /// Those of them whose values are secret.
    pub secrets: Vec<Reference>,
    /// How many turns they look back.
    pub history_turns: usize,
    /// The models that order passages for them.
    pub rerankers: Vec<(String, String)>,
    /// The datasets they search.
    pub datasets: Vec<(String, String)>,
    /// The models they ask for.
    pub models: Vec<(String, String)>,
    /// What they ask databases, where the canvas has written all of it down.
    pub sql: Vec<WrittenSql>,
    /// Parameters of theirs without effect.
    pub warnings: Vec<ParamProblem>,
    /// Nodes among them.
    pub calls: Vec<ComponentId>,
    /// Their programs, where the canvas has written them down.
    pub programs: Vec<WrittenProgram>,
}

impl ToolShape {
    /// Takes in what a tool needs of the plan.
    pub(super) fn learn(&mut self, entry: &Entry<'_>, shape: &Shape) {
        // What the model fills in is nothing that a plan could know.
        let foreign = shape.reads.all().filter(|r| r.component().is_none_or(|id| id.as_str() != ARGUMENTS));
        self.reads.extend(foreign.cloned());
        self.secrets.extend(shape.secrets.iter().cloned());
        self.history_turns = self.history_turns.max(shape.history_turns);
        let place = |pointer: &str| format!("{}/params{pointer}", entry.pointer);
        let named = |(pointer, name): &(String, String)| (place(pointer), name.clone());
        self.models.extend(shape.models.iter().map(named));
        self.rerankers.extend(shape.rerankers.iter().map(named));
        self.datasets.extend(shape.datasets.iter().map(named));
        let sql = shape.sql.iter().map(|sql| WrittenSql { pointer: place(&sql.pointer), ..sql.clone() });
        self.sql.extend(sql);
        // One that an editor has written is left out, and its model writes another. That of an agent below is its own.
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
        // What the canvas has not filled in its model does.
        let filled_in = |problem: &&ParamProblem| {
            let name = problem.pointer.trim_start_matches('/').split('/').next().unwrap_or_default();
            entry.params.get(name).is_some_and(|value| is_set(name, value))
        };
        self.warnings.extend(shape.unfilled.iter().filter(filled_in).map(moved));
        self.calls.extend(shape.calls.iter().cloned());
    }
}
