//! Resolves references in schemas, within bounds: a document may describe things recursively.

use serde_json::Map;
use weft_core::Json;

/// Maximum nesting depth of schemas; anything deeper is left open.
const DEPTH_MAX: usize = 12;
/// Maximum length of a chain of references.
pub(super) const REFERENCES_MAX: usize = 12;
/// How often a schema may be expanded within itself: a recursive one would have no end.
// Once more than necessary, so that a model sees what belongs there.
const VISITS_MAX: usize = 2;
/// Maximum number of values in the schemas of one operation; anything beyond is left open.
const VALUES_MAX: usize = 5_000;
/// Number of bytes of a text that count as one more value.
const BYTES_PER_VALUE: usize = 1_000;

/// The type of a keyword's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    /// Schemas, by names that the author of the document has chosen.
    Named,
    /// A schema, or a list of them.
    Schemas,
    /// Not a schema: a type, a limit, values.
    Plain,
    /// Of no use here and possibly long, or the target of references that are already resolved.
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

/// Keywords that describe a schema and refuse no value.
const ANNOTATIONS: [&str; 6] = ["default", "deprecated", "description", "readOnly", "title", "writeOnly"];

/// What happens to the siblings of a `$ref`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Siblings {
    /// They are ignored (OpenAPI 3.0).
    Ignored,
    /// They apply, too (OpenAPI 3.1).
    Hold,
}

/// Returns the target of a reference within the document.
pub(super) fn target<'a>(document: &'a Json, reference: &str) -> Option<&'a Json> {
    let pointer = reference.strip_prefix('#')?;
    // It is part of a URL: generators write `Page<Pet>` as `Page%3CPet%3E`, and some write it literally.
    document.pointer(pointer).or_else(|| document.pointer(&decoded(pointer)?))
}

/// Decodes percent-encoding; `None` if the result is not text.
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

/// Returns a schema that accepts everything.
fn open() -> Json {
    Json::Object(Map::new())
}

/// Expands the schemas of one operation.
pub(super) struct OperationSchemas<'a> {
    document: &'a Json,
    siblings: Siblings,
    left: usize,
    /// How often a schema may be expanded within itself.
    visits_max: usize,
    /// The references that have been followed to the current schema.
    entered: Vec<String>,
    /// Number of schemas that were left open.
    cuts: usize,
    /// Whether one of them was left open for lack of space.
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

    /// Resolves a value that is not a schema, if it is a reference.
    pub(super) fn resolved(&self, value: &Json) -> Result<Json, String> {
        // Only a description may stand next to such a reference; in a chain, the first one counts.
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
                .ok_or_else(|| format!("`{reference}` does not exist in the document"))?;
        }
        Err("its references are circular".to_owned())
    }

    fn target(&self, reference: &str) -> Option<&'a Json> {
        target(self.document, reference)
    }

    /// Returns a schema with all references expanded in place.
    pub(super) fn schema(&mut self, schema: &Json) -> Json {
        let left = self.left;
        (self.visits_max, self.is_full) = (VISITS_MAX, false);
        let told = self.inlined(schema, 0);
        if !self.is_full {
            return told;
        }
        // A schema that refers to itself in many ways takes the space of those next to it.
        (self.left, self.visits_max) = (left, 1);
        self.inlined(schema, 0)
    }

    /// Leaves a schema open: a model may then write something wrong, and the service says so.
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
        // The last one is nearest to the schema.
        for said in beside.into_iter().rev() {
            inlined = match self.written(&Json::Object(said), depth) {
                Json::Object(said) => together(inlined, said),
                _ => inlined,
            };
        }
        self.entered.truncate(before);
        inlined
    }

    /// Returns the siblings of a reference that apply.
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

    /// Expands a schema that is not a reference. It is written with all of its keywords or not at all: a part of one
    /// may be invalid.
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
                // An open schema accepts more, and these keywords would then refuse what is valid.
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

    /// Reserves space for the content of a schema, if there is enough. Each schema inside it counts as one value, which
    /// it takes even if it is left open.
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

/// Returns a schema that accepts what both accept. If the siblings are only annotations, they take precedence.
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
    // As separate schemas, not merged: some keywords depend on their siblings.
    match said.get_mut("allOf") {
        Some(Json::Array(all)) => all.insert(0, schema),
        _ => drop(said.insert("allOf".to_owned(), Json::from(vec![schema]))),
    }
    Json::Object(said)
}

/// Returns how much is left after a value; `None` if it is too large.
fn weighed(value: &Json, left: usize) -> Option<usize> {
    let left = left.checked_sub(1)?;
    match value {
        Json::Array(items) => items.iter().try_fold(left, |left, item| weighed(item, left)),
        Json::Object(members) => members.values().try_fold(left, |left, member| weighed(member, left)),
        Json::String(text) => left.checked_sub(text.len() / BYTES_PER_VALUE),
        Json::Null | Json::Bool(_) | Json::Number(_) => Some(left),
    }
}

/// Converts keywords that are specific to version 3.0 to those of JSON Schema.
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
        // The exclusive limit was a flag in 3.0; in 3.1 each kind of limit has its own keyword.
        if let Some(value) = schema.shift_remove(limit) {
            schema.insert(if is { exclusive } else { limit }.to_owned(), value);
        }
    }
}
