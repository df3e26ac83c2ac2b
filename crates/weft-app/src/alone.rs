//! Runs a single component on a private copy of a canvas, with values that a user has entered.
//!
//! The components that it reads from are replaced by stand-ins: nodes whose outputs are pinned to the entered values.
//! The engine runs it like any other canvas, within the same budgets and limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, json};
use tokio_util::sync::CancellationToken;
use weft_core::component::Role;
use weft_core::context::Pin;
use weft_core::reference::Inputs;
use weft_core::seam::session_store::Session;
use weft_core::{
    CanvasId, CanvasKey, ComponentId, ComponentSpec, Error, ErrorKind, Json, Outputs, Record, Reference,
    Result, RunId, SessionId, SessionKey, TurnInput,
};
use weft_dsl::canvas::{Canvas, CanvasNode, NodePlace, WrittenEdge};
use weft_dsl::plan::PlanNode;
use weft_dsl::{CompileOptions, Plan};
use weft_engine::{RunHandle, SessionState, StartRun};

use crate::app::App;
use crate::checking::refusal;

/// Time limit of the run of a single component.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// Maximum number of parts in the name of a value.
// Each part is a level of the object that is built from the names. A canvas has room for names with so many parts
// that the stack would overflow when the object is dropped, and journals are only parsed to a depth of 128 levels.
const NAME_PARTS_MAX: usize = 64;

/// Maximum number of bytes of references that are written out in a component.
// Both the texts and the id that is inserted come from the canvas, so that their product could be any size.
const WRITTEN_OUT_BYTES_MAX: usize = weft_dsl::DOCUMENT_BYTES_MAX;

/// Canvas id of its conversation, which belongs to no canvas: so it is in no list and cannot be continued.
const NO_CANVAS: &str = "alone";

/// Globals that a run sets itself, so that they need not be entered.
const SET_BY_RUNS: [&str; 5] =
    ["sys.conversation_turns", "sys.history", "sys.date", "sys.run_id", "sys.usage"];

impl App {
    /// Returns the form for running a component alone: the field of each value, by its name.
    ///
    /// # Errors
    /// `NotFound` for an unknown canvas; `Invalid` for a component that does not exist or cannot run alone.
    pub async fn input_form(&self, key: &CanvasKey, component: &str) -> Result<Map<String, Json>> {
        Ok(self.alone(key, component).await?.form())
    }

    /// Runs a component alone and returns its outputs. Its usage is recorded, and nothing else is stored. If it
    /// fails, the outputs contain the reason under `_ERROR`.
    ///
    /// # Errors
    /// As [`App::input_form`]; `Invalid` for a value that it does not use; as [`App::start_turn`]; `Timeout`.
    pub async fn run_alone(
        &self,
        key: &CanvasKey,
        user_id: &str,
        component: &str,
        values: Map<String, Json>,
    ) -> Result<Map<String, Json>> {
        let alone = self.alone(key, component).await?;
        alone.check(&values)?;
        if matches!(alone.spec.role, Role::Entry | Role::Pause) {
            return Ok(alone.filled(values));
        }
        let (input, globals) = alone.given(user_id, values);
        let input = self.files_read(&key.tenant, user_id, input, &Arc::default()).await?;
        let (app, key, name) = (self.clone(), key.clone(), component.to_owned());
        let run = async move |given_up: CancellationToken| {
            let outputs = app.outputs_of_one(&key, &alone, (input, globals), &given_up).await?;
            outputs.ok_or_else(|| {
                let seconds = TIME_LIMIT.as_secs();
                let message = format!("`{name}` did not finish within {seconds} s");
                Error::new(ErrorKind::Timeout, message).help("try it with a smaller input")
            })
        };
        self.whole(run).await?
    }

    /// Returns the outputs of a component that runs in its own conversation, which is deleted at the end; `None` if
    /// it has not finished in time, or nothing waits for it any more.
    async fn outputs_of_one(
        &self,
        key: &CanvasKey,
        alone: &ComponentTrial,
        (input, globals): (TurnInput, Map<String, Json>),
        given_up: &CancellationToken,
    ) -> Result<Option<Map<String, Json>>> {
        let session = self.session_for_one(key, &alone.plan, globals, &input.user_id).await?;
        let request = StartRun {
            plan: Arc::clone(&alone.plan),
            canvas: key.id.clone(),
            session: session.key.clone(),
            input,
            seed: None,
            task: None,
        };
        let ended = match self.engine.start_of(RunId::generate(), request, Some(&session)).await {
            Ok(handle) => {
                // In any case, nothing of the run is under way when its conversation is deleted.
                let _stops = handle.cancel.clone().drop_guard();
                let outputs = outputs(handle, &alone.id);
                let in_time = tokio::time::timeout(TIME_LIMIT, given_up.run_until_cancelled(outputs));
                in_time.await.ok().flatten().transpose()
            }
            Err(error) => Err(error),
        };
        self.remove_session(&session.key).await?;
        ended
    }

