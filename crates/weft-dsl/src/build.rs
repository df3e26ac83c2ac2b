//! Canvas nodes → drafts: looks up each node's type, lets it read its parameters, and continues when that fails.

mod report;

use std::collections::{HashMap, HashSet};
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Map;
use weft_core::component::{Component, ComponentSpec, Finished, NodeSource, ParamProblem, Role, Shape};
use weft_core::exception::Handling;
use weft_core::reference::Names;
use weft_core::suggest::did_you_mean;
use weft_core::{Catalog, ComponentId, Error, Json, NodeContext};

use crate::canvas::{Canvas, CanvasNode};
use crate::link::NodeDraft;
use crate::options::CompileOptions;
use crate::parameters::ParameterComparison;
use crate::partial::{self, Partial, Read, Refused};
use crate::plan::Exception;
use crate::pointer::join;
use crate::problem::{Problem, ProblemList};
use crate::suggest::Suggester;

/// Maximum nesting depth of Iterations and Loops.
// Each round of a frame opens those inside it, so the number of rounds multiplies with every level.
pub(crate) const FRAMES_DEEP_MAX: usize = 16;

/// Builds the nodes of one canvas.
pub(crate) struct Builder<'a> {
    /// The canvas.
    pub canvas: &'a Canvas,
    /// The available component types.
    pub catalog: &'a Catalog,
    /// The caller's options.
    pub options: CompileOptions<'a>,
    /// The ids of all components.
    pub ids: Arc<HashSet<ComponentId>>,
    /// The first round start of each frame.
    items: HashMap<&'a ComponentId, &'a ComponentId>,
    /// Components that others name as their parent.
    parents: HashSet<&'a ComponentId>,
    /// The components that lead to each component, in the order of the canvas.
    upstream: HashMap<&'a ComponentId, Vec<ComponentId>>,
    /// The names and ids of the existing datasets, in lower case.
    datasets: Option<HashSet<String>>,
}

/// A draft, and whether its component could be built.
pub(crate) struct Built {
    /// The draft for the linker.
    pub draft: NodeDraft,
    /// Whether its type is known and accepted its parameters.
    pub sound: bool,
    /// What is known if some of its parameters are wrong. The linker does not use it: where the node leads is a guess.
    pub partial: Option<Partial>,
}

impl Built {
    /// Returns what is known about the node.
    pub(crate) fn shape(&self) -> &Shape {
        self.partial.as_ref().map_or(&self.draft.shape, |partial| &partial.shape)
    }

    /// Returns what is known about the node if nothing of it can be missing.
    pub(crate) fn whole_shape(&self) -> Option<&Shape> {
        let is_whole = self.sound || self.partial.as_ref().is_some_and(|partial| partial.exact);
        is_whole.then(|| self.shape())
    }
}

impl<'a> Builder<'a> {
    /// Indexes the canvas.
    pub(crate) fn new(canvas: &'a Canvas, catalog: &'a Catalog, options: CompileOptions<'a>) -> Self {
        let ids = Arc::new(canvas.nodes.keys().cloned().collect());
        let parents = canvas.nodes.values().filter_map(|node| node.parent.as_ref()).collect();
        let mut upstream: HashMap<&ComponentId, Vec<ComponentId>> = HashMap::new();
        for node in canvas.nodes.values() {
            for link in &node.downstream {
                upstream.entry(&link.to).or_default().push(node.id.clone());
            }
        }
        // No two datasets of a tenant differ only in case.
        let datasets = options.datasets.map(|known| known.iter().map(|name| name.to_lowercase()).collect());
        let items = HashMap::new();
        let mut builder = Self { canvas, catalog, options, ids, items, parents, upstream, datasets };
        for node in canvas.nodes.values() {
            if let (Some(parent), Some(Role::RoundStart)) = (&node.parent, builder.role(node)) {
                // The first one counts, as in the linker, which reports any further ones.
                builder.items.entry(parent).or_insert(&node.id);
            }
        }
        builder
    }

