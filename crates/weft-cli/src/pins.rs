//! `--pin`: nodes that do not run, and their outputs instead.

use std::collections::BTreeMap;

use weft_app::App;
use weft_core::component::Route;
use weft_core::context::Pin;
use weft_core::exact::kept;
use weft_core::journal::NextEdges;
use weft_core::suggest::{did_you_mean, nearest};
use weft_core::value::listed;
use weft_core::{Catalog, ComponentId, Json, Outputs, Record, Reference, RunId, RunKey};
use weft_dsl::Plan;
use weft_dsl::plan::PlanNode;

use crate::chosen_tenant::tenant;
use crate::failure::{Failure, Outcome};
use crate::local::each_entry;
use crate::runs::stored::found;
use crate::words::quoted;

/// Parses the flags: `NODE=JSON`, or `NODE@RUN` for the outputs of the node in another run.
///
/// # Errors
/// When one is not valid, two name the same node, or the run does not contain outputs of the node.
pub(crate) async fn read(flags: &[String], app: &App) -> Outcome<BTreeMap<ComponentId, Pin>> {
    let mut pins = BTreeMap::new();
    for flag in flags {
        // The `=` decides, because the JSON after it may contain an `@`.
        let (id, pin) = match (flag.split_once('='), flag.split_once('@')) {
            (Some((id, json)), _) if !id.is_empty() => (id, written(id, json)?),
            (None, Some((id, run))) if !id.is_empty() => (id, given_by(app, id, run).await?),
            _ => {
                let failure = Failure::usage(format!("--pin {} is not valid", quoted(flag)));
                return Err(failure.help("write --pin NODE=JSON, or --pin NODE@RUN for its output in a run"));
            }
        };
        if pins.insert(ComponentId::from(id), pin).is_some() {
            return Err(Failure::usage(format!("--pin gives {} twice", quoted(id)))
                .help("pin each node once; one JSON object holds all of its outputs"));
        }
    }
    Ok(pins)
}

/// Checks that nodes have the outputs that are written for them. Those of an earlier run need no check, because the
/// node did produce them.
///
/// # Errors
/// When a node has no output of such a name.
pub(crate) fn must_be_outputs(
    flags: &[String],
    pins: &BTreeMap<ComponentId, Pin>,
    plan: &Plan,
    catalog: &Catalog,
) -> Outcome<()> {
    for (id, _) in flags.iter().filter_map(|flag| flag.split_once('=')) {
        // A node that the canvas does not have is refused when the run starts.
        let node = plan.by_id.get(id).and_then(|&ix| plan.nodes.get(ix));
        let (Some(pin), Some(node)) = (pins.get(id), node) else { continue };
        let declared = declared(node, catalog);
        let is_unknown = |name: &&str| !declared.contains(name) && !may_have(node, name, plan);
        let Some(unknown) = pin.outputs.0.iter().map(|(name, _)| &**name).find(is_unknown) else { continue };
        let failure = Failure::usage(format!("cannot pin {}: it has no output `{unknown}`", quoted(id)));
        return Err(failure.help(match nearest(unknown, declared.iter().copied()) {
            Some(meant) => did_you_mean(meant),
            None if declared.is_empty() => "it has no outputs; write --pin NODE={}".to_owned(),
            None => format!("its outputs are {}", listed(&declared)),
        }));
    }
    Ok(())
}

/// Returns the outputs of a node that its type and its parameters declare.
fn declared<'a>(node: &'a PlanNode, catalog: &Catalog) -> Vec<&'a str> {
    let by_type = catalog.get(&node.kind).into_iter().flat_map(|spec| spec.outputs);
    let by_type = by_type.filter(|output| !output.optional).map(|output| output.name);
    let by_parameters = node.shape.outputs.named.iter().map(|output| output.name.as_str());
    by_type.chain(by_parameters).collect()
}

/// Whether a node may have an output that it does not declare: its outputs are not known before it runs, the engine
/// sets this one, or another node reads it.
fn may_have(node: &PlanNode, name: &str, plan: &Plan) -> bool {
    // A default value after a failure is the output `result`, whatever the type of the node.
    let by_default = name == "result" && node.exception.default.is_some();
    let by_engine = by_default || name.starts_with('_') || name == node.shape.main_output;
    let mut read = plan.nodes.iter().flat_map(|node| {
        node.reads.iter().chain(node.alternative_reads.iter().flatten()).map(|read| &read.reference)
    });
    node.shape.outputs.open
        || by_engine
        || read.any(|reference| match reference {
            Reference::Output { component, path } => {
                *component == node.id && path.split('.').next() == Some(name)
            }
            Reference::Global(_) => false,
        })
}

/// Parses a JSON object with the outputs of the node; `{"outputs": …, "to": […]}` also determines where the run
/// continues.
fn written(id: &str, json: &str) -> Outcome<Pin> {
    let refuse = |why: String| {
        Failure::usage(format!("the value pinned for {} {why}", quoted(id))).help(format!(
            "write its outputs as a JSON object: --pin {}",
            quoted(&format!("{id}={{\"content\": \"text\"}}"))
        ))
    };
    match serde_json::from_str::<Json>(&kept(json)) {
        Ok(Json::Object(map)) if map.get("outputs").is_some_and(Json::is_object) => {
            serde_json::from_value(Json::Object(map))
                .map_err(|error| refuse(format!("is not valid: {error}")))
        }
        Ok(Json::Object(map)) => Ok(Pin { outputs: map.into_iter().collect::<Outputs>(), to: None }),
        // Only in something like an object does the position of a mistake help to find it.
        Err(error) if json.trim_start().starts_with('{') => {
            Err(refuse(format!("is not valid JSON: {error}")))
        }
        Ok(_) | Err(_) => Err(refuse("is not a JSON object with the outputs of the node".to_owned())),
    }
}

async fn given_by(app: &App, id: &str, run: &str) -> Outcome<Pin> {
    let key = RunKey::new(&tenant(), RunId::from(run));
    // An unknown run must be reported as such, and not as one without a journal.
    found(&key, app).await?;
    let mut last = None;
    each_entry(app, &key, |entry| {
        if let Record::NodeFinished { who, outputs, route: NextEdges::Routed(route), error: None, .. } =
            entry.record
            && who.node.as_str() == id
        {
            let to = match route {
                Route::To(ids) => Some(ids),
                Route::Onward | Route::EndFrame => None,
            };
            last = Some(Pin { outputs: (*outputs).clone(), to });
        }
        Ok(())
    })
    .await?;
    last.ok_or_else(|| {
        Failure::usage(format!("{} has no output in run {run}", quoted(id)))
            .help(format!("`weft runs show {run}` prints the outputs of its nodes"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pin_is_outputs_or_outputs_with_a_route() {
        assert_eq!(written("A", r#"{"content": "x"}"#).unwrap().outputs, Outputs::of("content", json!("x")));
        let both = written("A", r#"{"outputs": {"n": 1}, "to": ["B"]}"#).unwrap();
        assert_eq!((both.outputs, both.to), (Outputs::of("n", json!(1)), Some(vec!["B".into()])));
        let id = written("A", r#"{"id": 12345678901234567890123}"#).unwrap();
        assert_eq!(id.outputs, Outputs::of("id", json!("12345678901234567890123")));
        for wrong in ["", "1", "{", r#"{"outputs": {}, "other": 1}"#] {
            assert!(written("A", wrong).is_err(), "{wrong}");
        }
    }
}
