//! The tools of an agent: read once with the canvas, opened for every activation.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use weft_agent::Toolkit;
use weft_agent::toolkit::numbered;
use weft_core::component::NoOthers;
use weft_core::context::Signal;
use weft_core::effect::Delivery;
use weft_core::suggest;
use weft_core::tool::{Origin, TOOL_TIME_LIMIT, Tool, ToolTraits};
use weft_core::{
    Component as _, ComponentId, ComponentSpec, Json, NodeContext, NodeSource, OutputSpec, ParamProblem,
    Reference, Result, Role, Template,
};

use super::arguments::ARGUMENTS;
use super::component_tool::{self, ComponentTool};
use super::entries::{self, Server, ToolsEntry};
use super::needs::Needs;
use super::sub_agent::{self, SubAgent};
use super::tool_shape::ToolShape;
use super::{Agent, mcp_tools};
use crate::params::Params;
use crate::{catalog, ingestion};

/// Maximum depth of agents as tools of agents, so that agents that name each other terminate.
// Each level is a future nested in another on one stack.
const DEPTH_MAX: usize = 16;
/// Maximum number of tools of an agent and all agents below it: a node that is named twice by an agent that is named
/// twice is read four times, and so on.
// Far more than a model can choose among reliably, and few enough that a canvas of agents that name each other is
// refused within a moment.
const TOOLS_MAX: usize = 200;
/// Maximum number of MCP tools that these agents list.
// Counted separately, since a model may search among hundreds of them; each is stored with the plan, looked up in what
// its server offers, and recorded in the journal.
const LISTED_MAX: usize = 2_000;

/// The position of an agent among the agents that have it as a tool.
#[derive(Clone, Copy)]
pub(super) struct Nesting<'n> {
    depth: usize,
    /// What may still be read, shared by all of them.
    left: &'n ToolsLeft,
    /// The nodes among the agents above, nearest first.
    above: Option<&'n Above<'n>>,
}

/// The number of tools that may still be read.
pub(super) struct ToolsLeft {
    /// Components and agents.
    tools: Cell<usize>,
    /// Tools of MCP servers.
    listed: Cell<usize>,
}

impl Default for ToolsLeft {
    fn default() -> Self {
        Self { tools: Cell::new(TOOLS_MAX), listed: Cell::new(LISTED_MAX) }
    }
}

/// A node whose agent is being read, and the nodes above it.
struct Above<'n> {
    node: &'n ComponentId,
    above: Option<&'n Above<'n>>,
}

impl<'n> Nesting<'n> {
    /// The position of an agent that is a node.
    pub(super) fn outermost(left: &'n ToolsLeft) -> Self {
        Self { depth: 0, left, above: None }
    }

    /// Refuses a node that is its own tool, directly or through an agent below it: it would never end.
    fn refuse_circle(self, entry: &ToolsEntry<'_>) -> Result<(), ParamProblem> {
        let Some(node) = &entry.node else { return Ok(()) };
        if std::iter::successors(self.above, |above| above.above).all(|above| above.node != node) {
            return Ok(());
        }
        let message = format!("the agent `{node}` would be a tool of itself");
        Err(ParamProblem::new(&entry.pointer, message).help("remove it"))
    }

    /// Reserves a place for one more tool.
    fn take(self) -> Result<(), ParamProblem> {
        if self.depth > DEPTH_MAX {
            let message =
                format!("agents are nested as tools more than {DEPTH_MAX} levels deep, or in a cycle");
            return Err(ParamProblem::new("/tools", message).help("remove one of them"));
        }
        let left = self.left.tools.get().checked_sub(1).ok_or_else(|| {
            let message = format!("has more than {TOOLS_MAX} tools, those of its sub-agents included");
            ParamProblem::new("/tools", message).help("remove some of them")
        })?;
        self.left.tools.set(left);
        Ok(())
    }

    /// Reserves places for `count` tools of an MCP server.
    fn take_listed(self, count: usize) -> Result<(), ParamProblem> {
        let left = self.left.listed.get().checked_sub(count).ok_or_else(|| {
            let message = format!(
                "lists more than {LISTED_MAX} tools of MCP servers, those of its sub-agents included"
            );
            ParamProblem::new("/mcp", message).help("remove some of them")
        })?;
        self.left.listed.set(left);
        Ok(())
    }
}

/// The tools of one agent.
#[derive(Default)]
pub(super) struct Toolbox {
    toolkit: Toolkit,
    /// Number of entries so far, including those left out, so that a tool's name does not depend on what this build
    /// has.
    places: usize,
    count: usize,
    servers: Vec<Server>,
    /// What the agent works without, as sentences for viewers of its runs.
    left_out: Vec<String>,
    /// Tools that are offered only if their requirements are met: function, name, requirements.
    conditional: Vec<(String, String, Needs)>,
    shape: ToolShape,
}

