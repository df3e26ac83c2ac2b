//! The endpoint for MCP clients.

use super::shape::{Type, member, text};
use super::{Answer, Operation};

/// `POST /mcp`.
pub static POST: Operation = Operation::reads(
    "Takes a message of the Model Context Protocol (streamable HTTP); docs/mcp.md says what is offered.",
)
.body(&[
    text("jsonrpc", "`2.0`"),
    text("method", "what is asked for; absent in answers to questions of the server").optional(),
    member("id", Type::Any, "what the answer is to be named; absent for what wants none").optional(),
    member("params", Type::Any, "its parameters").optional(),
])
.answer(Answer::JsonRpc);
/// `DELETE /mcp`.
pub static DELETE: Operation =
    Operation::reads("Ends the conversation that the header Mcp-Session-Id names.").answer(Answer::JsonRpc);