    async fn session_for_one(
        &self,
        key: &CanvasKey,
        plan: &Plan,
        globals: Map<String, Json>,
        user_id: &str,
    ) -> Result<Session> {
        let now_ms = self.clock.now_ms();
        let session = Session {
            user_id: user_id.to_owned(),
            ..Session::new(
                SessionKey::new(&key.tenant, SessionId::generate()),
                CanvasId::from(NO_CANVAS),
                Arc::clone(&plan.version),
                SessionState { globals, ..SessionState::new(plan) }.to_json()?,
                now_ms,
            )
        };
        self.sessions.create(&session, &[]).await?;
        Ok(session)
    }

    /// Reduces the newest version of a canvas to what is needed to run one of its components alone.
    async fn alone(&self, key: &CanvasKey, component: &str) -> Result<ComponentTrial> {
        let dsl = self.canvases.get(key).await?.dsl;
        let (catalog, id) = (Arc::clone(&self.catalog), ComponentId::from(component));
        let (check, tenant) = (Arc::clone(&self.model_check), key.tenant.clone());
        let measuring = self.measuring;
        // Compiling a large canvas would block all other work on this thread.
        let made = tokio::task::spawn_blocking(move || {
            let mut canvas = weft_dsl::load(dsl.as_bytes()).map_err(|problems| refusal(&problems))?;
            let spec = runnable(&canvas, &id, |kind| catalog.get(kind))?;
            let names = canvas.nodes.iter().map(|(id, node)| (id.clone(), Arc::clone(&node.name))).collect();
            let entry = isolate(&mut canvas, &id)?;
            let check = |llm_id: &str| check(&tenant, llm_id);
            let compiled = |canvas: &Canvas| {
                let options = CompileOptions { models: Some(&check), measuring, ..CompileOptions::default() };
                let compiled = weft_dsl::compile(canvas, &catalog, &options);
                compiled.map(|compiled| compiled.plan).map_err(|problems| refusal(&problems))
            };
            // Compiled twice: what it reads is only known from a plan, and the stand-ins for that are part of the
            // second one.
            let stand_ins = read_from(node_of(&compiled(&canvas)?, &id)?);
            lead(&mut canvas, &entry, &id, &stand_ins);
            let mut plan = compiled(&canvas)?;
            // A version that the canvas does not have, so that no other process recovers the run when it is
            // interrupted.
            plan.version = Arc::from(NO_CANVAS);
            Ok(ComponentTrial { id, spec, plan: Arc::new(plan), stand_ins, names })
        });
        made.await.map_err(|cause| {
            Error::internal("a component could not be taken out of its canvas").because(cause)
        })?
    }
}

/// A component with stand-ins for everything that it reads.
struct ComponentTrial {
    id: ComponentId,
    spec: &'static ComponentSpec,
    plan: Arc<Plan>,
    stand_ins: Vec<ComponentId>,
    /// The display names of all components.
    names: BTreeMap<ComponentId, Arc<str>>,
}

impl ComponentTrial {
    fn node(&self) -> Option<&PlanNode> {
        self.plan.nodes.iter().find(|node| node.id == self.id)
    }

    fn form(&self) -> Map<String, Json> {
        let Some(node) = self.node() else { return Map::new() };
        if matches!(self.spec.role, Role::Entry | Role::Pause) {
            return node.component.form(&Inputs::default()).fields;
        }
        let field = |reference: &Reference| {
            let name = self.shown(reference);
            let field = json!({"type": "line", "name": name, "optional": false, "options": [], "value": ""});
            (reference.to_string(), field)
        };
        typed_in(node).map(field).collect()
    }

    /// Returns the name of a value for people.
    fn shown(&self, reference: &Reference) -> String {
        match reference {
            Reference::Global(name) => name.to_string(),
            Reference::Output { component, path } => {
                let name = self.names.get(component).map_or(component.as_str(), |name| name);
                format!("{name}@{path}")
            }
        }
    }

