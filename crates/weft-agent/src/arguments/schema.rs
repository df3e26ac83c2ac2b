//! The schema of a tool's arguments.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, json};
use weft_core::value::shortened;
use weft_core::{Error, Json, Result, pattern};

use super::{coerce, cost};

/// Faults that are told at once, at most.
// A model mends a few faults at a time; the rest would only fill its window.
const FAULTS_MAX: usize = 10;
/// Characters of a value or of a list of values in a message.
const SHOWN_MAX: usize = 200;
/// Steps back that matching one pattern may take.
// Look-around and back references make the matcher try again and again; the plain patterns never count here.
const BACKTRACKS_MAX: usize = 100_000;
/// Bytes that one compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Bytes that all patterns of a schema may take together.
// A few characters, `\p{L}{10}`, compile to hundreds of kilobytes, and a schema has room for thousands of them.
const PATTERNS_BYTES_MAX: usize = 32 << 20;
/// What a pattern of a schema that is kept ready is taken to cost, in bytes.
const PER_PATTERN: usize = 16 << 10;

/// Bytes of schemas that are kept ready. The tools of an agent are the same in each of its turns, and making a
/// schema ready takes longer than most of what a tool does.
const READY_BYTES_MAX: usize = 4 << 20;

/// Schemas that are ready, by their texts.
static READY: LazyLock<Mutex<Ready>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Ready {
    schemas: HashMap<String, Arc<ArgumentSchema>>,
    bytes: usize,
}

impl Ready {
    fn keep(&mut self, text: String, schema: &Arc<ArgumentSchema>) {
        // What is compiled of patterns is much larger than their text.
        let bytes = text.len() + pattern::count_in(&schema.schema) * PER_PATTERN;
        // One schema must not push out most of the others.
        if text.len() > READY_BYTES_MAX / 16 || bytes > READY_BYTES_MAX / 2 {
            return;
        }
        if self.bytes + bytes > READY_BYTES_MAX {
            // All at once, so that no order of use need be kept: what is in use is soon made again.
            *self = Self::default();
        }
        if self.schemas.insert(text, Arc::clone(schema)).is_none() {
            self.bytes += bytes;
        }
    }
}

/// A tool's schema, ready to check arguments.
#[derive(Debug)]
pub struct ArgumentSchema {
    schema: Json,
    validator: Validator,
}

/// Why arguments do not fit, in words that help a model to write better ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Each with the place it is about; ten at most.
    pub faults: Vec<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("; "))
    }
}

impl std::error::Error for Problem {}

impl ArgumentSchema {
    /// Reads a schema. Null and an empty one admit everything. References may lead to places within it only,
    /// and nothing is fetched. Of patterns, those that need too much memory are refused.
    ///
    /// # Errors
    /// `Invalid`, when it is no JSON schema, or too large.
    pub fn new(schema: &Json) -> Result<Self> {
        let invalid =
            |fault: String| Error::invalid(format!("the schema of the arguments is not valid: {fault}"));
        let schema = match schema {
            Json::Null => json!({}),
            Json::Object(map) => Json::Object(own(map)),
            _ => return Err(invalid("it must be an object".to_owned())),
        };
        let validator = validator(&schema).map_err(invalid)?;
        Ok(Self { schema, validator })
    }

    /// The same, made once for all who ask for the same schema.
    ///
    /// # Errors
    /// As [`ArgumentSchema::new`].
    pub fn shared(schema: &Json) -> Result<Arc<Self>> {
        let ready = || READY.lock().unwrap_or_else(PoisonError::into_inner);
        let text = schema.to_string();
        if let Some(known) = ready().schemas.get(&text) {
            return Ok(Arc::clone(known));
        }
        // Without the lock: two may make the same one ready, and nobody waits for another's.
        let made = Arc::new(Self::new(schema)?);
        ready().keep(text, &made);
        Ok(made)
    }

    /// Checks arguments. Before, what is of the wrong type is converted where nothing is lost by it (such as
    /// `"3"` for an integer), and defaults are filled in.
    ///
    /// # Errors
    /// Everything that is wrong, ten things at most.
    pub fn check(&self, arguments: Map<String, Json>) -> Result<Map<String, Json>, Problem> {
        let mut value = Json::Object(arguments);
        coerce::fit(&self.schema, &mut value);
        // After the fitting: the defaults that it filled in are checked as well.
        if !cost::affordable(&self.schema, &value) {
            let fault = "they are too long or too deeply nested to be checked: write shorter ones".to_owned();
            return Err(Problem { faults: vec![fault] });
        }
        let errors = self.validator.iter_errors(&value).take(FAULTS_MAX);
        let faults: Vec<String> = errors.map(|error| self.described(&error)).collect();
        match value {
            Json::Object(arguments) if faults.is_empty() => Ok(arguments),
            _ => Err(Problem { faults }),
        }
    }

