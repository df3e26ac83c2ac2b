//! The endpoint for MCP clients.

use super::shape::{Type, member, text};
use super::{Answer, Operation};

/// `POST /mcp`.
pub static POST: Operation =
    Operation::reads("Accepts a message of the Model Context Protocol (streamable HTTP); see docs/mcp.md.")
        .body(&[
            text("jsonrpc", "`2.0`"),
            text("method", "the method; absent in responses to requests from the server").optional(),
            member("id", Type::Any, "id for the response; absent for notifications").optional(),
            member("params", Type::Any, "parameters of the method").optional(),
        ])
        .answer(Answer::JsonRpc);
/// `DELETE /mcp`.
pub static DELETE: Operation =
    Operation::reads("Ends the session named in the header Mcp-Session-Id.").answer(Answer::JsonRpc);
