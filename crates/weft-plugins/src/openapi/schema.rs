//! Schemas without references, within bounds: a document may describe things by themselves.

use serde_json::Map;
use weft_core::Json;

/// Schemas within schemas, at most; what lies deeper may be anything.
const DEPTH_MAX: usize = 12;
/// References that lead from one to the next, at most.
pub(super) const REFERENCES_MAX: usize = 12;
/// How often a schema is told within itself, at most: one that leads to itself would have no end.
// Once more than it has to be, so that a model sees what stands there.
const VISITS_MAX: usize = 2;
/// Values of the schemas of one operation, at most; what goes beyond may be anything.
const VALUES_MAX: usize = 5_000;
/// Bytes of a text that count as a further value.
const BYTES_PER_VALUE: usize = 1_000;

/// What stands behind a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    /// Schemas, by names that whoever wrote the document has chosen.
    Named,
    /// A schema, or a list of them.
    Schemas,
    /// No schema: a type, a limit, values.
    Plain,
    /// What helps nobody here and may be long, or says where references lead that are filled in already.
    LeftOut,
}

fn keyword(name: &str) -> Keyword {
    match name {
        "properties" | "patternProperties" | "dependentSchemas" => Keyword::Named,
        "additionalItems"
        | "additionalProperties"
        | "allOf"
        | "anyOf"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "items"
        | "not"
        | "oneOf"
        | "prefixItems"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Keyword::Schemas,
        "$anchor" | "$comment" | "$defs" | "$id" | "$schema" | "definitions" | "discriminator"
        | "example" | "examples" | "externalDocs" | "xml" => Keyword::LeftOut,
        _ => Keyword::Plain,
    }
}

/// What says something about a schema and refuses no value.
const ANNOTATIONS: [&str; 6] = ["default", "deprecated", "description", "readOnly", "title", "writeOnly"];

/// What becomes of what stands beside a `$ref`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Siblings {
    /// Nothing (OpenAPI 3.0).
    Ignored,
    /// It holds, too (OpenAPI 3.1).
    Hold,
}

/// What a reference leads to within the document.
pub(super) fn target<'a>(document: &'a Json, reference: &str) -> Option<&'a Json> {
    let pointer = reference.strip_prefix('#')?;
    // It is a part of an address: generators write `Page<Pet>` as `Page%3CPet%3E`, and some as it is.
    document.pointer(pointer).or_else(|| document.pointer(&decoded(pointer)?))
}

/// A text without percent-encoding; nothing where that leaves no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let digits = behind.first_chunk::<2>().filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let written = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(written.unwrap_or(*first));
        rest = if written.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    String::from_utf8(bytes).ok()
}

/// A schema that everything fits.
fn open() -> Json {
    Json::Object(Map::new())
}

/// Schemas of one operation.
pub(super) struct OperationSchemas<'a> {
    document: &'a Json,
    siblings: Siblings,
    left: usize,
    /// How often a schema is told within itself.
    visits_max: usize,
    /// The references that lead to where we are.
    entered: Vec<String>,
    /// Schemas that were left open.
    cuts: usize,
    /// Whether one of them was for want of room.
    is_full: bool,
}

impl<'a> OperationSchemas<'a> {
    pub(super) fn of(document: &'a Json) -> Self {
        let version = document.get("openapi").and_then(Json::as_str).unwrap_or_default();
        Self {
            document,
            siblings: if version.starts_with("3.0") { Siblings::Ignored } else { Siblings::Hold },
            left: VALUES_MAX,
            visits_max: VISITS_MAX,
            entered: Vec::new(),
            cuts: 0,
            is_full: false,
        }
    }

    /// What a value that is no schema stands for when it is a reference, else itself.
    pub(super) fn resolved(&self, value: &Json) -> Result<Json, String> {
        // Nothing else may stand beside such a reference; of several in a row the first one counts.
        let mut described: Option<&Json> = None;
        let mut value = value;
        // Bounded: a reference may lead to itself.
        for _ in 0..REFERENCES_MAX {
            let Some(reference) = value.get("$ref").and_then(Json::as_str) else {
                let mut resolved = value.clone();
                if let (Some(said), Some(members)) = (described, resolved.as_object_mut()) {
                    members.insert("description".to_owned(), said.clone());
                }
                return Ok(resolved);
            };
            if self.siblings == Siblings::Hold {
                described = described.or_else(|| value.get("description"));
            }
            value = self
                .target(reference)
                .ok_or_else(|| format!("`{reference}` leads nowhere in the document"))?;
        }
        Err("its references lead round in circles".to_owned())
    }

