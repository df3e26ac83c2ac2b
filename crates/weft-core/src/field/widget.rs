//! How forms ask for values.

/// How a form asks for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Widget {
    /// Several lines of text.
    Lines,
    /// A program.
    Code,
    /// Names and values in two columns.
    Pairs,
    /// A choice among the chat models of the tenant.
    ChatModel,
    /// A choice among the rerankers of the tenant.
    Reranker,
    /// A choice among the datasets of the tenant.
    Datasets,
    /// The tools of an agent.
    Tools,
    /// A choice among the configured MCP servers.
    McpServers,
    /// The fields of a form that people fill in.
    Form,
    /// A JSON Schema.
    JsonSchema,
}

impl Widget {
    /// Its name for forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Code => "code",
            Self::Pairs => "pairs",
            Self::ChatModel => "chat_model",
            Self::Reranker => "reranker",
            Self::Datasets => "datasets",
            Self::Tools => "tools",
            Self::McpServers => "mcp_servers",
            Self::Form => "form",
            Self::JsonSchema => "json_schema",
        }
    }
}
