//! What a component says about its parameters, and what only another part of the program can judge about them.

use std::collections::HashSet;

use weft_core::component::{Shape, WrittenProgram, WrittenSql};

use super::Builder;
use crate::canvas::CanvasNode;
use crate::problem::{PARAMETER_WARNING, Problem, ProblemList};
use crate::suggest::Suggester;

impl Builder<'_> {
    /// Reports the component's own warnings about its parameters, and problems with the models it needs.
    pub(super) fn report(
        &self,
        node: &CanvasNode,
        shape: &Shape,
        suggester: &mut Suggester,
        problems: &mut ProblemList,
    ) {
        let about = |problem: Problem| problem.about(&node.id, &node.name);
        for warning in &shape.warnings {
            let pointer = format!("{}{}", node.place.params, warning.pointer);
            let problem = Problem::warning(PARAMETER_WARNING, pointer, &warning.message);
            problems.add(about(problem.maybe_help(warning.help.clone())));
        }
        for (pointer, name) in &shape.datasets {
            let is_known = |known: &HashSet<String>| known.contains(&name.trim().to_lowercase());
            if self.datasets.as_ref().is_none_or(is_known) {
                continue;
            }
            let known = self.options.datasets.into_iter().flatten();
            let message = format!("there is no dataset `{name}`: the search will fail");
            let problem =
                Problem::warning("unknown-dataset", format!("{}{pointer}", node.place.params), message)
                    .help("create it with `weft dataset ingest`, or name another one")
                    .maybe_help(suggester.did_you_mean(name, known.map(String::as_str)));
            problems.add(about(problem));
        }
        for problem in self.unknown_memories(node, shape, suggester) {
            problems.add(about(problem));
        }
        for problem in self.refused_sql(node, shape).into_iter().chain(self.faulty_programs(node, shape)) {
            problems.add(about(problem));
        }
        if let (Some(pointer), Some(reason)) = (shape.aloud, self.options.no_voice) {
            let pointer = format!("{}{pointer}", node.place.params);
            let message = format!("the text will not be read aloud: {reason}");
            problems.add(about(Problem::warning("no-voice", pointer, message)));
        }
        let checked = [
            (self.options.models, &shape.models, "default-model"),
            (self.options.rerankers, &shape.rerankers, "no-reranker"),
        ];
        for (check, named, code) in checked {
            let Some(check) = check else { continue };
            for (pointer, id) in named {
                let pointer = format!("{}{pointer}", node.place.params);
                match check(id) {
                    Ok(None) => {}
                    Ok(Some(notice)) => problems.add(about(Problem::warning(code, pointer, notice))),
                    Err(reason) => {
                        problems.add(about(Problem::error("MODEL_NOT_CONFIGURED", pointer, reason)));
                    }
                }
            }
        }
    }

    /// Returns the problems of memories that do not exist.
    fn unknown_memories(&self, node: &CanvasNode, shape: &Shape, suggester: &mut Suggester) -> Vec<Problem> {
        let Some(known) = self.options.memories else { return Vec::new() };
        let mut unknown = Vec::new();
        for (pointer, id) in shape.memories.iter().filter(|(_, id)| !known.contains(id)) {
            let so = if node.is_a("Message") { "nothing is remembered" } else { "the search will fail" };
            let message = format!("there is no memory `{id}`: {so}");
            let pointer = format!("{}{pointer}", node.place.params);
            let problem = Problem::warning("unknown-memory", pointer, message)
                .help("name the id of one; `GET /api/v1/memories` lists them")
                .maybe_help(suggester.did_you_mean(id, known.iter().map(String::as_str)));
            unknown.push(problem);
        }
        unknown
    }

    /// Returns the reasons for which SQL would be refused in every run.
    fn refused_sql(&self, node: &CanvasNode, shape: &Shape) -> Vec<Problem> {
        let Some(check) = self.options.sql else { return Vec::new() };
        let refused = |sql: &WrittenSql| {
            let pointer = format!("{}{}", node.place.params, sql.pointer);
            let problem = |why: String| {
                Problem::warning(PARAMETER_WARNING, pointer.as_str(), format!("fails in every run: {why}"))
                    .help("write read-only statements in the SQL dialect of this database")
            };
            check(sql.kind, &sql.parts).into_iter().map(problem).collect::<Vec<_>>()
        };
        shape.sql.iter().flat_map(refused).collect()
    }

    /// Returns the reasons for which programs would fail in every run.
    fn faulty_programs(&self, node: &CanvasNode, shape: &Shape) -> Vec<Problem> {
        let Some(check) = self.options.programs else { return Vec::new() };
        let faulty = |program: &WrittenProgram| {
            let pointer = format!("{}{}", node.place.params, program.pointer);
            let message = format!("fails in every run: {}", check(program)?);
            let help = "correct the program: it must define `main`, which is called with `arguments` by name";
            Some(Problem::warning(PARAMETER_WARNING, pointer, message).help(help))
        };
        shape.programs.iter().filter_map(faulty).collect()
    }
}