    fn check(&self, values: &Map<String, Json>) -> Result<()> {
        if values.keys().any(|name| name.split('.').count() > NAME_PARTS_MAX) {
            let message =
                format!("a value that `{}` reads has a name of more than {NAME_PARTS_MAX} parts", self.id);
            return Err(Error::invalid(message).help("read a less deeply nested value in the canvas"));
        }
        let form = self.form();
        let Some(unknown) = values.keys().find(|name| !form.contains_key(*name)) else { return Ok(()) };
        let known: Vec<&str> = form.keys().map(String::as_str).collect();
        let help = match known.as_slice() {
            [] => "it reads no values, so leave `params` empty".to_owned(),
            known => format!("it reads {}", known.join(", ")),
        };
        Err(Error::invalid(format!("`{}` reads no `{unknown}`", self.id)).help(help))
    }

    /// Returns the input of a turn in which the component reads these values, and the variables at its start.
    fn given(&self, user_id: &str, values: Map<String, Json>) -> (TurnInput, Map<String, Json>) {
        let mut globals = self.plan.globals.clone();
        let mut input = TurnInput { user_id: user_id.to_owned(), ..TurnInput::default() };
        // A stand-in without an entered value has no outputs.
        input.pins = self.stand_ins.iter().map(|id| (id.clone(), Pin::default())).collect();
        for (name, value) in values {
            match (name.as_str(), Reference::of_name(&name)) {
                ("sys.query", _) => input.query = weft_core::value::to_text(&value),
                ("sys.user_id", _) => input.user_id = weft_core::value::to_text(&value),
                ("sys.files", _) => input.files = files(value),
                (_, Reference::Global(name)) => drop(globals.insert(name.to_string(), value)),
                (_, Reference::Output { component, path }) => {
                    put(&mut input.pins.entry(component).or_default().outputs, &path, value);
                }
            }
        }
        (input, globals)
    }

    /// Returns the outputs of a component that only asks for values: these, or the defaults of its fields.
    fn filled(&self, mut values: Map<String, Json>) -> Map<String, Json> {
        let field = |(name, field): (String, Json)| {
            let value = values.remove(&name).or_else(|| field.get("value").cloned());
            (name, value.unwrap_or_default())
        };
        self.form().into_iter().map(field).collect()
    }
}

/// Returns the references that it reads and a user can set, without repetitions.
fn typed_in(node: &PlanNode) -> impl Iterator<Item = &Reference> {
    let mut seen: Vec<&Reference> = Vec::new();
    let reads = node.reads.iter().chain(node.alternative_reads.iter().flatten()).map(|read| &read.reference);
    for reference in reads {
        let fixed = match reference {
            Reference::Global(name) => reference.secret().is_some() || SET_BY_RUNS.contains(&&**name),
            // Its own outputs of an earlier pass are not inputs.
            Reference::Output { component, .. } => *component == node.id,
        };
        if !fixed && !seen.contains(&reference) {
            seen.push(reference);
        }
    }
    seen.into_iter()
}

/// Returns the components whose outputs it reads.
fn read_from(node: &PlanNode) -> Vec<ComponentId> {
    let mut from: Vec<ComponentId> = Vec::new();
    for component in typed_in(node).filter_map(Reference::component) {
        if !from.contains(component) {
            from.push(component.clone());
        }
    }
    from
}

fn node_of<'a>(plan: &'a Plan, id: &ComponentId) -> Result<&'a PlanNode> {
    plan.nodes.iter().find(|node| node.id == *id).ok_or_else(|| no_component(id))
}

fn no_component(id: &ComponentId) -> Error {
    Error::invalid(format!("the canvas has no component `{id}`"))
        .help("name it by its id, such as `Agent:Writer`")
}

/// Returns the type of a component if it can run alone.
fn runnable(
    canvas: &Canvas,
    id: &ComponentId,
    spec: impl Fn(&str) -> Option<&'static ComponentSpec>,
) -> Result<&'static ComponentSpec> {
    let node = canvas.nodes.get(id).ok_or_else(|| no_component(id))?;
    let kind = &node.kind;
    if canvas.is_pipeline() {
        return Err(Error::invalid(format!(
            "`{id}` is part of an ingestion pipeline, which needs a document"
        ))
        .help("assign the pipeline to a dataset to see its documents"));
    }
    let spec = spec(kind).ok_or_else(|| {
        Error::invalid(format!("`{id}` is of the unknown component type `{kind}`"))
            .help("`GET /api/v1/components` lists the component types")
    })?;
    match spec.role {
        Role::Entry | Role::Step | Role::Pause => Ok(spec),
        Role::Each | Role::Repeat | Role::RoundStart | Role::Leave => {
            Err(Error::invalid(format!("`{id}` is a loop or a part of one, which cannot run on its own"))
                .help("try a component inside it, or run the whole agent"))
        }
    }
}