    /// Returns the type of a node, if that type is available.
    fn spec(&self, node: &CanvasNode) -> Option<&'static ComponentSpec> {
        self.catalog.get(&node.kind).filter(|spec| self.options.measuring || !spec.measuring_only)
    }

    fn role(&self, node: &CanvasNode) -> Option<Role> {
        self.spec(node).map(|spec| spec.role)
    }

    /// Returns what the texts of a node may refer to.
    pub(crate) fn names(&self, node: &CanvasNode) -> Names<'_> {
        let above = self.frames_around(node).find(|frame| self.role(frame) == Some(Role::Each));
        Names { components: &self.ids, item: above.and_then(|frame| self.items.get(&frame.id)).copied() }
    }

    /// Whether the canvas has an Iteration.
    pub(crate) fn iterates(&self) -> bool {
        !self.items.is_empty()
    }

    fn frames_around(&self, node: &CanvasNode) -> impl Iterator<Item = &'a CanvasNode> {
        let nodes = &self.canvas.nodes;
        let parent = node.parent.as_ref().and_then(|id| nodes.get(id));
        // One more than the limit allows: the caller sees from it that there are too many, and a cycle of
        // parents ends.
        std::iter::successors(parent, |frame| frame.parent.as_ref().and_then(|id| nodes.get(id)))
            .take(FRAMES_DEEP_MAX + 1)
    }

    /// Returns the frame that a node is in, if it is a valid one.
    fn parent(
        &self,
        node: &CanvasNode,
        suggester: &mut Suggester,
        problems: &mut ProblemList,
    ) -> Option<ComponentId> {
        let id = node.parent.as_ref()?;
        let wrong = |code, message: String, help: &str| {
            Problem::error(code, &node.place.parent, message).about(&node.id, &node.name).help(help)
        };
        let Some(frame) = self.canvas.nodes.get(id) else {
            let frames = self.canvas.nodes.values().filter(|frame| {
                frame.id != node.id && matches!(self.role(frame), Some(Role::Each | Role::Repeat))
            });
            let meant = suggester.misspelled_among(id.as_str(), frames.map(|frame| frame.id.as_str()));
            let message = format!("the enclosing component `{id}` does not exist");
            let help = "put the component into an Iteration or Loop, or on the top level";
            problems.add(wrong("unknown-parent", message, help).maybe_help(meant.map(did_you_mean)));
            // Where it leads is checked as if it were in the frame that is meant. Only a frame at the top level is
            // certainly not inside of this component.
            let meant = self.canvas.nodes.get(&ComponentId::from(meant?))?;
            return meant.parent.is_none().then(|| meant.id.clone());
        };
        if let Some(spec) = self.spec(frame).filter(|spec| !matches!(spec.role, Role::Each | Role::Repeat)) {
            let message = format!(
                "the enclosing component `{id}` has the type {}, and only an Iteration or Loop has a body",
                spec.kind
            );
            problems.add(wrong("parent-without-body", message, "put the component on the top level"));
            return None;
        }
        if let Some(problem) = self.wrong_start(node, frame) {
            problems.add(problem);
        }
        if self.frames_around(node).count() > FRAMES_DEEP_MAX {
            let message =
                format!("the component is inside itself, or inside more than {FRAMES_DEEP_MAX} frames");
            problems.add(wrong("endless-nesting", message, "move it out of the inner Iterations and Loops"));
            return None;
        }
        Some(id.clone())
    }

    /// Reports the start of a round that belongs into a frame of another type.
    fn wrong_start(&self, node: &CanvasNode, frame: &CanvasNode) -> Option<Problem> {
        let (own, around) = (self.spec(node)?.kind, self.spec(frame)?.kind);
        let meant = own.strip_suffix("Item").filter(|_| self.role(node) == Some(Role::RoundStart))?;
        if meant == around {
            return None;
        }
        let message = format!("{own} starts the rounds of a {meant}, and `{}` is of type {around}", frame.id);
        let problem = Problem::warning("wrong-start", &node.place.kind, message);
        Some(problem.help(format!("make it of type {around}Item")).about(&node.id, &node.name))
    }

    /// Builds one node; its problems are added to `problems`.
    pub(crate) fn build(
        &self,
        node: &CanvasNode,
        suggester: &mut Suggester,
        problems: &mut ProblemList,
    ) -> Built {
        let parent = self.parent(node, suggester, problems);
        let exception = exception(node, problems);
        let downstream: Vec<_> = node.downstream.iter().map(|link| link.to.clone()).collect();
        let spec = self.spec(node);
        if spec.is_none() && !node.kind.is_empty() {
            problems.add(self.unknown(node, suggester));
        }
        let built = spec.map(|spec| (spec, self.component(spec, node, &node.params, &downstream)));
        let partial = match (spec, &built) {
            (Some(spec), Some((_, Err(wrong)))) => {
                let again = |params: &Map<String, Json>| self.component(spec, node, params, &downstream);
                partial::read(Refused { id: &node.id, spec, params: &node.params, wrong }, suggester, again)
            }
            _ => None,
        };
        if let Some((spec, built)) = &built {
            refused(node, built, problems);
            let told = told(built, partial.as_ref());
            let comparison = ParameterComparison { catalog: self.catalog, node, told };
            comparison.report(spec, suggester, problems);
        }
        if let Some(Partial { shape, .. }) = &partial {
            self.report(node, shape, suggester, problems);
        }
        let component = built.and_then(|(_, built)| built.ok());
        let sound = component.is_some();
        let (component, shape) = match component {
            Some(component) => {
                let shape = component.shape();
                self.report(node, &shape, suggester, problems);
                (component, shape)
            }
            // The rest of the canvas is still checked, so that an author sees all problems together.
            None => (Arc::new(UnbuiltNode) as Arc<dyn Component>, self.guess(node, &downstream)),
        };
        let spec = spec.unwrap_or_else(|| self.stand_in(node));
        let time_limit = spec.time_limit;
        let (id, name) = (node.id.clone(), Arc::clone(&node.name));
        Built {
            draft: NodeDraft { id, name, spec, component, shape, parent, downstream, exception, time_limit },
            sound,
            partial,
        }
    }

    fn component(
        &self,
        spec: &'static ComponentSpec,
        node: &CanvasNode,
        params: &Map<String, Json>,
        downstream: &[ComponentId],
    ) -> Read {
        let parent = node.parent.as_ref().and_then(|id| self.canvas.nodes.get(id));
        let source = NodeSource {
            id: &node.id,
            kind: &node.kind,
            params,
            parent: parent.map(|frame| (&frame.id, &frame.params)),
            components: &self.ids,
            item: self.names(node).item,
            downstream,
            upstream: self.upstream.get(&node.id).map(Vec::as_slice).unwrap_or_default(),
            others: self.canvas,
            measuring: self.options.measuring,
        };
        match (spec.build)(&source) {
            // Without a finding the canvas would pass as correct, and its run would reach a node that is only
            // a stand-in.
            Err(wrong) if wrong.is_empty() => {
                Err(vec![ParamProblem::new("", "the parameters are not usable")])
            }
            built => built,
        }
    }

    fn unknown(&self, node: &CanvasNode, suggester: &mut Suggester) -> Problem {
        let kinds =
            self.catalog.all().into_iter().filter(|spec| self.options.measuring || !spec.measuring_only);
        let kinds: Vec<_> = kinds.map(|spec| spec.kind).collect();
        Problem::error(
            "unknown-component",
            &node.place.kind,
            format!("there is no component type `{}`", node.kind),
        )
        .help("use one of those that `weft components` lists")
        .maybe_help(suggester.did_you_mean(&node.kind, kinds))
        .about(&node.id, &node.name)
    }

    /// Returns what to assume about a node that could not be built, so that the rest of the canvas can still
    /// be checked: it may lead to every component that its parameters name.
    fn guess(&self, node: &CanvasNode, downstream: &[ComponentId]) -> Shape {
        let mut targets = downstream.to_vec();
        collect_ids(&node.params, &self.ids, &mut targets);
        Shape { branches: Some(vec![(String::new(), targets)]), ..Shape::default() }
    }

    /// Returns the spec used for a node of unknown type.
    fn stand_in(&self, node: &CanvasNode) -> &'static ComponentSpec {
        match node.id.as_str() {
            "begin" => &UNKNOWN_ENTRY,
            // A node with a body is treated as a frame: otherwise every component inside would be reported
            // because of the unknown one.
            _ if self.parents.contains(&node.id) => &UNKNOWN_FRAME,
            _ => &UNKNOWN_STEP,
        }
    }
}

