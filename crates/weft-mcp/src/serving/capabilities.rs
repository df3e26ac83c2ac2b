//! The capabilities that a client has declared.

use std::collections::BTreeSet;

use serde_json::json;
use weft_core::Json;

use super::message::RpcError;

/// The extension for tasks.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Maximum number of capabilities of a client that are stored; the same for extensions.
const DECLARED_MAX: usize = 64;
/// Maximum size of the name of a capability or extension, in bytes.
const CAPABILITY_NAME_BYTES_MAX: usize = 128;

/// A client's capabilities.
// Only their names: there are thousands of long-lived sessions, and a declaration may be as large as a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    capabilities: BTreeSet<String>,
    extensions: BTreeSet<String>,
}

impl Client {
    /// Reads the declared capabilities.
    pub(crate) fn new(declared: Option<&Json>) -> Self {
        Self {
            capabilities: named(declared),
            extensions: named(declared.and_then(|all| all.get("extensions"))),
        }
    }

    /// Returns whether it has declared a capability such as `elicitation`.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.contains(capability)
    }

    /// Returns whether it has declared an extension.
    pub fn extends(&self, extension: &str) -> bool {
        self.extensions.contains(extension)
    }

    /// Checks that it can answer a request with this method.
    ///
    /// # Errors
    /// `MISSING_CAPABILITY`, naming the capability.
    pub(crate) fn check_question(&self, method: &str) -> Result<(), RpcError> {
        let needed = match method {
            "elicitation/create" => "elicitation",
            "sampling/createMessage" => "sampling",
            "roots/list" => "roots",
            _ => return Ok(()),
        };
        if self.can(needed) { Ok(()) } else { Err(RpcError::capability(&json!({ needed: {} }))) }
    }

    /// Checks that it supports tasks.
    ///
    /// # Errors
    /// `MISSING_CAPABILITY`, naming the extension.
    pub(crate) fn check_tasks(&self) -> Result<(), RpcError> {
        if self.extends(TASKS) {
            Ok(())
        } else {
            Err(RpcError::capability(&json!({"extensions": {TASKS: {}}})))
        }
    }
}

/// Returns the names of what is declared.
fn named(declared: Option<&Json>) -> BTreeSet<String> {
    let all = declared.and_then(Json::as_object).into_iter().flatten();
    // In the protocol an empty object is a declaration; `true` or a string is not.
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
