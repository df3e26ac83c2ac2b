//! Expectations of a turn, as written in a file. They are evaluated in pure code: an observation in, all deviations
//! out.

mod look;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use weft_core::Json;
use weft_core::journal::Ending;

pub(crate) use self::look::status;

/// A condition on a turn. Everything that one names has to hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// A condition on the answer.
    Answer(TextTest),
    /// A condition on the outputs of a node, or of the whole turn.
    Output(Box<OutputTest>),
    /// A condition on tool calls.
    Tools(ToolsTest),
    /// A condition on which nodes ran.
    Nodes(NodesTest),
    /// A condition on sources.
    Citations(CitationsTest),
    /// The ending.
    Status(Ending),
    /// A condition on the error message.
    Error(TextTest),
    /// A condition on warnings.
    Warnings(WarningsTest),
    /// Limits on usage.
    AtMost(UsageLimits),
    /// A condition that only a reader can check; a model is asked.
    Judge(Judge),
}

/// One text or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrManyTexts {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl OneOrManyTexts {
    /// Iterates over all of them.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        match self {
            Self::One(text) => std::slice::from_ref(text).iter(),
            Self::Many(texts) => texts.iter(),
        }
    }
}

/// Conditions on a text. All that are present must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextTest {
    /// It equals this text, ignoring white space at either end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// It contains these parts; case-sensitive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<OneOrManyTexts>,
    /// It contains none of these parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<OneOrManyTexts>,
    /// These regular expressions match in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<OneOrManyTexts>,
    /// It is similar to this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similar_to: Option<String>,
    /// The minimum similarity, 0 to 1; see [`crate::text::similarity`]. 0.7 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

/// A test of an output of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputTest {
    /// The node, by id or display name; if absent, the final outputs of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A JSON pointer into its outputs, such as `/structured/city`; if empty, all of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// It equals this value.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub equals: Option<Json>,
    /// It includes this value: members of objects, items of lists in their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub includes: Option<Json>,
    /// It satisfies this JSON schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// Its text form passes this test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextTest>,
}

/// Deserialises a present value, since null is a value, too.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// A test of the tool calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsTest {
    /// Calls that have to be made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub called: Vec<CallTest>,
    /// Whether the calls have to be made in this order; others may come between them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// Whether no other tools may be called.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only: bool,
    /// Tools that must not be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never: Option<OneOrManyTexts>,
    /// The number of calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// A test of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallTest {
    /// The name by which the model calls the tool, or its path in display names, such as `Agent-->search`.
    pub tool: String,
    /// Members that the arguments must include.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Json>,
    /// The number of such calls; at least one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<usize>,
    /// Whether it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
}

/// A test of which nodes ran, each by its id or display name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodesTest {
    /// Nodes that have to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran: Option<OneOrManyTexts>,
    /// Nodes that must not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_run: Option<OneOrManyTexts>,
    /// Nodes that have to end in this order; others may come between them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_order: Vec<String>,
    /// How often nodes have to run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<String, usize>,
}

/// A test of the sources of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CitationsTest {
    /// Whether each mark `[ID:n]` in the answer must have its source.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resolve: bool,
    /// The number of sources that are cited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// The minimum number of sources that are cited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// The names of documents that have to be cited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<OneOrManyTexts>,
}

/// Conditions on the warnings of a turn. All that are present must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WarningsTest {
    /// The number of warnings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Parts, each of which one of the warnings must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<OneOrManyTexts>,
}

/// Limits on the usage of a turn. Calls that are answered from a recording count as they did then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UsageLimits {
    /// Tokens read and written by models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Rounds of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Money, in the currency of the models' prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
}

/// A criterion by which a model judges the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// What has to be true of the answer, in a sentence.
    pub criterion: String,
    /// The model, as a canvas names it; the default model if absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
}

/// A deviation from an expectation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Miss {
    /// The index of the expectation in the turn, from 0; `None` for what is expected of every turn.
    pub expectation: Option<usize>,
    /// What was compared: `answer contains`.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub got: String,
}

