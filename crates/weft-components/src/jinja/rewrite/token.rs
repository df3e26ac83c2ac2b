//! The tokens of a template.

/// A token inside `{{ … }}` or `{% … %}`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A name, a number or a string literal.
    Atom(&'a str),
    /// A reference, as the variable that stands for it.
    Variable(String),
    Operator(&'a str),
    Open(&'a str),
    Close(&'a str),
}

impl Token<'_> {
    /// As it is written.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Atom(text) | Self::Operator(text) | Self::Open(text) | Self::Close(text) => text,
            Self::Variable(name) => name,
        }
    }

    /// Whether a bracket after it makes a call or an index.
    pub(super) fn ends_operand(&self) -> bool {
        match self {
            Self::Atom(text) => !matches!(
                *text,
                "in" | "and" | "or" | "not" | "if" | "elif" | "else" | "is" | "set" | "for" | "with"
            ),
            Self::Variable(_) | Self::Close(_) => true,
            Self::Operator(_) | Self::Open(_) => false,
        }
    }
}
