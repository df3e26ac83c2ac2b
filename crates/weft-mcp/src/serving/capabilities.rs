//! What a client has declared that it can do.

use std::collections::BTreeSet;

use serde_json::json;
use weft_core::Json;

use super::message::RpcError;

/// The extension for work that outlasts its request.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Capabilities of a client that are remembered, and as many extensions.
const DECLARED_MAX: usize = 64;
/// Bytes of the name of one.
const CAPABILITY_NAME_BYTES_MAX: usize = 128;

/// A client's capabilities.
// Their names alone: a conversation is kept for long, there are thousands, and what is declared may be as large as a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    capabilities: BTreeSet<String>,
    extensions: BTreeSet<String>,
}

impl Client {
    /// As it has declared them.
    pub(crate) fn new(declared: Option<&Json>) -> Self {
        Self {
            capabilities: named(declared),
            extensions: named(declared.and_then(|all| all.get("extensions"))),
        }
    }

    /// Whether it has declared a capability such as `elicitation`.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.contains(capability)
    }

    /// Whether it knows of an extension.
    pub fn extends(&self, extension: &str) -> bool {
        self.extensions.contains(extension)
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

/// What is declared, by name.
fn named(declared: Option<&Json>) -> BTreeSet<String> {
    let all = declared.and_then(Json::as_object).into_iter().flatten();
    // As the protocol has it, an empty object is a yes; `true` or a text is no declaration.
    let named = all.filter(|(name, value)| value.is_object() && name.len() <= CAPABILITY_NAME_BYTES_MAX);
    named.take(DECLARED_MAX).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limited_number_of_capability_names_is_stored() {
        let many: serde_json::Map<String, Json> = (0..10_000).map(|n| (format!("c{n}"), json!({}))).collect();
        let mut declared =
            json!({"sampling": {"x": "y".repeat(1 << 20)}, "z".repeat(1 << 20): {}, "extensions": many});
        declared["extensions"][TASKS] = json!({});
        let client = Client::new(Some(&declared));
        assert!(client.can("sampling") && format!("{client:?}").len() < 10_000);
    }

    #[test]
    fn a_missing_capability_is_named() {
        let client = Client::new(Some(&json!({"sampling": {}, "roots": true, "extensions": {TASKS: {}}})));
        assert!(client.check_question("sampling/createMessage").is_ok() && client.check_tasks().is_ok());
        let missing = client.check_question("roots/list").unwrap_err();
        assert_eq!(missing.data, json!({"requiredCapabilities": {"roots": {}}}));
        let missing = Client::new(None).check_tasks().unwrap_err();
        assert_eq!(missing.data["requiredCapabilities"]["extensions"][TASKS], json!({}));
    }
}
