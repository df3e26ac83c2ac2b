//! What may be expected of a turn, as it is written in a file. Whether it holds is decided in pure
//! code: an observation in, everything that is not as expected out.

mod look;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use weft_core::Json;
use weft_core::journal::Ending;

pub(crate) use self::look::status;

/// Something that has to be true of a turn. Everything that is named in one has to hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// About what it says.
    Answer(TextTest),
    /// About what a node, or the whole turn, gives.
    Output(Box<OutputTest>),
    /// About calls of tools.
    Tools(ToolsTest),
    /// About which nodes ran.
    Nodes(NodesTest),
    /// About sources.
    Citations(CitationsTest),
    /// How it ends.
    Status(Ending),
    /// Why it failed.
    Error(TextTest),
    /// About warnings.
    Warnings(WarningsTest),
    /// About what it used.
    AtMost(UsageLimits),
    /// About something that only a reader can tell; a model is asked.
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
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        match self {
            Self::One(text) => std::slice::from_ref(text).iter(),
            Self::Many(texts) => texts.iter(),
        }
    }
}

/// A test of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextTest {
    /// It is this text; white space at its ends does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// It has these parts; case counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<OneOrManyTexts>,
    /// It has none of these parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<OneOrManyTexts>,
    /// These regular expressions match in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<OneOrManyTexts>,
    /// It says about the same as this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similar_to: Option<String>,
    /// How much about the same, 0 to 1; see [`crate::text::similarity`]. 0.7 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

/// A test of a value that a node gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputTest {
    /// The node, by id or display name; absent: what the turn gives in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where in its outputs, as a JSON pointer such as `/structured/city`; absent: all of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// It is this value.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub equals: Option<Json>,
    /// It has at least what this value has: members of objects, items of lists in their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub includes: Option<Json>,
    /// It satisfies this JSON schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// As a text, it passes this test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextTest>,
}

/// Null is a value, too.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// A test of the calls of tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsTest {
    /// Calls that are made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub called: Vec<CallTest>,
    /// The calls are made in the order in which they are named; others may come between them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// No other tools are called than those named.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only: bool,
    /// Tools that are not called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never: Option<OneOrManyTexts>,
    /// How many calls there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallTest {
    /// The name the model calls it by, or the way to it in display names, such as `Agent-->search`.
    pub tool: String,
    /// The arguments have at least these members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Json>,
    /// How many such calls there are; at least one when absent.
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
    /// They ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran: Option<OneOrManyTexts>,
    /// They did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_run: Option<OneOrManyTexts>,
    /// They ended in this order; others may come between them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_order: Vec<String>,
    /// How often they ran.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<String, usize>,
}

/// A test of the sources of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CitationsTest {
    /// Each mark `[ID:n]` in the answer has its source.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resolve: bool,
    /// How many sources are cited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// How many sources are cited at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// The names of documents that are cited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<OneOrManyTexts>,
}

/// A test of warnings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WarningsTest {
    /// How many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// One of them has this part, for each part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<OneOrManyTexts>,
}

/// What a turn may use. Calls that are answered from a recording count as they did then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UsageLimits {
    /// Tokens read and written by models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Calls of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Calls of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Rounds of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Money, in the currency of the models' prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
}

/// A criterion that a model judges the answer by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// What has to be true of the answer, in a sentence.
    pub criterion: String,
    /// The model, as a canvas names one; the default model when absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
}

/// Something that is not as expected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Miss {
    /// Which expectation of the turn, from 0 on; absent for what every turn has to do.
    pub expectation: Option<usize>,
    /// What was looked at: `answer contains`.
    pub what: String,
    /// What it should have been.
    pub expected: String,
    /// What it is.
    pub got: String,
}

impl Miss {
    /// Something else was seen than was expected.
    pub fn new(what: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self { expectation: None, what: what.into(), expected: expected.into(), got: got.into() }
    }
}

impl Expectation {
    /// Whether it makes sense.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Answer(test) | Self::Error(test) => test.check(),
            Self::Output(test) => test.check(),
            Self::Tools(test) if *test == ToolsTest::default() => Err(nothing()),
            Self::Nodes(test) if *test == NodesTest::default() => Err(nothing()),
            Self::Citations(test) if *test == CitationsTest::default() => Err(nothing()),
            Self::Warnings(test) if *test == WarningsTest::default() => Err(nothing()),
            Self::AtMost(limits) if *limits == UsageLimits::default() => Err(nothing()),
            // YAML has words for what is no number, and nothing is more than that.
            Self::AtMost(UsageLimits { money: Some(most), .. }) if !most.is_finite() || *most < 0.0 => {
                Err("`money` has to be an amount from 0 on, such as 0.05".to_owned())
            }
            Self::Judge(judge) if judge.criterion.trim().is_empty() => {
                Err("the criterion is empty: say in a sentence what has to be true".to_owned())
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

/// A test that cannot fail is no test.
fn nothing() -> String {
    "it expects nothing: name at least one thing in it".to_owned()
}

impl Expectation {
    /// The nodes that it names: what is said of one that is not in the canvas could not fail.
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
            return Err("`at_least` says how similar: name a text with `similar_to`".to_owned());
        }
        if self.at_least.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err("`at_least` has to be a share from 0 to 1, such as 0.8".to_owned());
        }
        if *self == Self::default() {
            return Err(nothing());
        }
        let parts = self.contains.iter().chain(&self.lacks).flat_map(OneOrManyTexts::iter);
        if parts.chain(&self.similar_to).any(String::is_empty) {
            return Err("every text contains the empty text: write what you look for".to_owned());
        }
        for pattern in self.matches.iter().flat_map(OneOrManyTexts::iter) {
            // A value of a row may still come into it.
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
