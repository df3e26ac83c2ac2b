//! Tools for building a canvas: the available components, checking a canvas, storing a draft, and inspecting its
//! runs. None of them publishes anything: that is left to people.

use serde_json::{Map, Value as Json, json};
use weft_core::access::Permission;
use weft_core::component_reference::described;
use weft_core::seam::canvas_store::{CHAT_TYPE, CanvasHead, StoredCanvas};
use weft_core::value::{shortened, to_text};
use weft_core::{CanvasKey, Error, ErrorKind, Record, RunKey, changes};
use weft_dsl::Problem;
use weft_mcp::serving::{Call, Outcome, RpcError};

use super::agents::AgentQuestion;
use super::arguments::Arguments;
use super::tool::{BuiltIn, Changes, Done, arguments, done};
use super::{Offering, results};
use crate::answer::Answer;
use crate::body::unseen;

/// Maximum number of characters of an output that are shown.
// Clients put results into the context of a model, where room is scarce.
const OUTPUT_CHARS_MAX: usize = 2_000;
/// Maximum number of activations of a run that are shown.
const STEPS_MAX: usize = 500;

pub(super) static TOOLS: &[BuiltIn] = &[
    BuiltIn {
        name: "list_components",
        title: "List components",
        description: "Lists the component types that a canvas can use: the name of each and what it does.",
        changes: Changes::Nothing,
        needs: Permission::Read,
        arguments: || arguments(&json!({}), &[]),
        run: |_, _| done(async { Ok(components()) }),
    },
    BuiltIn {
        name: "component_schema",
        title: "Describe a component",
        description: "Describes a component type: its parameters as a JSON Schema, its outputs, and how agents call it.",
        changes: Changes::Nothing,
        needs: Permission::Read,
        arguments: || {
            let name =
                json!({"type": "string", "description": "Name from `list_components`, such as Agent."});
            arguments(&json!({"name": name}), &["name"])
        },
        run: |_, call| done(async { component(call) }),
    },
    BuiltIn {
        name: "check_canvas",
        title: "Check a canvas",
        description: "Reports every problem in a canvas, each with its location and how to fix it. Stores nothing.",
        changes: Changes::Nothing,
        needs: Permission::Read,
        arguments: || arguments(&json!({"canvas": canvas()}), &["canvas"]),
        run: |offering, call| done(offering.check_canvas(call)),
    },
    BuiltIn {
        name: "put_canvas",
        title: "Store a draft",
        description: "Stores a canvas as a draft, new or as the next version of an existing one, and reports its problems. \
            The published version does not change.",
        changes: Changes::Something,
        needs: Permission::Edit,
        arguments: || {
            let text = |what: &str| json!({"type": "string", "description": what});
            let properties = json!({
                "canvas": canvas(),
                "id": text("Id of the canvas to change; default: a new one is created."),
                "title": text("Title, unique among all canvases; required for a new one."),
                "description": text("Purpose."),
            });
            arguments(&properties, &["canvas"])
        },
        run: |offering, call| done(offering.put_canvas(call)),
    },
    BuiltIn {
        name: "run_canvas",
        title: "Try a draft",
        description: "Runs the newest version of a canvas, published or not, and returns its answer.",
        changes: Changes::Something,
        needs: Permission::Run,
        arguments: || {
            let text = |what: &str| json!({"type": "string", "description": what});
            let properties = json!({
                "id": text("Id of the canvas."),
                "query": text("The question."),
                "inputs": {"type": "object", "description": "Values for the fields of its Begin form."},
                "session_id": text("Session to continue, from an earlier answer."),
            });
            arguments(&properties, &["id"])
        },
        // The only one of these tools that may ask the client something, so it returns an outcome of its own.
        run: |offering, call| Box::pin(offering.run_canvas(call)),
    },
    BuiltIn {
        name: "get_run",
        title: "Look at a run",
        description: "Shows what a run did: each step with its outputs or its error, the answer, and the final status.",
        changes: Changes::Nothing,
        needs: Permission::Read,
        arguments: || {
            let id = json!({"type": "string", "description": "The `run_id` of an answer."});
            arguments(&json!({"run_id": id}), &["run_id"])
        },
        run: |offering, call| done(offering.get_run(call)),
    },
];

fn canvas() -> Json {
    json!({"type": "object", "description": "The canvas: {\"components\": {ID: {\"obj\": {\"component_name\", \"params\"}, \
        \"downstream\": [IDs]}}, …}; the one of type Begin is called `begin`."})
}

fn components() -> Map<String, Json> {
    let one = |spec: &weft_core::ComponentSpec| json!({"name": spec.kind, "summary": spec.summary});
    results::data(json!({"components": weft_app::components().map(one).collect::<Json>()}))
}

fn component(call: &Call) -> Done {
    let name = Arguments(&call.arguments).required_id("name")?;
    match weft_app::components().find(|spec| spec.kind == name) {
        Some(spec) => Ok(results::data(described(spec, weft_app::example(spec.kind)))),
        None => Ok(results::failed(&format!("there is no component `{name}`; `list_components` lists them"))),
    }
}

/// The problems of a call's canvas that its text shows and its parsed form has lost.
fn lost(call: &Call) -> Vec<Problem> {
    unseen(call.arguments.get("canvas"), &call.text, "params/arguments/canvas")
}

/// The errors in a canvas, and whether it can run.
fn found(problems: &[Problem]) -> Json {
    json!({"runnable": !problems.iter().any(Problem::is_error), "problems": problems})
}