/// How a component is called as a tool.
struct CalledComponent {
    /// The function's name.
    name: String,
    /// The components whose outputs its parameters may refer to.
    components: Arc<HashSet<ComponentId>>,
}

/// Why an entry is not a tool of the agent.
enum Lack {
    /// It does not exist here: the agent continues without it.
    LeftOut(ParamProblem),
    /// The canvas is wrong.
    Wrong(Vec<ParamProblem>),
}

impl From<ParamProblem> for Lack {
    fn from(problem: ParamProblem) -> Self {
        Self::Wrong(vec![problem])
    }
}

impl Toolbox {
    /// Reads `tools` and `mcp`.
    pub(super) fn read(params: &mut Params<'_>, nesting: Nesting<'_>) -> Self {
        let mut toolbox = Self::default();
        let own = Above { node: params.source.id, above: None };
        // For agents below, [`Self::sub_agent`] has already set this.
        let nesting = if nesting.depth == 0 { Nesting { above: Some(&own), ..nesting } } else { nesting };
        // References know this name only here, so that no text of the canvas can refer to what a model has written.
        let mut components = params.source.components.clone();
        components.insert(ComponentId::from(ARGUMENTS));
        let components = Arc::new(components);
        for entry in entries::tools(params) {
            if let Err(problem) = nesting.take() {
                params.problem(problem);
                break;
            }
            match toolbox.add(&params.source, &entry, &components, nesting) {
                Ok(()) => {}
                Err(Lack::LeftOut(problem)) => params.warn(toolbox.leave_out(&entry, problem)),
                Err(Lack::Wrong(problems)) => {
                    problems.into_iter().for_each(|problem| params.problem(problem));
                }
            }
            toolbox.places += 1;
        }
        toolbox.servers = entries::servers(params, |count| nesting.take_listed(count));
        // An entry without tools needs no request to its server.
        toolbox.servers.retain(|server| !server.tools.is_empty());
        toolbox
    }