impl Miss {
    /// Creates a deviation that belongs to no particular expectation.
    pub fn new(what: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self { expectation: None, what: what.into(), expected: expected.into(), got: got.into() }
    }
}

impl Expectation {
    /// Checks that it is meaningful.
    ///
    /// # Errors
    /// What is not.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Answer(test) | Self::Error(test) => test.check(),
            Self::Output(test) => test.check(),
            Self::Tools(test) if *test == ToolsTest::default() => Err(nothing()),
            Self::Nodes(test) if *test == NodesTest::default() => Err(nothing()),
            Self::Citations(test) if *test == CitationsTest::default() => Err(nothing()),
            Self::Warnings(test) if *test == WarningsTest::default() => Err(nothing()),
            Self::AtMost(limits) if *limits == UsageLimits::default() => Err(nothing()),
            // YAML can express NaN, and no value exceeds that.
            Self::AtMost(UsageLimits { money: Some(most), .. }) if !most.is_finite() || *most < 0.0 => {
                Err("`money` must be an amount of 0 or more, such as 0.05".to_owned())
            }
            Self::Judge(judge) if judge.criterion.trim().is_empty() => {
                Err("the criterion is empty: state in a sentence what must be true".to_owned())
            }
            Self::Tools(_)
            | Self::Nodes(_)
            | Self::Citations(_)
            | Self::Warnings(_)
            | Self::AtMost(_)
            | Self::Status(_)
            | Self::Judge(_) => Ok(()),
        }
    }
}

/// Returns the message for a test that cannot fail.
fn nothing() -> String {
    "it has no conditions: add at least one".to_owned()
}

impl Expectation {
    /// Returns the nodes that it names: a condition on a node that is not in the canvas could not fail.
    pub fn nodes(&self) -> Vec<&str> {
        match self {
            Self::Output(test) => test.node.as_deref().into_iter().collect(),
            Self::Nodes(test) => {
                let texts = test.ran.iter().chain(&test.not_run).flat_map(OneOrManyTexts::iter);
                texts.chain(&test.in_order).chain(test.times.keys()).map(String::as_str).collect()
            }
            Self::Answer(_)
            | Self::Tools(_)
            | Self::Citations(_)
            | Self::Status(_)
            | Self::Error(_)
            | Self::Warnings(_)
            | Self::AtMost(_)
            | Self::Judge(_) => Vec::new(),
        }
    }
}

impl TextTest {
    fn check(&self) -> Result<(), String> {
        if self.at_least.is_some() && self.similar_to.is_none() {
            return Err("`at_least` has nothing to compare with: set `similar_to` to a text".to_owned());
        }
        if self.at_least.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err("`at_least` must be a share from 0 to 1, such as 0.8".to_owned());
        }
        if *self == Self::default() {
            return Err(nothing());
        }
        let parts = self.contains.iter().chain(&self.lacks).flat_map(OneOrManyTexts::iter);
        if parts.chain(&self.similar_to).any(String::is_empty) {
            return Err("every text contains the empty text: write what you look for".to_owned());
        }
        for pattern in self.matches.iter().flat_map(OneOrManyTexts::iter) {
            // A value of a row may still be filled in.
            if !pattern.contains("{{row.") {
                look::pattern(pattern)?;
            }
        }
        Ok(())
    }
}

impl OutputTest {
    fn check(&self) -> Result<(), String> {
        if !(self.at.is_empty() || self.at.starts_with('/')) {
            return Err(format!("`at` is a JSON pointer and begins with `/`: write `/{}`", self.at));
        }
        if let Some(schema) = &self.schema {
            look::schema(schema)?;
        }
        if let Some(test) = &self.text {
            test.check().map_err(|why| format!("text: {why}"))?;
        }
        let (equals, includes) = (self.equals.is_some(), self.includes.is_some());
        if equals || includes || self.schema.is_some() || self.text.is_some() {
            Ok(())
        } else {
            Err(nothing())
        }
    }
}
