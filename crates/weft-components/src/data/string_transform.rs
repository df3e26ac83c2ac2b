//! The StringTransform component: splits a text into a list, or assembles a text.

use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, Expected, Finished, Json, NodeContext, Outputs, ParamProblem, Reads,
    Reference, Result, Role, Shape, async_trait,
};

use crate::params::{Field, Params, Widget, choice, described, fields};
use crate::text::Text;

/// Number of bytes that a piece takes besides its text.
const PIECE_COST: usize = size_of::<Json>();
/// Maximum number of delimiters of a node.
// Each is searched for in the whole text and compared at every piece, so that time grows with both.
const DELIMITERS_MAX: usize = 100;

static METHOD: Field<&str> = Field::choice(
    "method",
    "split",
    &[choice("split", "splits a text into a list"), choice("merge", "merges values into a text")],
    "the operation",
);
static SPLIT_REF: Field<Option<Reference>> =
    Field::needed_reference("split_ref", "the text to split").shown_when("method", &["split"]);
static SCRIPT: Field<String> =
    Field::text("script", "the text to produce, with references or as a Jinja template")
        .with_references()
        .widget(Widget::Lines)
        .shown_when("method", &["merge"]);
static DELIMITERS: Field<Vec<String>> =
    Field::texts("delimiters", "where to cut, `,` when absent; lists are joined by the first");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "StringTransform",
    role: Role::Step,
    summary: "Splits a text into a list at delimiters, or merges values into a text.",
    fields: &[fields(&[&METHOD, &SPLIT_REF, &SCRIPT, &DELIMITERS])],
    outputs: &[weft_core::OutputSpec::new("result", "any", "the parts as a list, or the merged text")],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let delimiters = match params.get(&DELIMITERS) {
            None => vec![",".to_owned()],
            Some(_) => {
                params.take(&DELIMITERS).into_iter().filter(|delimiter| !delimiter.is_empty()).collect()
            }
        };
        if delimiters.is_empty() {
            params.problem(
                ParamProblem::new("/delimiters", "there is no delimiter").help("add one, such as `,`"),
            );
        }
        if delimiters.len() > DELIMITERS_MAX {
            let message =
                format!("there are {} delimiters; at most {DELIMITERS_MAX} are allowed", delimiters.len());
            params.problem(ParamProblem::new("/delimiters", message).help("split in several steps"));
        }
        let mut is_blank = false;
        // An invalid method says nothing about the other parameters.
        let wrong_so_far = params.problems().len();
        let work = match params.take(&METHOD) {
            _ if params.problems().len() > wrong_so_far => None,
            "merge" => {
                let script = params.take(&SCRIPT);
                is_blank = script.trim().is_empty();
                let script =
                    Text::parse(&script, source, "/script").map_err(|problem| params.problem(problem)).ok();
                let unknown = script.iter().flat_map(|script| script.doubts(source, "/script"));
                unknown.for_each(|warning| params.warn(warning));
                script.map(TextOperation::Merge)
            }
            _ => params.take(&SPLIT_REF).map(TextOperation::Split),
        };
        let warnings = params.warnings();
        params.finish(StringTransform { work, delimiters, warnings, is_blank })
    },
};

enum TextOperation {
    Split(Reference),
    Merge(Text),
}

struct StringTransform {
    work: Option<TextOperation>,
    delimiters: Vec<String>,
    warnings: Vec<ParamProblem>,
    /// Whether there is no text to assemble.
    is_blank: bool,
}

impl StringTransform {
    fn split(&self, reference: &Reference, ctx: &NodeContext) -> Result<Json> {
        let value = ctx.inputs.json(reference);
        let text = match &*value {
            Json::Array(_) | Json::Object(_) => {
                return Err(Error::invalid(format!("`{reference}` is {}, not a text", described(&value)))
                    .help("let `split_ref` name an output that is a text"));
            }
            value => to_text(value),
        };
        let pieces = pieces(&text, &self.delimiters);
        // A text that consists only of delimiters has many pieces, each of which takes more space than its text.
        ctx.inputs.room().take(text.len() + pieces.len() * PIECE_COST)?;
        Ok(pieces.into())
    }
}