    /// Whether there are no tools.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.servers.is_empty()
    }

    /// Returns what the plan must know.
    pub(super) fn shape(&self) -> ToolShape {
        self.shape.clone()
    }

    /// Records a tool that is not available; returns the warning that `check` shows.
    fn leave_out(&mut self, entry: &ToolsEntry<'_>, problem: ParamProblem) -> ParamProblem {
        let message = without(&entry.name, &problem.message);
        self.left_out.push(message.clone());
        let help = problem.help.unwrap_or_else(|| "remove it, or use another component".to_owned());
        ParamProblem::new(problem.pointer, message).help(help)
    }

    /// Warns viewers of the run which tools the agent works without.
    ///
    /// # Errors
    /// `Cancelled`.
    pub(super) async fn tell_what_is_left_out(&self, ctx: &NodeContext) -> Result<()> {
        for sentence in &self.left_out {
            ctx.signal(Signal::Warn(sentence.clone())).await?;
        }
        Ok(())
    }

    /// Returns the toolkit of one activation.
    ///
    /// # Errors
    /// `Cancelled`.
    pub(super) async fn open(&self, ctx: &NodeContext) -> Result<Toolkit> {
        // A copy: each activation adds and removes tools, and one built node serves all of them.
        let toolkit = self.toolkit.fork();
        self.leave_out_what_is_in_need(&toolkit, ctx).await?;
        if !self.servers.is_empty() {
            mcp_tools::add(&toolkit, &self.servers, ctx, self.places).await?;
        }
        Ok(toolkit)
    }

    /// Removes the tools that would fail at every call, and warns the user. Which ones is stored with the run: when
    /// work is repeated it has the same tools, whatever secrets exist by then.
    async fn leave_out_what_is_in_need(&self, toolkit: &Toolkit, ctx: &NodeContext) -> Result<()> {
        if self.conditional.is_empty() {
            return Ok(());
        }
        let unmet = |(function, name, needs): &(String, String, Needs)| {
            Some((function.clone(), without(name, &needs.unmet(&ctx.inputs)?)))
        };
        let now = std::future::ready(Ok(self.conditional.iter().filter_map(unmet).collect::<Vec<_>>()));
        let (lacking, made_now) = ctx.effect("tools", Delivery::Idempotent, now).await?;
        for (function, sentence) in lacking {
            toolkit.remove(|tool| tool.name == function);
            // The agent starts again after each answer of a person; the warning was sent before.
            if made_now && ctx.resumed.is_none() {
                ctx.signal(Signal::Warn(sentence)).await?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        agent: &NodeSource<'_>,
        entry: &ToolsEntry<'_>,
        components: &Arc<HashSet<ComponentId>>,
        nesting: Nesting<'_>,
    ) -> Result<(), Lack> {
        let spec = spec(agent, entry)?;
        let own: String = entry.name.split_whitespace().collect::<Vec<_>>().join("_");
        // A tool's node is named after its agent, so that its calls can be distinguished in the journal.
        let node = ComponentId::from(format!("{}-->{own}", agent.id));
        // Before it is read: it would read itself recursively.
        nesting.refuse_circle(entry)?;
        let source = NodeSource {
            id: &node,
            kind: spec.kind,
            params: entry.params,
            parent: None,
            components,
            item: agent.item,
            downstream: &[],
            upstream: &[],
            others: agent.others,
            measuring: agent.measuring,
        };
        let is_agent = spec.kind == "Agent";
        let stem = if is_agent { own } else { component_tool::function(spec) };
        // Numbered by its place, so that two tools of one kind have different names, and the same names in each
        // process.
        let name = numbered(entry.flags.function.as_deref().unwrap_or(&stem), self.places);
        let (tool, needs) = if is_agent {
            self.sub_agent(&source, entry, name, nesting).map_err(Lack::Wrong)?
        } else {
            self.component(
                &source,
                entry,
                spec,
                CalledComponent { name, components: Arc::clone(components) },
            )?
        };
        let problem = |error: weft_core::Error| ParamProblem::new(&entry.pointer, error.full());
        let tool = self.toolkit.register(tool).map_err(problem)?;
        if !needs.is_empty() {
            self.conditional.push((tool.name.clone(), entry.name.clone(), needs));
        }
        self.count += 1;
        self.shape.calls.extend(entry.node.clone());
        Ok(())
    }

    fn sub_agent(
        &mut self,
        source: &NodeSource<'_>,
        entry: &ToolsEntry<'_>,
        name: String,
        nesting: Nesting<'_>,
    ) -> Result<(Tool, Needs), Vec<ParamProblem>> {
        let above = entry.node.as_ref().map(|node| Above { node, above: nesting.above });
        let nesting =
            Nesting { depth: nesting.depth + 1, left: nesting.left, above: above.as_ref().or(nesting.above) };
        let agent = Agent::build(source, nesting).map_err(|problems| below(entry, problems))?;
        let shape = agent.shape();
        self.shape.learn(entry, &shape);
        let description = entry.flags.description.clone();
        let description = match description {
            None => format!("{}: an agent that works on a task of its own.", entry.name),
            // Instructions call an agent by its name, which a function name cannot show in this case.
            Some(description) if !entry.name.is_ascii() && !description.contains(&entry.name) => {
                format!("{}: {description}", entry.name)
            }
            Some(description) => description,
        };
        let sources = agent.toolbox.has_sources();
        let body = SubAgent { agent: Arc::new(agent), node: source.id.clone(), function: name.clone() };
        let traits = ToolTraits {
            time_limit: super::SPEC.time_limit.unwrap_or(TOOL_TIME_LIMIT),
            sources,
            ..ToolTraits::default()
        };
        let parameters = sub_agent::parameters(entry.params);
        let origin = Origin::Agent(source.id.clone());
        let tool = Tool::new(name, description, parameters, origin, Arc::new(body));
        Ok((Tool { traits: entry.flags.over(&traits), ..tool }, Needs::of(&shape)))
    }

    fn component(
        &mut self,
        source: &NodeSource<'_>,
        entry: &ToolsEntry<'_>,
        spec: &'static ComponentSpec,
        called: CalledComponent,
    ) -> Result<(Tool, Needs), Lack> {
        let CalledComponent { name, components } = called;
        let parameters = component_tool::parameters(spec, entry.params);
        // Without its neighbours: as a tool it has no place on the canvas.
        let needs = match (spec.build)(&NodeSource { others: &NoOthers, ..*source }) {
            Ok(component) => {
                let shape = component.shape();
                if let Some(reason) = &shape.unsupported {
                    return Err(Lack::LeftOut(ParamProblem::new(&entry.named_at, reason)));
                }
                if let Some(lacks) = shape.lacks {
                    let pointer = format!("{}/params{}", entry.pointer, lacks.pointer);
                    let message = format!("`{}` {}", lacks.pointer.trim_start_matches('/'), lacks.message);
                    return Err(Lack::LeftOut(ParamProblem { pointer, message, ..lacks }));
                }
                self.shape.learn(entry, &shape);
                Needs::of(&shape)
            }
            Err(problems) => {
                // What the model will fill in may still be missing; a problem with what is present is the canvas's own
                // mistake.
                let open = |problem: &ParamProblem| {
                    let name = problem.pointer.trim_start_matches('/').split('/').next().unwrap_or_default();
                    let filled_in = parameters.pointer("/properties").and_then(|all| all.get(name)).is_some();
                    filled_in
                        && !entry.params.get(name).is_some_and(|value| component_tool::is_set(name, value))
                };
                let problems: Vec<_> = problems.into_iter().filter(|problem| !open(problem)).collect();
                if !problems.is_empty() {
                    return Err(Lack::Wrong(below(entry, problems)));
                }
                let mut found = Vec::new();
                for value in entry.params.values() {
                    references(value, source, &mut found);
                }
                let needs = Needs::of_references(&found);
                self.shape.reads.append(&mut found);
                needs
            }
        };
        let body = ComponentTool {
            spec,
            node: source.id.clone(),
            function: name.clone(),
            params: Arc::new(component_tool::of_canvas(spec, entry.params)),
            parameters: Arc::new(parameters.clone()),
            components,
            item: source.item.cloned(),
        };
        let traits = ToolTraits {
            idempotent: spec.tool.as_ref().is_some_and(|tool| tool.idempotent),
            sources: spec.tool.as_ref().is_some_and(|tool| tool.sources),
            time_limit: spec.time_limit.unwrap_or(Duration::from_secs(60)),
            ..ToolTraits::default()
        };
        let description = entry.flags.description.clone().unwrap_or_else(|| spec.summary.to_owned());
        let origin = Origin::Component(source.id.clone());
        let tool = Tool::new(name, description, parameters, origin, Arc::new(body));
        let returns = component_tool::returns(spec);
        Ok((Tool { traits: entry.flags.over(&traits), returns, ..tool }, needs))
    }

    /// Whether some tool adds sources that the answer may cite.
    fn has_sources(&self) -> bool {
        use weft_core::tool::ToolSession as _;
        self.toolkit.tools().iter().any(|tool| tool.traits.sources)
    }
}

/// Returns the warning about a tool that is not offered.
fn without(name: &str, why: &str) -> String {
    format!("the agent continues without the tool `{name}`: {why}")
}

fn spec(agent: &NodeSource<'_>, entry: &ToolsEntry<'_>) -> Result<&'static ComponentSpec, Lack> {
    let pointer = entry.named_at.clone();
    let known = catalog::find(entry.kind).filter(|spec| agent.measuring || !spec.measuring_only);
    let Some(spec) = known else {
        let problem = ParamProblem::new(pointer, format!("there is no component `{}`", entry.kind));
        let tools = catalog::ALL.iter().filter(|spec| spec.role == Role::Step && !spec.measuring_only);
        let tools = tools.map(|spec| spec.kind);
        return Err(Lack::LeftOut(match suggest::nearest(entry.kind, tools) {
            Some(meant) => problem.help(suggest::did_you_mean(meant)),
            None => problem,
        }));
    };
    if spec.role == Role::Step && only_chooses(spec) {
        let message = format!("`{}` chooses the next component of a run, which a tool cannot do", spec.kind);
        let problem = ParamProblem::new(pointer, message);
        return Err(Lack::LeftOut(problem.help("put it after the agent as a node of the canvas")));
    }
    if ingestion::is_step(spec) {
        let message = format!("`{}` is a step of an ingestion pipeline, not a tool", spec.kind);
        let help = "an agent cannot pass it a document; use Retrieval to search ingested documents";
        return Err(ParamProblem::new(pointer, message).help(help).into());
    }
    if spec.role == Role::Step {
        return Ok(spec);
    }
    Err(ParamProblem::new(pointer, format!("`{}` cannot be a tool", spec.kind))
        .help("use a component that performs a single step")
        .into())
}

/// Whether a component only outputs the names of the components that the run continues with.
fn only_chooses(spec: &ComponentSpec) -> bool {
    let names_targets = |output: &OutputSpec| matches!(output.name, "_next" | "next");
    !spec.outputs.is_empty() && spec.outputs.iter().all(names_targets)
}

/// Moves problems of a tool's parameters to their pointers within the agent's parameters.
fn below(entry: &ToolsEntry<'_>, problems: Vec<ParamProblem>) -> Vec<ParamProblem> {
    let moved = |problem: ParamProblem| {
        let pointer = format!("{}/params{}", entry.pointer, problem.pointer);
        ParamProblem { pointer, ..problem }
    };
    problems.into_iter().map(moved).collect()
}

/// Collects the references in the texts of a value.
fn references(value: &Json, source: &NodeSource<'_>, found: &mut Vec<Reference>) {
    match value {
        Json::String(text) => found.extend(Template::parse_value(text, source.names()).references().cloned()),
        Json::Array(items) => items.iter().for_each(|item| references(item, source, found)),
        Json::Object(map) => map.values().for_each(|item| references(item, source, found)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}
