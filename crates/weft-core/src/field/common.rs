//! The parameters that every component has.

use super::{Choice, Field, FieldGroup, Kind, choice};
use crate::retry::{RETRIES, RETRIES_MAX};

const METHODS: [Choice; 2] = [
    choice("comment", "the default value takes the place of the result"),
    choice("goto", "the run goes on with the components of `exception_goto`"),
];

/// What happens when the node fails.
pub static EXCEPTION_METHOD: Field = Field::raw(
    "exception_method",
    Kind::Choice(&METHODS),
    "what happens when the node fails; the run fails when absent",
);
/// The components that run next when the node fails.
pub static EXCEPTION_GOTO: Field = Field::raw(
    "exception_goto",
    Kind::Targets,
    "the components that the run goes on with when the node fails",
)
.shown_when("exception_method", &["goto"]);
/// The value that replaces the result when the node fails.
pub static EXCEPTION_DEFAULT_VALUE: Field = Field::raw(
    "exception_default_value",
    Kind::Any,
    "what takes the place of the result when the node fails",
);

/// When the node repeats its work.
pub static RETRY_IF: Field = Field::raw(
    "retry_if",
    Kind::Objects(&[
        Field::raw("output", Kind::Text, "which output; the main one when absent"),
        Field::raw(
            "operator",
            Kind::Text,
            "an operator of Switch, or `json` (with nothing around it), `not json`, or `matches` with a regular expression",
        ),
        Field::raw("value", Kind::Any, "what the output is compared with"),
    ]),
    "conditions on what came out; when one of them holds the work is done again; a model that answers without a word has given nothing",
);
/// Maximum number of repetitions.
pub static RETRY_MAX: Field<usize> = Field::count(
    "retry_max",
    RETRIES,
    &(0..=RETRIES_MAX),
    "how often the work is done again, with `retry_if`",
);

/// Parameters that editors write to every node.
static DESCRIPTION: Field = Field::raw("description", Kind::Text, "what the node is for").not_offered();
static INPUTS: Field = Field::raw("inputs", Kind::Any, "what an editor shows as the inputs").not_offered();
static OUTPUTS: Field = Field::raw("outputs", Kind::Any, "what an editor shows as the outputs").not_offered();
static ON_MISSING_CREDENTIAL: Field =
    Field::raw("on_missing_credential", Kind::Text, "what happens without a key").not_offered();

/// The parameters that every component has in addition to those of its type.
pub static GROUPS: &[FieldGroup] = &[FieldGroup {
    title: "When it fails",
    fields: &[
        &EXCEPTION_METHOD,
        &EXCEPTION_GOTO,
        &EXCEPTION_DEFAULT_VALUE,
        &RETRY_IF,
        &RETRY_MAX,
        &DESCRIPTION,
        &INPUTS,
        &OUTPUTS,
        &ON_MISSING_CREDENTIAL,
    ],
}];

/// Settings for calling a tool that an entry of an agent's `tools` may contain, also among the parameters of the
/// tool.
pub static OF_A_TOOL: &[FieldGroup] = &[FieldGroup {
    title: "How it is called",
    fields: &[
        &Field::raw("approval", Kind::Flag, "whether a person has to agree").not_offered(),
        &Field::raw("approval_timeout_seconds", Kind::Any, "how long a person may take").not_offered(),
        &Field::raw("idempotent", Kind::Flag, "whether a call may be made twice").not_offered(),
        &Field::raw("poll", Kind::Flag, "whether calls with the same arguments are no loop").not_offered(),
        &Field::raw("alone", Kind::Flag, "whether nothing is called beside it").not_offered(),
        &Field::raw("background", Kind::Flag, "whether the agent goes on while a call is under way")
            .not_offered(),
        &Field::raw("tool_time_limit", Kind::Any, "how many seconds a call may take").not_offered(),
        &Field::raw("function_name", Kind::Text, "its name for the model").not_offered(),
        &Field::raw("description", Kind::Text, "what it does, for the model").not_offered(),
    ],
}];