/// Reports the parameter problems for which a component could not be built.
fn refused(node: &CanvasNode, read: &Read, problems: &mut ProblemList) {
    for problem in read.as_ref().err().into_iter().flatten() {
        let pointer = format!("{}{}", node.place.params, problem.pointer);
        let code = problem.code.unwrap_or("invalid-parameter");
        let found = Problem::error(code, pointer, &problem.message);
        problems.add(found.maybe_help(problem.help.clone()).about(&node.id, &node.name));
    }
}

/// Returns the places in the parameters for which the component reports a problem itself.
fn told(read: &Read, partial: Option<&Partial>) -> HashSet<String> {
    let said = match read {
        Ok(component) => &component.shape().warnings,
        Err(wrong) => wrong,
    };
    let of_the_rest = partial.into_iter().flat_map(|partial| &partial.shape.warnings);
    // The compiler itself reports on the exception settings.
    let places = said.iter().chain(of_the_rest).map(|problem| problem.pointer.clone());
    places.chain(["/exception_method".to_owned()]).collect()
}

fn collect_ids(params: &Map<String, Json>, ids: &HashSet<ComponentId>, found: &mut Vec<ComponentId>) {
    let mut seen: HashSet<ComponentId> = found.iter().cloned().collect();
    // An explicit stack instead of recursion costs nothing here; each id is taken once.
    let mut open: Vec<&Json> = params.values().collect();
    while let Some(json) = open.pop() {
        match json {
            Json::String(text) => {
                if let Some(id) = ids.get(text.as_str()).filter(|id| seen.insert((*id).clone())) {
                    found.push(id.clone());
                }
            }
            Json::Array(items) => open.extend(items),
            Json::Object(map) => open.extend(map.values()),
            _ => {}
        }
    }
}

