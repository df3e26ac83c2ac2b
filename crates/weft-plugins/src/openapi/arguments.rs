//! The arguments of an operation: their schema, and where each is sent.

use std::collections::BTreeSet;

use serde_json::{Map, json};
use weft_core::Json;

use super::call::{BODY, BodyKind};
use super::described::text;
use super::media;
use super::schema::OperationSchemas;
use super::style::{ArgumentPlace, Parameter};

/// Headers that are never parameters, whatever a document says, including those with which a request is made.
const RESERVED_HEADERS: [&str; 8] = [
    "Accept",
    "Authorization",
    "Connection",
    "Content-Length",
    "Content-Type",
    "Cookie",
    "Host",
    "Transfer-Encoding",
];

/// The arguments of an operation.
pub(super) struct OperationArguments {
    /// The JSON Schema of all arguments.
    pub(super) schema: Json,
    /// Where each argument except the body is sent.
    pub(super) parameters: Vec<Parameter>,
    /// The format of the body.
    pub(super) body: BodyKind,
}

/// A parameter as in the document, with references resolved.
struct DeclaredParameter {
    parameter: Parameter,
    said: Json,
}

/// Arguments that are being read.
#[derive(Default)]
struct ArgumentsReader {
    properties: Map<String, Json>,
    required: Vec<String>,
}

impl ArgumentsReader {
    fn parameter(&mut self, shapes: &mut OperationSchemas<'_>, declared: &DeclaredParameter) {
        let DeclaredParameter { parameter, said } = declared;
        let content = said.get("content").and_then(Json::as_object).and_then(media::json_of);
        let own = said.get("schema").or_else(|| content.and_then(|(_, content)| content.get("schema")));
        let mut schema = shapes.schema(own.unwrap_or(&json!({})));
        if let (Some(said), Some(object)) = (said.get("description"), schema.as_object_mut()) {
            object.entry("description").or_insert_with(|| said.clone());
        }
        // A path without its parameter would be another path, whatever the document says.
        if parameter.place == ArgumentPlace::Path || said.get("required") == Some(&Json::Bool(true)) {
            self.required.push(parameter.argument.clone());
        }
        self.properties.insert(parameter.argument.clone(), schema);
    }

    fn body(&mut self, shapes: &mut OperationSchemas<'_>, request: &Json) -> Result<BodyKind, String> {
        let request = shapes.resolved(request)?;
        let content = request.get("content").and_then(Json::as_object);
        let json = content.and_then(media::json_of);
        let form = content.and_then(|content| content.get("application/x-www-form-urlencoded"));
        let (body, said) = match (json, form) {
            (Some((media_type, said)), _) => (BodyKind::Json(as_header(media_type)?), said),
            (None, Some(said)) => (BodyKind::Form, said),
            // A model cannot write files and XML as arguments.
            (None, None) => return Err("its body is neither JSON nor a form".to_owned()),
        };
        self.properties.insert(BODY.to_owned(), shapes.schema(said.get("schema").unwrap_or(&json!({}))));
        if request.get("required") == Some(&Json::Bool(true)) {
            self.required.push(BODY.to_owned());
        }
        Ok(body)
    }
}

/// Returns a media type as it is sent, unless it is the standard one of JSON.
fn as_header(media_type: &str) -> Result<Option<String>, String> {
    // A pattern such as `application/*+json` cannot be sent.
    if media_type.eq_ignore_ascii_case(media::JSON) || media_type.contains('*') {
        return Ok(None);
    }
    // It comes from a document, and a line break would begin another header.
    if !media_type.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return Err(format!(
            "its body has a media type that cannot be sent: `{}`",
            media_type.escape_debug()
        ));
    }
    Ok(Some(media_type.to_owned()))
}

/// Reads the arguments of an operation; an error if they cannot be described to a model.
pub(super) fn read(document: &Json, item: &Json, operation: &Json) -> Result<OperationArguments, String> {
    let mut shapes = OperationSchemas::of(document);
    let mut declared: Vec<DeclaredParameter> = Vec::new();
    // The path's first, so that those of the operation replace them.
    for json in [item, operation] {
        for parameter in json.get("parameters").and_then(Json::as_array).into_iter().flatten() {
            declare(&shapes, parameter, &mut declared)?;
        }
    }
    name(&mut declared);
    let mut reading = ArgumentsReader::default();
    for declared in &declared {
        reading.parameter(&mut shapes, declared);
    }
    let body = match operation.get("requestBody") {
        Some(request) => reading.body(&mut shapes, request)?,
        None => BodyKind::None,
    };
    let ArgumentsReader { properties, required } = reading;
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        // Otherwise what a model puts at the wrong level would be dropped silently.
        "additionalProperties": false,
    });
    let parameters = declared.into_iter().map(|declared| declared.parameter).collect();
    Ok(OperationArguments { schema, parameters, body })
}

fn declare(
    shapes: &OperationSchemas<'_>,
    parameter: &Json,
    declared: &mut Vec<DeclaredParameter>,
) -> Result<(), String> {
    let said = shapes.resolved(parameter)?;
    let name = text(&said, "/name");
    let place = match said.get("in").and_then(Json::as_str) {
        Some("path") => ArgumentPlace::Path,
        Some("query") => ArgumentPlace::Query,
        // Content type, accepted answers, host and credentials are determined by the document and the operator.
        Some("header") if RESERVED_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) => return Ok(()),
        Some("header") => ArgumentPlace::Header,
        // Cookies may not be set.
        _ => return Ok(()),
    };
    if name.is_empty() {
        return Err("one of its parameters has no name".to_owned());
    }
    let parameter = Parameter::read(&name, place, &said)?;
    let new = DeclaredParameter { parameter, said };
    let is_same =
        |known: &&mut DeclaredParameter| known.parameter.place == place && known.parameter.name == name;
    // An operation may redeclare a parameter of its path, and its own declaration takes precedence.
    match declared.iter_mut().find(is_same) {
        Some(known) => *known = new,
        None => declared.push(new),
    }
    Ok(())
}

/// Makes the argument names unique: documents may use one name in several places, and `body` is taken.
fn name(declared: &mut [DeclaredParameter]) {
    let mut taken: BTreeSet<String> = declared.iter().map(|one| one.parameter.name.clone()).collect();
    let mut given = BTreeSet::from([BODY.to_owned()]);
    for DeclaredParameter { parameter, .. } in declared {
        if given.insert(parameter.name.clone()) {
            continue;
        }
        let placed = format!("{}_{}", parameter.name, parameter.place.name());
        let further = (2..).map(|place: usize| format!("{placed}_{place}"));
        let free = std::iter::once(placed.clone()).chain(further).find(|name| !taken.contains(name));
        parameter.argument = free.unwrap_or(placed);
        taken.insert(parameter.argument.clone());
    }
}
