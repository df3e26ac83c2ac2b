//! Templates in the format of the API.

use serde_json::{Value as Json, json};

use super::agent::{AGENT, PIPELINE};
use super::time::http_date;
use crate::body::Body;
use weft_app::templates::Template;

/// Creation time of the templates, in milliseconds since 1970: rows of the compatible API have one.
const MADE_MS: i64 = 1_764_028_800_000;

/// A row of the list of templates.
pub fn row(template: &Template) -> Json {
    let Template { id, title, description, canvas_type, question, dsl, documents } = template;
    let document: Json = serde_json::from_str(dsl).unwrap_or(Json::Null);
    let category = if document["canvas_category"] == PIPELINE { PIPELINE } else { AGENT };
    // The canvas may be wrapped in a document.
    let dsl = document.get("dsl").unwrap_or(&document);
    let names: Vec<&str> = documents.iter().map(|(name, _)| *name).collect();
    json!({
        "id": id,
        "avatar": "",
        "title": {"en": title},
        "description": {"en": description},
        "canvas_type": canvas_type,
        "canvas_types": [canvas_type],
        "canvas_category": category,
        "question": question,
        "documents": names,
        "dsl": dsl,
        "create_time": MADE_MS,
        "create_date": http_date(MADE_MS),
        "update_time": MADE_MS,
        "update_date": http_date(MADE_MS),
    })
}

/// Selects one language of title and description, which may be given in several: English, else the first.
pub fn in_one_language(mut body: Body) -> Body {
    for name in ["title", "description"] {
        let Some(Json::Object(languages)) = body.0.get(name) else { continue };
        let text = languages.get("en").or_else(|| languages.values().next()).cloned();
        body.0.insert(name.to_owned(), text.unwrap_or(Json::Null));
    }
    body
}