/// Replaces all other components by stand-ins, except those that it calls, and returns the id of a new entry.
///
/// # Errors
/// `Invalid` when its references to the items of an Iteration become too large.
fn isolate(canvas: &mut Canvas, id: &ComponentId) -> Result<ComponentId> {
    let item = canvas.nodes.get(id).and_then(|node| item_of(canvas, node));
    let called = called_by(canvas, id);
    let entry = canvas.nodes.get(id).is_some_and(|node| node.kind == "Begin");
    let mut room = WRITTEN_OUT_BYTES_MAX;
    for (other, node) in &mut canvas.nodes {
        node.downstream.clear();
        node.parent = None;
        if other != id && !called.contains(other) {
            // A pinned node produces the given outputs whatever its type, and this type needs nothing else.
            "Message".clone_into(&mut node.kind);
            node.params = Map::from_iter([("content".to_owned(), json!([""]))]);
        } else if let Some(item) = &item {
            node.params.values_mut().try_for_each(|value| name_item(value, item, &mut room))?;
        }
    }
    if entry {
        return Ok(id.clone());
    }
    let mut new = ComponentId::from("Begin:Alone");
    // The canvas may have a component with this id.
    while canvas.nodes.contains_key(&new) {
        new = format!("{new}0").into();
    }
    let node = CanvasNode {
        id: new.clone(),
        kind: "Begin".to_owned(),
        name: Arc::from("Begin"),
        params: Map::new(),
        downstream: Vec::new(),
        parent: None,
        place: NodePlace::default(),
    };
    canvas.nodes.insert(new.clone(), node);
    Ok(new)
}

/// Connects the entry to the component through the stand-ins.
fn lead(canvas: &mut Canvas, entry: &ComponentId, id: &ComponentId, stand_ins: &[ComponentId]) {
    let edge = |to: &ComponentId| WrittenEdge { to: to.clone(), pointer: String::new() };
    for stand_in in stand_ins {
        if let Some(node) = canvas.nodes.get_mut(stand_in) {
            node.downstream = vec![edge(id)];
        }
    }
    let Some(node) = canvas.nodes.get_mut(entry).filter(|_| entry != id) else { return };
    node.downstream =
        if stand_ins.is_empty() { vec![edge(id)] } else { stand_ins.iter().map(edge).collect() };
}

/// Returns the node that produces the items of the Iteration which contains a node.
fn item_of(canvas: &Canvas, node: &CanvasNode) -> Option<ComponentId> {
    let parent = node.parent.as_ref()?;
    let mut inside = canvas.nodes.values().filter(|other| other.parent.as_ref() == Some(parent));
    inside.find(|other| other.kind == "IterationItem").map(|item| item.id.clone())
}

