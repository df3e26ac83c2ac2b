//! The parameters that every component has.

use super::{Choice, Field, FieldGroup, Kind, choice};
use crate::retry::{RETRIES, RETRIES_MAX};

const METHODS: [Choice; 2] = [
    choice("comment", "the default value replaces the result"),
    choice("goto", "the run continues with the components in `exception_goto`"),
];

/// What happens when the node fails.
pub static EXCEPTION_METHOD: Field = Field::raw(
    "exception_method",
    Kind::Choice(&METHODS),
    "what happens when the node fails; if absent, the run fails",
);
/// The components that run next when the node fails.
pub static EXCEPTION_GOTO: Field =
    Field::raw("exception_goto", Kind::Targets, "the components that run next when the node fails")
        .shown_when("exception_method", &["goto"]);
/// The value that replaces the result when the node fails.
pub static EXCEPTION_DEFAULT_VALUE: Field = Field::raw(
    "exception_default_value",
    Kind::Any,
    "the value that replaces the result when the node fails",
);

/// When the node repeats its work.
pub static RETRY_IF: Field = Field::raw(
    "retry_if",
    Kind::Objects(&[
        Field::raw("output", Kind::Text, "the output to check; the main output if absent"),
        Field::raw(
            "operator",
            Kind::Text,
            "an operator of Switch, `json` (valid JSON with nothing around it), `not json`, or `matches` (a regular expression)",
        ),
        Field::raw("value", Kind::Any, "the value to compare the output with"),
    ]),
    "conditions on the outputs, any of which repeats the work (a model's empty answer counts as empty outputs)",
);
/// Maximum number of repetitions.
pub static RETRY_MAX: Field<usize> = Field::count(
    "retry_max",
    RETRIES,
    &(0..=RETRIES_MAX),
    "the maximum number of repetitions, with `retry_if`",
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
        &Field::raw("approval", Kind::Flag, "whether a person has to approve").not_offered(),
        &Field::raw("approval_timeout_seconds", Kind::Any, "the time limit for the approval").not_offered(),
        &Field::raw("idempotent", Kind::Flag, "whether a call may be repeated").not_offered(),
        &Field::raw("poll", Kind::Flag, "whether calls with the same arguments do not count as a loop")
            .not_offered(),
        &Field::raw("alone", Kind::Flag, "whether no other call runs at the same time").not_offered(),
        &Field::raw("background", Kind::Flag, "whether the agent continues while a call is running")
            .not_offered(),
        &Field::raw("tool_time_limit", Kind::Any, "the time limit of a call, in seconds").not_offered(),
        &Field::raw("function_name", Kind::Text, "its name for the model").not_offered(),
        &Field::raw("description", Kind::Text, "what it does, for the model").not_offered(),
    ],
}];