impl Offering {
    async fn check_canvas(&self, call: &Call) -> Done {
        let canvas = Arguments(&call.arguments).canvas()?;
        match self.app().check_canvas(self.tenant(), &canvas).await {
            Ok(mut problems) => {
                problems.extend(lost(call));
                Ok(results::data(found(&problems)))
            }
            // Returned as a result, which the model reads; only the client sees an error of the protocol.
            Err(error) if error.kind == ErrorKind::Invalid => Ok(results::failed(&error.full())),
            Err(error) => Err(error.into()),
        }
    }

    async fn put_canvas(&self, call: &Call) -> Done {
        let arguments = Arguments(&call.arguments);
        let (canvas, id) = (arguments.canvas()?, arguments.id("id")?);
        let (title, description) = (arguments.text("title")?, arguments.text("description")?);
        let head = |known: CanvasHead| CanvasHead {
            title: title.map_or(known.title, str::to_owned),
            description: description.map_or(known.description, str::to_owned),
            // The canvas no longer matches the file that it came from.
            source: String::new(),
            ..known
        };
        let stored = match id {
            None if title.is_none() => return Err(RpcError::params("a new canvas needs a `title`")),
            None => {
                let new = CanvasHead { permission: "me".to_owned(), ..CanvasHead::default() };
                self.app().put_canvas(self.tenant(), None, head(new), &canvas).await
            }
            Some(id) => {
                let stored = changes::made("canvas", || async {
                    let Some(seen) = self.known(id).await? else {
                        return Err(Error::not_found(no_canvas(id)));
                    };
                    self.app().change_canvas(&seen, head(seen.head.clone()), &canvas).await
                });
                stored.await
            }
        };
        match stored {
            Ok((stored, mut problems)) => {
                problems.extend(lost(call));
                let mut data = found(&problems);
                data["id"] = json!(stored.key.id);
                data["version"] = json!(stored.version);
                Ok(results::data(data))
            }
            Err(error) if error.kind == ErrorKind::Conflict => Ok(results::failed(
                "another canvas has this title: choose another one, or give the `id` of that canvas",
            )),
            Err(error) if matches!(error.kind, ErrorKind::Invalid | ErrorKind::NotFound) => {
                Ok(results::failed(&error.full()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a canvas if it exists.
    async fn known(&self, id: &str) -> weft_core::Result<Option<StoredCanvas>> {
        let canvas =
            weft_core::error::found(self.app().canvases.get(&CanvasKey::new(self.tenant(), id)).await)?;
        // The canvas of a chat assistant can only be changed by the assistant's own routes.
        Ok(canvas.filter(|canvas| canvas.head.canvas_type != CHAT_TYPE))
    }

    async fn run_canvas(&self, call: &Call) -> Result<Outcome, RpcError> {
        let arguments = Arguments(&call.arguments);
        let id = arguments.required_id("id")?;
        if self.known(id).await?.is_none() {
            return Ok(Outcome::Done(results::failed(&no_canvas(id))));
        }
        let query = arguments.text("query")?.unwrap_or_default();
        let (inputs, session) = (arguments.object("inputs")?, arguments.id("session_id")?);
        let key = CanvasKey::new(self.tenant(), id);
        self.ask(&key, AgentQuestion { query, inputs, session, version: "latest" }, call).await
    }

    async fn get_run(&self, call: &Call) -> Done {
        let id = Arguments(&call.arguments).required_id("run_id")?;
        let key = RunKey::new(self.tenant(), id);
        let Some(run) = weft_core::error::found(self.app().runs.get(&key).await)? else {
            return Ok(results::failed(&format!("there is no run `{id}`")));
        };
        let (mut answer, mut steps) = (Answer::default(), Vec::new());
        // Reading the entries of a run under way would wait for its end.
        if run.ending.is_some() {
            let mut entries = self.app().engine.events(&key, 0).await?;
            while let Some(entry) = entries.next().await? {
                answer.learn(&entry);
                steps.extend(step(&entry.record).filter(|_| steps.len() < STEPS_MAX));
            }
        }
        let open = self.open_tasks(&run.session).await?;
        let mut data = json!({
            "run_id": run.key.id, "session_id": run.session, "canvas_id": run.canvas, "query": run.query,
            "status": run.ending.map_or("unfinished", |ending| ending.as_str()),
            "answer": answer.text(), "steps": steps,
        });
        if let Some(error) = answer.end.as_ref().and_then(|end| end.error.as_deref()) {
            data["error"] = error.into();
        }
        if !open.is_empty() {
            data["waits_for"] =
                open.iter().map(|task| json!({"id": task.key.id, "fields": task.form.fields})).collect();
        }
        Ok(results::data(data))
    }
}

fn no_canvas(id: &str) -> String {
    format!("there is no canvas `{id}`")
}

/// The outcome of a node.
fn step(record: &Record) -> Option<Json> {
    let Record::NodeFinished { who, outputs, error, elapsed, .. } = record else { return None };
    let shown = outputs.0.iter().map(|(key, value)| {
        let text = shortened(&to_text(&value.snapshot()), OUTPUT_CHARS_MAX);
        (key.to_string(), Json::from(text))
    });
    let mut step = json!({"node": who.node, "component": who.kind, "seconds": elapsed,
        "outputs": shown.collect::<Map<String, Json>>()});
    if let Some(error) = error {
        step["error"] = json!(error);
    }
    Some(step)
}
