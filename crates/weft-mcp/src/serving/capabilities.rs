//! What a client has declared that it can do.

use serde_json::{Map, json};
use weft_core::Json;

use super::message::RpcError;

/// The extension for work that outlasts its request.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A client's capabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client(Map<String, Json>);

impl Client {
    /// As it has declared them.
    pub(crate) fn new(declared: Option<&Json>) -> Self {
        Self(declared.and_then(Json::as_object).cloned().unwrap_or_default())
    }

    /// Whether it has declared a capability such as `elicitation`.
    pub fn can(&self, capability: &str) -> bool {
        // As the protocol has it, an empty object is a yes; `true` or a text is no declaration.
        self.0.get(capability).is_some_and(Json::is_object)
    }

    /// Whether it knows of an extension.
    pub fn extends(&self, extension: &str) -> bool {
        self.0.get("extensions").and_then(|all| all.get(extension)).is_some_and(Json::is_object)
    }

    /// Whether it can answer a question of this method.
    ///
    /// # Errors
    /// Naming the capability that it lacks.
    pub(crate) fn check_question(&self, method: &str) -> Result<(), RpcError> {
        let needed = match method {
            "elicitation/create" => "elicitation",
            "sampling/createMessage" => "sampling",
            "roots/list" => "roots",
            _ => return Ok(()),
        };
        if self.can(needed) { Ok(()) } else { Err(RpcError::capability(&json!({ needed: {} }))) }
    }

    /// Whether it knows of tasks.
    ///
    /// # Errors
    /// Naming the extension.
    pub(crate) fn check_tasks(&self) -> Result<(), RpcError> {
        if self.extends(TASKS) {
            Ok(())
        } else {
            Err(RpcError::capability(&json!({"extensions": {TASKS: {}}})))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let client = Client::new(Some(&json!({"sampling": {}, "roots": true, "extensions": {TASKS: {}}})));
        assert!(client.check_question("sampling/createMessage").is_ok() && client.check_tasks().is_ok());
        let missing = client.check_question("roots/list").unwrap_err();
        assert_eq!(missing.data, json!({"requiredCapabilities": {"roots": {}}}));
        let missing = Client::new(None).check_tasks().unwrap_err();
        assert_eq!(missing.data["requiredCapabilities"]["extensions"][TASKS], json!({}));
    }
}