    /// A fault with its place; where a member is too many, also with those that there are.
    fn described(&self, error: &ValidationError<'_>) -> String {
        let fault = described(error);
        let is_unknown = matches!(
            error.kind(),
            ValidationErrorKind::AdditionalProperties { .. } | ValidationErrorKind::FalseSchema
        );
        // What a model has written at the wrong level it finds the right one for when it sees the names.
        let place = error.schema_path().as_str().strip_suffix("/additionalProperties");
        let Some(place) = place.filter(|_| is_unknown) else { return fault };
        let schema = self.schema.pointer(place);
        let known = schema.and_then(|schema| schema.get("properties")?.as_object());
        let names: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        match names.as_slice() {
            [] => format!("{fault}; nothing may stand there"),
            names => format!("{fault}; there is `{}`", clipped(&names.join("`, `"))),
        }
    }
}

/// What checks values against a schema that nobody has checked: it leads to nowhere outside of itself, and
/// its patterns are limited in memory and time. What following it costs depends on the value, too; see
/// [`cost::affordable`].
pub(crate) fn validator(schema: &Json) -> Result<Validator, String> {
    let schema = &schema.as_object().map_or_else(|| schema.clone(), |map| Json::Object(own(map)));
    cost::inspect(schema)?;
    let bytes_max = PATTERN_BYTES_MAX.min(PATTERNS_BYTES_MAX / pattern::count_in(schema).max(1));
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACKS_MAX)
        .size_limit(bytes_max)
        .dfa_size_limit(bytes_max);
    let validator = jsonschema::options().offline().with_pattern_options(patterns).build(schema);
    validator.map_err(|error| described(&error))
}

/// A schema without what names it and, unless we know it, its dialect: neither matters to what it says.
fn own(schema: &Map<String, Json>) -> Map<String, Json> {
    const DIALECTS: [&str; 5] = ["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"];
    let mut schema = schema.clone();
    // References begin with `#`, and with an `$id` they would be relative to an address that nobody fetches.
    schema.shift_remove("$id");
    if schema.get("id").is_some_and(Json::is_string) {
        schema.shift_remove("id");
    }
    let dialect = schema.get("$schema").and_then(Json::as_str).unwrap_or_default();
    if !(dialect.contains("//json-schema.org/") && DIALECTS.iter().any(|known| dialect.contains(known))) {
        schema.shift_remove("$schema");
    }
    schema
}

/// A fault with its place.
fn described(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().as_str();
    let at = |path: &str| format!("at {}", clipped(path));
    let instance = || shown(error.instance());
    let message = match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            return format!("{}: it is required and missing", at(&format!("{path}/{name}")));
        }
        ValidationErrorKind::Type { kind } => format!("expected {}, got {}", types(kind), instance()),
        ValidationErrorKind::Enum { options } => {
            format!("expected one of {}, got {}", shown(options), instance())
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("expected {}, got {}", shown(expected_value), instance())
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!("there is no `{}` in the schema", clipped(&unexpected.join("`, `")))
        }
        ValidationErrorKind::Pattern { pattern } => {
            format!("expected a text that matches {}, got {}", clipped(pattern), instance())
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            // One fault of each of a few alternatives: all of them together would be longer than the schema.
            let firsts = context.iter().filter_map(|errors| errors.first()).take(3).map(described);
            format!("none of the alternatives fits: {}", clipped(&firsts.collect::<Vec<_>>().join(", or ")))
        }
        _ => clipped(&error.to_string()),
    };
    if path.is_empty() { message } else { format!("{}: {message}", at(path)) }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(several) => {
            several.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
        }
    }
}

/// A value as JSON, shortened.
fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => format!("the text {}", json!(clipped(text))),
        _ => clipped(&value.to_string()),
    }
}

fn clipped(text: &str) -> String {
    shortened(text, SHOWN_MAX)
}

#[cfg(test)]
mod tests;
