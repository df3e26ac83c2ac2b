//! Canvas + catalog → plan, or all the problems that keep it from running.

use std::collections::HashSet;
use std::sync::Arc;

use weft_core::component::Role;
use weft_core::reference::Names;
use weft_core::value::truth;
use weft_core::{Catalog, ComponentId, Json, Reference};

use crate::assigned::Assigned;
use crate::build::{Builder, Built};
use crate::canvas::{Canvas, PIPELINE, PIPELINE_ENTRY};
use crate::drawing;
use crate::findings::Reporter;
use crate::global_ways::GlobalWays;
use crate::globals;
use crate::limits;
use crate::link::link;
use crate::lost::Lost;
use crate::outputs::CanvasOutputs;
use crate::plan::Plan;
use crate::pointer::join;
use crate::problem::{Problem, ProblemList};
use crate::references::{self, NodeText, World};
use crate::secrets;
use crate::suggest::Suggester;
use crate::targets;
use crate::texts::{self, KnownNames};
use crate::tool_servers;
use crate::unseen;
use crate::upgrade;
use crate::variables;

pub use crate::options::{CompileOptions, ModelCheck, ProgramCheck, SqlCheck};

/// The opening message of a session when the canvas sets none.
const PROLOGUE: &str = "Hello! How can I help you?";

/// A plan, with the warnings for its author.
#[derive(Debug)]
pub struct Compiled {
    /// The plan to run.
    pub plan: Plan,
    /// Findings that do not keep it from running, in the order of the source text.
    pub warnings: Vec<Problem>,
}

/// Checks a canvas and links it into a plan.
///
/// # Errors
/// When at least one problem is an error: all problems of the canvas, including warnings, in the order of the
/// source text.
pub fn compile(
    canvas: &Canvas,
    catalog: &Catalog,
    options: &CompileOptions<'_>,
) -> Result<Compiled, Vec<Problem>> {
    let mut problems = ProblemList::default();
    problems.extend(canvas.problems.iter().cloned());
    // Runs even if the document already has errors, so that all findings are reported together.
    let plan = Compiler::new(canvas, catalog, options).run(&mut problems);
    let failed = problems.has_errors();
    // Components derived from a drawing have objects where its forms have lists: places must name the latter.
    problems.place_anew(|pointer| drawing::written_place(canvas.as_written(), pointer));
    let found: Vec<_> =
        problems.finish(canvas.source()).into_iter().map(|problem| canvas.in_its_words(problem)).collect();
    match plan {
        Some(plan) if !failed => Ok(Compiled { plan, warnings: found }),
        _ => Err(found),
    }
}

struct Compiler<'a> {
    canvas: &'a Canvas,
    builder: Builder<'a>,
    globals: serde_json::Map<String, Json>,
    suggester: Suggester,
}

impl<'a> Compiler<'a> {
    fn new(canvas: &'a Canvas, catalog: &'a Catalog, options: &CompileOptions<'a>) -> Self {
        let globals = globals::initial(&canvas.globals, &canvas.variables);
        let builder = Builder::new(canvas, catalog, *options);
        Self { canvas, builder, globals, suggester: Suggester::default() }
    }

    fn run(mut self, problems: &mut ProblemList) -> Option<Plan> {
        for problem in unseen::problems(self.canvas.source()) {
            problems.add(problem);
        }
        // All of them first: which outputs a reference may name follows from the parameters of other nodes.
        let built: Vec<Built> = self.canvas.nodes.values().map(|node| self.node(node, problems)).collect();
        let assigned = Assigned::of(self.canvas);
        self.outputs(&built, &assigned, problems);
        self.secrets(problems);
        variables::check(self.canvas, &mut self.suggester, problems);
        problems.extend(upgrade::of_an_older_generation(self.canvas));
        let components = self.canvas.container().components();
        // Before linking, whose time grows with products of these numbers.
        limits::check(&built, &components, problems)?;
        let (entry, extra_entries) = self.entry(&built, problems)?;
        // Nothing is known about these nodes, so nothing is reported about where they lead.
        let unsound = (0..built.len()).filter(|&ix| !built[ix].sound).collect();
        let prologue = self.prologue(&entry);
        let linked = link(built.into_iter().map(|built| built.draft).collect(), &entry);
        let lost = Lost::of(self.canvas, &linked, &mut self.suggester);
        let reporter = Reporter {
            builder: &self.builder,
            linked: &linked,
            unsound: &unsound,
            extra_entries: &extra_entries,
            lost: &lost,
            assigned: &assigned,
        };
        reporter.report(problems);
        let secrets = secrets::globals(&self.canvas.variables, &linked.nodes);
        Some(Plan {
            secrets,
            version: self.canvas.version(),
            nodes: linked.nodes,
            scopes: linked.scopes,
            by_id: linked.by_id,
            components: Arc::clone(&self.builder.ids),
            globals: self.globals,
            prologue,
            is_pipeline: self.canvas.is_pipeline(),
        })
    }

    fn node(&mut self, node: &crate::CanvasNode, problems: &mut ProblemList) -> Built {
        let built = self.builder.build(node, &mut self.suggester, problems);
        if let Some(configured) = self.builder.options.tool_servers {
            tool_servers::check(node, configured, &mut self.suggester, problems);
        }
        let CompileOptions { left_out_tools, plugin_tools, .. } = self.builder.options;
        tool_servers::check_tools(node, left_out_tools, plugin_tools, &mut self.suggester, problems);
        targets::check(node, &built, &self.builder.ids, &mut self.suggester, problems);
        let shape = built.shape();
        let collected = shape.collects.iter().map(|(_, reference)| reference);
        let references: Vec<&Reference> = shape.reads.all().chain(collected).collect();
        let world =
            World { canvas: self.canvas, globals: &self.globals, secrets: self.builder.options.secrets };
        let names = self.builder.names(node);
        references::check(world, NodeText { node, names }, &references, &mut self.suggester, problems);
        built
    }