/// Returns the text between the delimiters; of two that begin at the same place, the longer one counts.
fn pieces<'a>(text: &'a str, delimiters: &[String]) -> Vec<&'a str> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    // The next occurrence of each delimiter: the text is scanned once per delimiter, however often the others occur.
    let next = |delimiter: &str, from: usize| text[from..].find(delimiter).map(|place| from + place);
    let mut places: Vec<Option<usize>> = delimiters.iter().map(|delimiter| next(delimiter, 0)).collect();
    loop {
        let met = places
            .iter()
            .zip(delimiters)
            .filter_map(|(place, delimiter)| Some((((*place)?), delimiter.len())));
        let Some((place, length)) = met.min_by_key(|(place, length)| (*place, usize::MAX - length)) else {
            pieces.push(&text[from..]);
            return pieces;
        };
        pieces.push(&text[from..place]);
        from = place + length;
        for (place, delimiter) in places.iter_mut().zip(delimiters) {
            if place.is_some_and(|place| place < from) {
                *place = next(delimiter, from);
            }
        }
    }
}

#[async_trait]
impl Component for StringTransform {
    fn shape(&self) -> Shape {
        let reads = match &self.work {
            Some(TextOperation::Split(reference)) => vec![reference.clone()],
            Some(TextOperation::Merge(script)) => script.references(),
            None => Vec::new(),
        };
        let warnings = self.warnings.clone();
        let unfilled = self.is_blank.then(|| {
            ParamProblem::new("/script", "is empty, so the result is always an empty text")
                .help("enter the text to produce, such as `{sys.query}`")
        });
        let unfilled = unfilled.into_iter().collect();
        let expects = match &self.work {
            Some(TextOperation::Split(reference)) => vec![(reference.clone(), Expected::Text)],
            Some(TextOperation::Merge(_)) | None => Vec::new(),
        };
        let reads = Reads::always(reads);
        Shape { reads, expects, main_output: "result", warnings, unfilled, ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let result = match &self.work {
            Some(TextOperation::Split(reference)) => self.split(reference, ctx)?,
            Some(TextOperation::Merge(script)) => {
                let delimiter = self.delimiters.first().map_or("", String::as_str);
                Json::String(script.render_joined(&ctx.inputs, delimiter)?)
            }
            None => Json::Null,
        };
        Ok(Outputs::of("result", result).into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, failure, outputs};
    use serde_json::{Value as Json, json};

    #[tokio::test]
    async fn split_keeps_empty_parts() {
        let check = async |value: Json, delimiters: Json, expected: Json| {
            let node =
                Node::new("StringTransform", json!({"split_ref": "{Agent:A@t}", "delimiters": delimiters}));
            let found = outputs(&node, Setting::values([("Agent:A@t", value)])).await;
            assert_eq!(found, json!({"result": expected}));
        };
        check(json!("a,b,,c"), json!(null), json!(["a", "b", "", "c"])).await;
        check(json!("a;b,c"), json!([",", ";"]), json!(["a", "b", "c"])).await;
        check(json!("a--b-c"), json!(["-", "--"]), json!(["a", "b", "c"])).await;
        check(json!(null), json!([","]), json!([""])).await;
        check(json!(12), json!(["2"]), json!(["1", ""])).await;
        let node = Node::new("StringTransform", json!({"split_ref": "Agent:A@t"}));
        let error = failure(&node, Setting::values([("Agent:A@t", json!([1]))])).await;
        assert!(error.message.contains("a list of 1"));
    }

    #[tokio::test]
    async fn merge_builds_a_text() {
        let check = async |script: &str, expected: &str| {
            let params = json!({"method": "merge", "script": script, "delimiters": ["; "]});
            let values = [
                ("Agent:A@l", json!(["a", 1])),
                ("Agent:A@n", json!(0)),
                ("Agent:A@o", json!({"汉": [true]})),
            ];
            let found = outputs(&Node::new("StringTransform", params), Setting::values(values)).await;
            assert_eq!(found, json!({"result": expected}));
        };
        check("x {Agent:A@l} y", "x a; 1 y").await;
        check("{Agent:A@n}{Agent:A@none} {Agent:A@o}", "0 {\"汉\":[true]}").await;
        check("{% for x in {Agent:A@l} %}<{{ x }}>{% endfor %}", "<a><1>").await;
    }

    #[test]
    fn problems_are_all_reported() {
        let check = |params: Json, expected: &[&str]| {
            assert_eq!(Node::new("StringTransform", params).problems(), expected);
        };
        check(json!({"delimiters": []}), &["/delimiters", "/split_ref"]);
        check(json!({"method": "merge", "script": "{% if %}"}), &["/script"]);
        check(json!({"method": "fold"}), &["/method"]);
        // Many delimiters and many parts together would take hours.
        check(json!({"split_ref": "{Agent:A@t}", "delimiters": vec![","; 100]}), &[]);
        check(json!({"split_ref": "{Agent:A@t}", "delimiters": vec![","; 101]}), &["/delimiters"]);
    }
}