    fn target(&self, reference: &str) -> Option<&'a Json> {
        target(self.document, reference)
    }

    /// A schema with everything it refers to in its place.
    pub(super) fn schema(&mut self, schema: &Json) -> Json {
        let left = self.left;
        (self.visits_max, self.is_full) = (VISITS_MAX, false);
        let told = self.inlined(schema, 0);
        if !self.is_full {
            return told;
        }
        // What leads to itself in many ways takes the room of what stands beside it.
        (self.left, self.visits_max) = (left, 1);
        self.inlined(schema, 0)
    }

    /// Anything is allowed there: a model may then be wrong, and the service says so.
    fn cut(&mut self) -> Json {
        self.cuts += 1;
        open()
    }

    fn inlined(&mut self, schema: &Json, depth: usize) -> Json {
        let before = self.entered.len();
        let mut found = Some(schema);
        let mut beside: Vec<Map<String, Json>> = Vec::new();
        while let Some(reference) = found.and_then(|schema| schema.get("$ref")).and_then(Json::as_str) {
            beside.extend(found.and_then(|schema| self.beside(schema)));
            let visits = self.entered.iter().filter(|known| *known == reference).count();
            let goes_on = visits < self.visits_max && self.entered.len() - before < REFERENCES_MAX;
            found = self.target(reference).filter(|_| goes_on);
            self.entered.push(reference.to_owned());
        }
        let mut inlined = match found {
            Some(schema) => self.written(schema, depth),
            None => self.cut(),
        };
        // The last one stands nearest to the schema.
        for said in beside.into_iter().rev() {
            inlined = match self.written(&Json::Object(said), depth) {
                Json::Object(said) => together(inlined, said),
                _ => inlined,
            };
        }
        self.entered.truncate(before);
        inlined
    }

    /// What stands beside a reference and holds.
    fn beside(&self, schema: &Json) -> Option<Map<String, Json>> {
        let said = schema.as_object().filter(|_| self.siblings == Siblings::Hold)?;
        let holds = |name: &str| name != "$ref" && keyword(name) != Keyword::LeftOut;
        let said: Map<String, Json> = said
            .iter()
            .filter(|(name, _)| holds(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        (!said.is_empty()).then_some(said)
    }

    /// A schema that is no reference. It is told with all of its keywords or not at all: half of one may be none.
    fn written(&mut self, schema: &Json, depth: usize) -> Json {
        let Json::Object(object) = schema else {
            return if schema.is_boolean() { schema.clone() } else { open() };
        };
        if depth > DEPTH_MAX || !self.has_room(object) {
            return self.cut();
        }
        let mut written = Map::new();
        for (name, value) in object {
            let cuts = self.cuts;
            let told: Json = match (keyword(name), value) {
                (Keyword::LeftOut, _) => continue,
                (Keyword::Named, Json::Object(members)) => members
                    .iter()
                    .map(|(name, schema)| (name.clone(), self.inlined(schema, depth + 1)))
                    .collect(),
                (Keyword::Schemas, Json::Array(schemas)) => {
                    schemas.iter().map(|schema| self.inlined(schema, depth + 1)).collect()
                }
                (Keyword::Schemas, Json::Object(_)) => self.inlined(value, depth + 1),
                (Keyword::Named | Keyword::Schemas | Keyword::Plain, _) => value.clone(),
            };
            let is_open = self.cuts > cuts;
            let name = match name.as_str() {
                // What is open fits more, and these would refuse just that.
                "not" | "if" if is_open => continue,
                "oneOf" if is_open && object.contains_key("anyOf") => continue,
                "oneOf" if is_open => "anyOf",
                name => name,
            };
            written.insert(name.to_owned(), told);
        }
        as_of_3_1(&mut written);
        Json::Object(written)
    }

    /// Whether there is room for what a schema holds; then it is taken. Of each schema inside it that is one value, which
    /// it has even when it is left open.
    fn has_room(&mut self, schema: &Map<String, Json>) -> bool {
        let mut left = Some(self.left);
        for (name, value) in schema {
            left = left.and_then(|left| match (keyword(name), value) {
                (Keyword::LeftOut, _) => Some(left),
                (Keyword::Named, Json::Object(members)) => left.checked_sub(1 + members.len()),
                (Keyword::Schemas, Json::Array(schemas)) => left.checked_sub(1 + schemas.len()),
                (Keyword::Schemas, Json::Object(_)) => left.checked_sub(1),
                (Keyword::Named | Keyword::Schemas | Keyword::Plain, value) => weighed(value, left),
            });
        }
        self.is_full = self.is_full || left.is_none();
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// A schema that fits what both fit. What is said beside wins where it only describes.
fn together(schema: Json, mut said: Map<String, Json>) -> Json {
    if said.is_empty() {
        return schema;
    }
    let only_describes = said.keys().all(|name| ANNOTATIONS.contains(&name.as_str()));
    let schema = match schema {
        Json::Object(mut members) if only_describes => {
            members.extend(said);
            return Json::Object(members);
        }
        schema => schema,
    };
    // Put side by side and not into each other: some keywords mean what stands beside them.
    match said.get_mut("allOf") {
        Some(Json::Array(all)) => all.insert(0, schema),
        _ => drop(said.insert("allOf".to_owned(), Json::from(vec![schema]))),
    }
    Json::Object(said)
}

/// What is left after a value; nothing when it is too much.
fn weighed(value: &Json, left: usize) -> Option<usize> {
    let left = left.checked_sub(1)?;
    match value {
        Json::Array(items) => items.iter().try_fold(left, |left, item| weighed(item, left)),
        Json::Object(members) => members.values().try_fold(left, |left, member| weighed(member, left)),
        Json::String(text) => left.checked_sub(text.len() / BYTES_PER_VALUE),
        Json::Null | Json::Bool(_) | Json::Number(_) => Some(left),
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