/// Reads the exception settings that every component has.
fn exception(node: &CanvasNode, problems: &mut ProblemList) -> Exception {
    Exception { asks_for_keys: asks_for_keys(node, problems), ..handling(node, problems) }
}

fn asks_for_keys(node: &CanvasNode, problems: &mut ProblemList) -> bool {
    match node.params.get("on_missing_credential") {
        None | Some(Json::Null) => false,
        Some(Json::String(word)) if word.is_empty() || word == "fail" => false,
        Some(Json::String(word)) if word == "ask" => true,
        Some(other) => {
            let message = format!("`on_missing_credential` is {other}, and the node will fail without a key");
            let place = join(&node.place.params, "on_missing_credential");
            let problem = Problem::warning("unknown-choice", place, message);
            problems.add(problem.help("write \"ask\" or \"fail\"").about(&node.id, &node.name));
            false
        }
    }
}

fn handling(node: &CanvasNode, problems: &mut ProblemList) -> Exception {
    let Handling { armed, goto, default } = Handling::of(&node.params);
    let method = node.params.get("exception_method").filter(|method| !method.is_null());
    if let Some(method) = method.filter(|method| !matches!(method.as_str(), Some("" | "comment" | "goto"))) {
        let message = match (armed, &default) {
            (true, Some(_)) => {
                format!("`exception_method` is {method}: the run continues with `exception_default_value`")
            }
            _ => format!("`exception_method` is {method}, which is not a way to handle a failure"),
        };
        let place = join(&node.place.params, "exception_method");
        let problem = Problem::warning("unknown-choice", place, message);
        problems.add(problem.help("write \"comment\" or \"goto\"").about(&node.id, &node.name));
        return Exception { armed, goto, default, asks_for_keys: false };
    }
    if armed && goto.is_empty() && default.is_none() {
        let (what, help) = match node.params.get("exception_method").and_then(Json::as_str) {
            Some("goto") => {
                ("continue with another component, but none is named", "name one in `exception_goto`")
            }
            _ => ("continue with another value, but none is set", "set one in `exception_default_value`"),
        };
        let message = format!("after a failure the run should {what}: it fails");
        let problem =
            Problem::warning("failure-not-handled", join(&node.place.params, "exception_method"), message);
        problems.add(problem.help(help).about(&node.id, &node.name));
    }
    Exception { armed, goto, default, asks_for_keys: false }
}

const fn unknown(role: Role) -> ComponentSpec {
    ComponentSpec {
        kind: "",
        role,
        summary: "",
        fields: &[],
        outputs: &[],
        time_limit: None,
        measuring_only: false,
        tool: None,
        build: |_| Err(Vec::new()),
    }
}

static UNKNOWN_STEP: ComponentSpec = unknown(Role::Step);
static UNKNOWN_FRAME: ComponentSpec = unknown(Role::Each);
static UNKNOWN_ENTRY: ComponentSpec = unknown(Role::Entry);

/// Stands in for a component that could not be built; its canvas never runs.
struct UnbuiltNode;

type RunFuture<'f> = Pin<Box<dyn Future<Output = weft_core::Result<Finished>> + Send + 'f>>;

impl Component for UnbuiltNode {
    fn shape(&self) -> Shape {
        Shape::default()
    }

    fn run<'f>(&'f self, _: &'f NodeContext) -> RunFuture<'f> {
        Box::pin(ready(Err(Error::internal("a canvas with errors cannot run"))))
    }
}