    /// Checks references to outputs and texts, once all nodes are built and their outputs are known.
    fn outputs(&mut self, built: &[Built], assigned: &Assigned<'_>, problems: &mut ProblemList) {
        let outputs = CanvasOutputs::new(self.canvas, &self.globals, built, assigned);
        let ways = GlobalWays::new(self.canvas, &self.globals, assigned);
        // Each was built from one node, in this order.
        for (node, built) in self.canvas.nodes.values().zip(built) {
            let text = NodeText { node, names: self.builder.names(node) };
            outputs.check(text, &mut self.suggester, problems);
            ways.check(text, built.shape().reads.all(), problems);
            let known = KnownNames { names: text.names, globals: &self.globals, outputs: &outputs };
            texts::check(&self.builder, known, node, &mut self.suggester, problems);
        }
    }

    fn secrets(&self, problems: &mut ProblemList) {
        for node in self.canvas.nodes.values() {
            for found in secrets::find(&node.params, self.builder.names(node)) {
                let pointer = format!("{}{}", node.place.params, found.pointer);
                let problem = Problem::warning("secret-in-clear", pointer, found.message).help(secrets::HELP);
                problems.add(problem.about(&node.id, &node.name));
            }
        }
        let names = Names { components: &self.builder.ids, item: None };
        for (name, variable) in &self.canvas.variables {
            if let Some(message) = secrets::in_variable(name, &variable.value, names) {
                let pointer = join(&variable.pointer, "value");
                problems.add(Problem::warning("secret-in-clear", pointer, message).help(secrets::HELP));
            }
        }
        // An undeclared variable has the value in the file.
        let globals = join(&self.canvas.container().pointer, "globals");
        for (global, value) in &self.canvas.globals {
            let Some(name) = global.strip_prefix("env.") else { continue };
            let message = secrets::in_variable(name, value, names);
            if let Some(message) = message.filter(|_| !self.canvas.variables.contains_key(name)) {
                let pointer = join(&globals, global);
                problems.add(Problem::warning("secret-in-clear", pointer, message).help(secrets::HELP));
            }
        }
    }

    /// Returns the node where a run starts: `begin`, or else the only component of that role.
    fn entry(
        &self,
        built: &[Built],
        problems: &mut ProblemList,
    ) -> Option<(ComponentId, HashSet<ComponentId>)> {
        let is_entry = |built: &&Built| built.draft.spec.role == Role::Entry && built.draft.parent.is_none();
        let entries: Vec<&ComponentId> = built.iter().filter(is_entry).map(|built| &built.draft.id).collect();
        // `begin` is the id that editors use; files from other sources may use another one.
        let Some(entry) = entries.iter().find(|id| id.as_str() == "begin").or(entries.first()) else {
            let pointer = self.canvas.container().components();
            let help = match self.canvas.category.as_deref() {
                Some(PIPELINE) => {
                    "add a component `File` of type File: an ingestion pipeline starts with one"
                }
                _ => "add a component `begin` of type Begin",
            };
            problems.add(
                Problem::error("no-entry", pointer, "there is no component where a run starts").help(help),
            );
            return None;
        };
        if let Some(node) = self.canvas.nodes.get(*entry).filter(|node| self.starts_no_pipeline(node)) {
            let message =
                format!("an ingestion pipeline starts with a File, but this one starts with {}", node.kind);
            let problem = Problem::warning("no-entry", &node.place.kind, message);
            problems.add(
                problem.help("make it a File, which receives the documents").about(&node.id, &node.name),
            );
        }
        let extra: HashSet<ComponentId> =
            entries.iter().filter(|id| *id != entry).map(|id| (*id).clone()).collect();
        for id in &extra {
            let Some(node) = self.canvas.nodes.get(id) else { continue };
            let message = format!("a run starts at `{entry}`, so this component never runs");
            let problem = match entry.as_str() {
                "begin" => Problem::warning("several-entries", &node.place.node, message),
                // Without a `begin` it cannot be known which of them is meant.
                _ => Problem::error(
                    "several-entries",
                    &node.place.node,
                    "there are several components where a run could start",
                ),
            };
            problems.add(problem.help("keep one Begin, with the id `begin`").about(&node.id, &node.name));
        }
        Some(((*entry).clone(), extra))
    }

    /// Whether a pipeline is supposed to start at this node, which provides no document.
    fn starts_no_pipeline(&self, node: &crate::CanvasNode) -> bool {
        self.canvas.category.as_deref() == Some(PIPELINE) && node.is_a("Begin")
    }

    fn prologue(&self, entry: &ComponentId) -> String {
        let node = self.canvas.nodes.get(entry);
        if node.is_some_and(|node| node.is_a(PIPELINE_ENTRY)) {
            return String::new();
        }
        let params = node.map(|node| &node.params);
        let param = |name: &str| params.and_then(|params| params.get(name));
        // In task mode there is no conversation to open.
        let task = param("mode").and_then(Json::as_str).is_some_and(|mode| mode.eq_ignore_ascii_case("task"));
        // Read like any other switch: an editor may write it as a text.
        let is_shown = param("enablePrologue").and_then(truth).unwrap_or(true);
        match param("prologue") {
            _ if task || !is_shown => String::new(),
            // Even an empty one: an author who clears the field wants no opening message.
            Some(Json::String(prologue)) => prologue.clone(),
            _ => PROLOGUE.to_owned(),
        }
    }
}