/// Replaces references such as `{item}`, which are only valid within an Iteration, by references to the item node, as
/// long as there is `room` for them, in bytes.
fn name_item(value: &mut Json, item: &ComponentId, room: &mut usize) -> Result<()> {
    match value {
        Json::String(text) => {
            for alias in ["item", "index", "result"] {
                let (short, long) = (format!("{{{alias}}}"), format!("{{{item}@{alias}}}"));
                // Counted before the text is built, which would otherwise exhaust the memory.
                let added = text.matches(short.as_str()).count().saturating_mul(long.len());
                if added > 0 {
                    *room = room.checked_sub(added).ok_or_else(written_out_too_large)?;
                    *text = text.replace(&short, &long);
                }
            }
        }
        Json::Array(items) => items.iter_mut().try_for_each(|one| name_item(one, item, room))?,
        Json::Object(members) => members.values_mut().try_for_each(|one| name_item(one, item, room))?,
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
    Ok(())
}

fn written_out_too_large() -> Error {
    let message = format!(
        "written out, the references to the items of the Iteration take more than {WRITTEN_OUT_BYTES_MAX} bytes"
    );
    Error::invalid(message)
        .help("shorten the id of the component that gives the items, or use fewer references")
}

/// Returns the components that an agent calls as tools, including those that these call.
fn called_by(canvas: &Canvas, id: &ComponentId) -> Vec<ComponentId> {
    let (mut called, mut next) = (Vec::new(), vec![id.clone()]);
    while let Some(caller) = next.pop() {
        let Some(node) = canvas.nodes.get(&caller).filter(|node| node.kind == "Agent") else { continue };
        let mut named = Vec::new();
        node.params.values().for_each(|value| names_in(value, &mut named));
        for name in named {
            let name = ComponentId::from(name);
            // Agents may name each other in a circle.
            if canvas.nodes.contains_key(&name) && !called.contains(&name) && name != *id {
                called.push(name.clone());
                next.push(name);
            }
        }
    }
    called
}

fn names_in<'a>(value: &'a Json, named: &mut Vec<&'a str>) {
    match value {
        Json::String(text) => named.push(text),
        Json::Array(items) => items.iter().for_each(|one| names_in(one, named)),
        Json::Object(members) => members.values().for_each(|one| names_in(one, named)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn files(value: Json) -> Vec<Json> {
    match value {
        Json::Array(files) => files,
        Json::Null => Vec::new(),
        Json::String(text) if text.is_empty() => Vec::new(),
        one => vec![one],
    }
}

/// Sets the value at a path, which consists of an output and, after dots, a path inside of it.
fn put(outputs: &mut Outputs, path: &str, value: Json) {
    let (name, inside) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let known = outputs.get(name).and_then(|value| value.as_json().cloned());
    let mut whole = known.filter(Json::is_object).unwrap_or_else(|| json!({}));
    let Some(inside) = inside else {
        outputs.set(name, value);
        return;
    };
    let mut place = &mut whole;
    for part in inside.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = value;
    outputs.set(name, whole);
}

/// Returns the outputs of a node once its run has ended. The run is stopped when nothing waits for it any more.
async fn outputs(mut handle: RunHandle, id: &ComponentId) -> Result<Map<String, Json>> {
    let mut given: Option<Map<String, Json>> = None;
    while let Some(entry) = handle.entries.next().await? {
        match &entry.record {
            Record::NodeFinished { who, outputs, error, .. } if who.node == *id => {
                let mut told = match serde_json::to_value(&**outputs) {
                    Ok(Json::Object(told)) => told,
                    _ => Map::new(),
                };
                if let Some(error) = error {
                    told.insert("_ERROR".to_owned(), Json::from(&**error));
                }
                given = Some(told);
            }
            // The run may fail before the component starts, at one of its limits.
            Record::RunFinished { error: Some(error), .. } if given.is_none() => {
                given = Some(Map::from_iter([("_ERROR".to_owned(), Json::from(&**error))]));
            }
            Record::Waiting { .. } => {
                let why = "it waits for a person, who can answer in a conversation with the agent only";
                given.get_or_insert_default().insert("_ERROR".to_owned(), why.into());
            }
            _ => {}
        }
    }
    Ok(given.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_output_names_become_nested_objects() {
        let mut outputs = Outputs::default();
        put(&mut outputs, "content", json!("a"));
        put(&mut outputs, "structured.name", json!("Ann"));
        put(&mut outputs, "structured.age.years", json!(3));
        let told = serde_json::to_value(&outputs).unwrap();
        assert_eq!(told, json!({"content": "a", "structured": {"name": "Ann", "age": {"years": 3}}}));
    }

    #[test]
    fn item_and_index_aliases_are_expanded() {
        let mut value = json!({"content": ["{item} of {index}", 1, {"a": "{item"}]});
        name_item(&mut value, &"IterationItem:I".into(), &mut 1_000).unwrap();
        let named =
            json!({"content": ["{IterationItem:I@item} of {IterationItem:I@index}", 1, {"a": "{item"}]});
        assert_eq!(value, named);
    }

    #[test]
    fn written_out_references_are_limited_before_they_are_built() {
        let long = ComponentId::from("x".repeat(1 << 20));
        let before = json!({"content": ["{item}".repeat(1_000), "{index}"]});
        let (mut value, mut room) = (before.clone(), WRITTEN_OUT_BYTES_MAX);
        let refused = name_item(&mut value, &long, &mut room).unwrap_err();
        assert_eq!((refused.kind, value), (ErrorKind::Invalid, before));
        assert!(refused.full().len() < 1_000, "the id is not repeated");
        // Several texts share the room.
        let (mut twice, mut room) = (json!(["{item}", "{item}"]), 3 * long.as_str().len() / 2);
        assert!(name_item(&mut twice, &long, &mut room).is_err());
    }
}
