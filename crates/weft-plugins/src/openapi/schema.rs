//! Schemas without references, within bounds: a document may describe things by themselves.

use serde_json::Map;
use weft_core::Json;

/// How deep a schema may go; what lies deeper may be anything.
const DEPTH_MAX: usize = 12;
/// Values of the schemas of one operation, at most; what goes beyond may be anything.
const VALUES_MAX: usize = 5_000;

/// Keywords whose members are named by whoever wrote the document, and are schemas each.
const NAMED: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
/// Keywords that help nobody here and may be long.
const LEFT_OUT: [&str; 5] = ["example", "examples", "xml", "externalDocs", "discriminator"];

/// Schemas of one operation.
pub(super) struct OperationSchemas<'a> {
    document: &'a Json,
    left: usize,
}

impl<'a> OperationSchemas<'a> {
    pub(super) fn of(document: &'a Json) -> Self {
        Self { document, left: VALUES_MAX }
    }

    /// What a value stands for when it is a reference, else itself.
    pub(super) fn resolved(&self, value: &Json) -> Result<Json, String> {
        let mut value = value;
        // Bounded: a reference may lead to itself.
        for _ in 0..DEPTH_MAX {
            let Some(reference) = value.get("$ref").and_then(Json::as_str) else { return Ok(value.clone()) };
            value = self
                .target(reference)
                .ok_or_else(|| format!("`{reference}` leads nowhere in the document"))?;
        }
        Err("its references lead round in circles".to_owned())
    }

    fn target(&self, reference: &str) -> Option<&'a Json> {
        self.document.pointer(reference.strip_prefix('#')?)
    }

    /// A schema with everything it refers to in its place.
    pub(super) fn schema(&mut self, schema: &Json) -> Json {
        self.inlined(schema, 0)
    }

    /// Whether there is room for one more value.
    fn has_room(&mut self, depth: usize) -> bool {
        let left = self.left.checked_sub(1).filter(|_| depth <= DEPTH_MAX);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    fn inlined(&mut self, value: &Json, depth: usize) -> Json {
        // Anything is allowed there: a model may then be wrong, and the service says so.
        if !self.has_room(depth) {
            return Json::Object(Map::new());
        }
        match value {
            Json::Object(object) => {
                if let Some(reference) = object.get("$ref").and_then(Json::as_str) {
                    let target = self.target(reference);
                    return target
                        .map_or_else(|| Json::Object(Map::new()), |target| self.inlined(target, depth + 1));
                }
                let mut inlined = Map::new();
                for (name, value) in object.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
                    let value = match value {
                        Json::Object(members) if NAMED.contains(&name.as_str()) => {
                            self.members(members, depth + 1)
                        }
                        value => self.inlined(value, depth + 1),
                    };
                    inlined.insert(name.clone(), value);
                }
                as_of_3_1(&mut inlined);
                Json::Object(inlined)
            }
            Json::Array(items) => items.iter().map(|item| self.inlined(item, depth + 1)).collect(),
            other => other.clone(),
        }
    }

    /// Schemas by name. A name may be any word, also one that is a keyword elsewhere.
    fn members(&mut self, members: &Map<String, Json>, depth: usize) -> Json {
        if !self.has_room(depth) {
            return Json::Object(Map::new());
        }
        members.iter().map(|(name, schema)| (name.clone(), self.inlined(schema, depth + 1))).collect()
    }
}

/// What version 3.0 writes in words of its own, in those of JSON Schema.
fn as_of_3_1(schema: &mut Map<String, Json>) {
    if schema.get("nullable") == Some(&Json::Bool(true)) {
        schema.shift_remove("nullable");
        if let Some(Json::String(kind)) = schema.get("type").cloned() {
            schema.insert("type".to_owned(), Json::from(vec![kind, "null".to_owned()]));
        }
    }
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let Some(Json::Bool(is)) = schema.get(exclusive).cloned() else { continue };
        schema.shift_remove(exclusive);
        // The limit was a flag in 3.0: whether it holds or not, there is one keyword for it in 3.1.
        if let Some(value) = schema.shift_remove(limit) {
            schema.insert(if is { exclusive } else { limit }.to_owned(), value);
        }
    }
}
