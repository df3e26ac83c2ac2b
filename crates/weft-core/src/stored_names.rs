//! Checks that stored run data keeps its field names regardless of renamings in the code, so that journals of older
//! versions remain readable.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::effect::Delivery;
use crate::journal::{NextEdges, Record};
use crate::seam::knowledge::Expansion;

/// Reads a stored text and writes it as it was.
fn same<T: Serialize + DeserializeOwned>(stored: &str) -> T {
    let read: T = serde_json::from_str(stored).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    read
}

#[test]
fn records_of_calls() {
    let record = same(r#"{"type":"effect_began","activation":1,"key":"model#0","effect":"model"}"#);
    assert!(matches!(record, Record::EffectStarted { .. }));
    let record = same(r#"{"type":"effect_gave","activation":1,"key":"model#0","gave":{"value":7}}"#);
    assert!(matches!(record, Record::EffectFinished { .. }));
    let used = Record::ModelUsed {
        activation: 1,
        effect: "model".into(),
        usage: Default::default(),
        model: "m".into(),
        micros: 7,
    };
    // What was written before it was known which model has answered.
    same::<Record>(
        r#"{"type":"effect_finished","activation":1,"effect":"model","usage":{"prompt_tokens":1,"completion_tokens":2,"calls":1}}"#,
    );
    let stored = serde_json::to_value(&used).unwrap();
    assert_eq!(stored["type"], "effect_finished");
    assert_eq!(serde_json::from_value::<Record>(stored).unwrap(), used);
}

#[test]
fn choices() {
    assert_eq!(same::<NextEdges>(r#""nowhere""#), NextEdges::None);
    assert_eq!(same::<NextEdges>(r#""suspended""#), NextEdges::Suspended);
    assert!(matches!(same::<NextEdges>(r#"{"by":"onward"}"#), NextEdges::Routed(_)));
    assert_eq!(same::<Delivery>(r#""allowed""#), Delivery::Idempotent);
    assert_eq!(same::<Delivery>(r#""never""#), Delivery::AtMostOnce);
    assert_eq!(same::<Expansion>(r#""wholes""#), Expansion::Parents);
    assert_eq!(same::<Expansion>(r#""parts""#), Expansion::Children);
}
