//! Questions to the client.

use serde_json::Map;
use weft_core::Json;

/// Questions to the client. The client returns its answers under the same names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    /// Requests such as `elicitation/create`: `{method, params}`.
    pub requests: Map<String, Json>,
    /// State that the client returns with its answers, so that the server stores nothing between the two requests.
    pub state: Option<String>,
}
