//! Compiles the schema of a tool's arguments and validates arguments.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, json};
use weft_core::value::shortened;
use weft_core::{Error, Json, Result, pattern};

use super::{coerce, cost};

/// Maximum number of problems that are reported at a time.
// A model corrects a few problems at a time; more would only fill its window.
const FAULTS_MAX: usize = 10;
/// Maximum number of characters of a value or of a list of values in a message.
const SHOWN_MAX: usize = 200;
/// Backtracking limit for matching one pattern.
// Look-around and back references make the matcher backtrack; plain patterns never count here.
const BACKTRACKS_MAX: usize = 100_000;
/// Maximum number of bytes that one compiled pattern may take.
// Schemas may come from servers, and a short pattern may compile to many megabytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Maximum number of bytes that all patterns of a schema may take together.
// A few characters, `\p{L}{10}`, compile to hundreds of kilobytes, and a schema has room for thousands of them.
const PATTERNS_BYTES_MAX: usize = 32 << 20;
/// Estimated cost of a pattern in a cached schema, in bytes.
const PER_PATTERN: usize = 16 << 10;

/// Size of the cache of compiled schemas, in bytes. The tools of an agent are the same in each turn, and compiling a
/// schema takes longer than most of what a tool does.
const READY_BYTES_MAX: usize = 4 << 20;

/// Compiled schemas, by their texts.
static READY: LazyLock<Mutex<SchemaCache>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct SchemaCache {
    schemas: HashMap<String, Arc<ArgumentSchema>>,
    bytes: usize,
}

impl SchemaCache {
    fn keep(&mut self, text: String, schema: &Arc<ArgumentSchema>) {
        // Compiled patterns are much larger than their text.
        let bytes = text.len() + pattern::count_in(&schema.schema) * PER_PATTERN;
        // One schema must not evict most of the others.
        if text.len() > READY_BYTES_MAX / 16 || bytes > READY_BYTES_MAX / 2 {
            return;
        }
        if self.bytes + bytes > READY_BYTES_MAX {
            // All together, so that no order of use has to be tracked: those in use are soon compiled again.
            *self = Self::default();
        }
        if self.schemas.insert(text, Arc::clone(schema)).is_none() {
            self.bytes += bytes;
        }
    }
}

/// The schema of a tool, compiled to validate arguments.
#[derive(Debug)]
pub struct ArgumentSchema {
    schema: Json,
    validator: Validator,
}

/// Why arguments do not match, worded to help a model write better ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The problems, each with its location; at most ten.
    pub faults: Vec<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("; "))
    }
}

impl std::error::Error for Problem {}

impl ArgumentSchema {
    /// Compiles a schema. Null and an empty one accept everything. References may only lead to places within the
    /// schema, and nothing is fetched. Patterns that need too much memory are rejected.
    ///
    /// # Errors
    /// `Invalid` when it is not a valid JSON schema, or too large.
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

    /// Same as [`ArgumentSchema::new`], but with a cache shared by all callers.
    ///
    /// # Errors
    /// As for [`ArgumentSchema::new`].
    pub fn shared(schema: &Json) -> Result<Arc<Self>> {
        let ready = || READY.lock().unwrap_or_else(PoisonError::into_inner);
        let text = schema.to_string();
        if let Some(known) = ready().schemas.get(&text) {
            return Ok(Arc::clone(known));
        }
        // Without the lock: two callers may compile the same schema, but none waits for another's.
        let made = Arc::new(Self::new(schema)?);
        ready().keep(text, &made);
        Ok(made)
    }

    /// Validates arguments. First, values of the wrong type are converted where nothing is lost (such as `"3"` for an
    /// integer), and defaults are filled in.
    ///
    /// # Errors
    /// The problems, at most ten of them.
    pub fn check(&self, arguments: Map<String, Json>) -> Result<Map<String, Json>, Problem> {
        let mut value = Json::Object(arguments);
        coerce::fit(&self.schema, &mut value);
        // After the conversion: the defaults that it filled in are checked as well.
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

    /// Describes a problem and its location; for an unknown member, also lists the known ones.
    fn described(&self, error: &ValidationError<'_>) -> String {
        let fault = described(error);
        let is_unknown = matches!(
            error.kind(),
            ValidationErrorKind::AdditionalProperties { .. } | ValidationErrorKind::FalseSchema
        );
        // When a model sees the names, it finds the right level for a member that it wrote at the wrong one.
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

/// Compiles a validator for an untrusted schema: references lead nowhere outside of the schema, and patterns are
/// limited in memory and time. The cost of validation depends on the value as well; see [`cost::affordable`].
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

/// The schema without its id and, unless it is known, its dialect: neither affects its meaning.
fn own(schema: &Map<String, Json>) -> Map<String, Json> {
    const DIALECTS: [&str; 5] = ["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"];
    let mut schema = schema.clone();
    // References begin with `#`; with an `$id` they would be relative to a URL that is never fetched.
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

/// Describes a problem and its location.
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
            // One problem of each of a few alternatives: all of them together would be longer than the schema.
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
