//! The function with which an agent ends its reply, with a structured value if one was requested.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, json};
use weft_core::tool::{Invocation, Origin, ToolStream, ToolTraits, once};
use weft_core::{Error, ErrorKind, Json, Result, Tool, ToolBody, ToolOutput};

use crate::function::arguments_schema;
use crate::message::{ContentBlock, Message, ToolUse};
use crate::toolkit::Toolkit;

/// The name of the function that ends a reply.
pub const FINISH_FUNCTION: &str = "generate_response";
/// The argument that is shown to the user.
const RESPONSE: &str = "response";
/// Metadata keys of a call that ended the reply, in addition to the response.
const STRUCTURED: &str = "structured";
const SUCCESS: &str = "success";

/// Checks a value and returns what is wrong with it.
type Check = dyn Fn(&Json) -> Result<(), serde_json::Error> + Send + Sync;

/// A value that a reply has to contain in addition to its text.
#[derive(Clone)]
pub struct StructuredOutput {
    schema: Json,
    check: Arc<Check>,
}

impl fmt::Debug for StructuredOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StructuredOutput").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl StructuredOutput {
    /// A value of a Rust type.
    ///
    /// # Errors
    /// `Invalid` when `T` is not a struct with named fields.
    pub fn of<T: DeserializeOwned + JsonSchema>() -> Result<Self> {
        Ok(Self {
            schema: arguments_schema::<T>()?,
            check: Arc::new(|value| T::deserialize(value.clone()).map(drop)),
        })
    }

    /// A value that follows a JSON schema of an object.
    ///
    /// # Errors
    /// `Invalid` when the schema has no `properties`.
    pub fn with_schema(schema: Json) -> Result<Self> {
        if !schema.get("properties").is_some_and(Json::is_object) {
            return Err(Error::invalid("the schema of a structured answer does not describe an object")
                .help("give it `\"type\": \"object\"` and `properties`"));
        }
        Ok(Self { schema, check: Arc::new(|_| Ok(())) })
    }
}

/// A toolkit with only the finish function. A new one is created for every reply, so that no reply sees the fields
/// requested for another one.
///
/// # Errors
/// `Invalid` when the structured value has a field `response`, or an invalid schema.
pub(crate) fn finish_toolkit(structured: Option<&StructuredOutput>) -> Result<Toolkit> {
    let description = "Ends your work with the response that the user gets. Call it when the task is done, \
        or when you need something from the user.";
    let (parameters, check) = match structured {
        None => (extended(&json!({}))?, None),
        Some(wanted) => (extended(&wanted.schema)?, Some(Arc::clone(&wanted.check))),
    };
    let body = Arc::new(FinishTool { check });
    let mut tool = Tool::new(FINISH_FUNCTION, description, parameters, Origin::Function, body);
    // Alone, so that the calls beside it have their results when the reply ends.
    tool.traits = ToolTraits { idempotent: true, alone: true, ..ToolTraits::default() };
    let toolkit = Toolkit::new();
    toolkit.register(tool)?;
    Ok(toolkit)
}

/// The schema of the finish function, with the fields of another schema.
fn extended(with: &Json) -> Result<Json> {
    let mut schema = with.as_object().cloned().unwrap_or_default();
    let mut properties = Map::new();
    properties.insert(
        RESPONSE.to_owned(),
        json!({"type": "string", "description": "What the user is told, complete and in their language."}),
    );
    for (name, property) in with.get("properties").and_then(Json::as_object).into_iter().flatten() {
        if properties.insert(name.clone(), property.clone()).is_some() {
            return Err(Error::invalid(format!("a structured answer cannot have a field `{name}`"))
                .help("rename the field: this name is used for the text of the answer"));
        }
    }
    let also = with.get("required").and_then(Json::as_array).into_iter().flatten().cloned();
    let required: Vec<Json> = std::iter::once(Json::from(RESPONSE)).chain(also).collect();
    schema.insert("type".to_owned(), Json::from("object"));
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("required".to_owned(), required.into());
    Ok(schema.into())
}

struct FinishTool {
    check: Option<Arc<Check>>,
}

impl FinishTool {
    fn finish(&self, mut arguments: Map<String, Json>) -> Result<ToolOutput> {
        let response = arguments.shift_remove(RESPONSE).unwrap_or_default();
        let output = ToolOutput::text("The response has been given.")
            .with_metadata(SUCCESS, Json::Bool(true))
            .with_metadata(RESPONSE, response);
        // A schema alone was checked by the toolkit; a Rust type may require more than its schema says.
        let Some(check) = &self.check else { return Ok(output) };
        let value = Json::Object(arguments);
        match check(&value) {
            Ok(()) => Ok(output.with_metadata(STRUCTURED, value)),
            Err(cause) => Err(Error::invalid("the structured answer is wrong")
                .because(cause)
                .help("call the function again with arguments that follow its schema")),
        }
    }
}

impl ToolBody for FinishTool {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let finished = self.finish(invocation.arguments);
        once(async { finished })
    }
}

/// The output of a successful call of the finish function: the text and the structured value.
pub(crate) struct FinishOutput {
    pub(crate) response: String,
    pub(crate) structured: Map<String, Json>,
}

/// Reads the output of the finish function.
pub(crate) fn finished(output: &ToolOutput) -> Option<FinishOutput> {
    let noted = |name| output.metadata.get(name);
    (noted(SUCCESS) == Some(&Json::Bool(true))).then(|| FinishOutput {
        response: noted(RESPONSE).and_then(Json::as_str).unwrap_or_default().to_owned(),
        structured: noted(STRUCTURED).and_then(Json::as_object).cloned().unwrap_or_default(),
    })
}

/// Marks the output of a call of the finish function as not having ended the reply.
pub(crate) fn unfinished(output: ToolOutput) -> ToolOutput {
    output.with_metadata(SUCCESS, Json::Bool(false))
}

/// A call of the finish function with this text, for a model that answered with text alone.
pub(crate) fn finish_call(response: &str) -> ToolUse {
    let input = Map::from_iter([(RESPONSE.to_owned(), Json::from(response))]);
    ToolUse { id: String::new(), name: FINISH_FUNCTION.to_owned(), input, raw_input: None }
}

/// A message as people see it: calls of the finish function are replaced by their text.
pub(crate) fn as_shown(mut message: Message) -> Message {
    for block in &mut message.content {
        if let ContentBlock::ToolUse(call) = block
            && call.name == FINISH_FUNCTION
        {
            let text = call.input.get(RESPONSE).and_then(Json::as_str).unwrap_or_default();
            *block = ContentBlock::text(text);
        }
    }
    message
}

/// The error of a model that never called the finish function correctly.
pub(crate) fn given_up(problem: &str) -> Error {
    Error::new(ErrorKind::Garbled, format!("the model returned no valid structured answer: {problem}"))
        .help("simplify the type, raise `max_iters` or try another model")
}
