//! `--pin`: nodes that do not run, and their outputs instead.

use std::collections::BTreeMap;

use weft_app::App;
use weft_core::component::Route;
use weft_core::context::Pin;
use weft_core::journal::NextEdges;
use weft_core::{ComponentId, Json, Outputs, Record, RunId, RunKey};

use crate::failure::{Failure, Outcome};
use crate::local::{each_entry, tenant};
use crate::runs::found;
use crate::words::quoted;

/// Parses the flags: `NODE=JSON`, or `NODE@RUN` for the outputs of the node in another run.
///
/// # Errors
/// When one is not valid, or the run does not contain outputs of the node.
pub(crate) async fn read(flags: &[String], app: &App) -> Outcome<BTreeMap<ComponentId, Pin>> {
    let mut pins = BTreeMap::new();
    for flag in flags {
        let (id, pin) = match (flag.split_once('='), flag.split_once('@')) {
            (Some((id, json)), _) if !id.is_empty() => (id, written(id, json)?),
            (None, Some((id, run))) if !id.is_empty() => (id, given_by(app, id, run).await?),
            _ => {
                let failure = Failure::usage(format!("--pin {} is not valid", quoted(flag)));
                return Err(failure.help("write --pin NODE=JSON, or --pin NODE@RUN for its output in a run"));
            }
        };
        pins.insert(ComponentId::from(id), pin);
    }
    Ok(pins)
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
    match serde_json::from_str::<Json>(json) {
        Ok(Json::Object(map)) if map.get("outputs").is_some_and(Json::is_object) => {
            serde_json::from_value(Json::Object(map))
                .map_err(|error| refuse(format!("is not valid: {error}")))
        }
        Ok(Json::Object(map)) => Ok(Pin { outputs: map.into_iter().collect::<Outputs>(), to: None }),
        Ok(_) => Err(refuse("is not a JSON object".to_owned())),
        Err(error) => Err(refuse(format!("is not JSON: {error}"))),
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
        for wrong in ["", "1", "{", r#"{"outputs": {}, "other": 1}"#] {
            assert!(written("A", wrong).is_err(), "{wrong}");
        }
    }
}
