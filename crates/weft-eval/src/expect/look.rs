//! Evaluates expectations.

use regex::RegexBuilder;
use weft_core::Json;
use weft_core::journal::Ending;
use weft_core::value::{plural, to_text};

use super::{
    CallTest, CitationsTest, Expectation, Miss, NodesTest, OneOrManyTexts, OutputTest, TextTest, ToolsTest,
    UsageLimits, WarningsTest,
};
use crate::file::JudgedCriterion;
use crate::observed::{Observed, ToolSeen};
use crate::text::{differing, short, similarity};

/// The default minimum similarity of texts.
const SIMILAR_MIN: f64 = 0.7;
/// Maximum number of bytes in a compiled regular expression.
// A short pattern with nested repetitions can compile to gigabytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Maximum number of schema violations that are reported.
// One mistake usually shows in many places.
const BREACHES_MAX: usize = 5;

/// Compiles a regular expression.
pub(super) fn pattern(text: &str) -> Result<regex::Regex, String> {
    let built = RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build();
    built.map_err(|error| format!("`{text}` is not a regular expression: {error}"))
}

/// Compiles a JSON schema. Nothing is fetched for it.
pub(super) fn schema(schema: &Json) -> Result<jsonschema::Validator, String> {
    let built = jsonschema::options().offline().build(schema);
    built.map_err(|error| format!("the schema is not valid: {error}"))
}

impl Expectation {
    /// Returns all deviations; empty if there are none. `judged` is a model's verdict on the criterion of an
    /// [`Expectation::Judge`].
    pub fn misses(&self, seen: &Observed, judged: Option<&JudgedCriterion>) -> Vec<Miss> {
        match self {
            Self::Answer(test) => test.misses("answer", &seen.answer),
            Self::Error(test) => test.misses("error", seen.error.as_deref().unwrap_or_default()),
            Self::Output(test) => test.misses(seen),
            Self::Tools(test) => test.misses(seen),
            Self::Nodes(test) => test.misses(seen),
            Self::Citations(test) => test.misses(seen),
            Self::Status(ending) => status(&[*ending], seen),
            Self::Warnings(test) => test.misses(seen),
            Self::AtMost(limits) => limits.misses(seen),
            Self::Judge(judge) => match judged {
                Some(judged) if judged.meets => Vec::new(),
                Some(judged) => vec![Miss::new("judge", &judge.criterion, format!("no: {}", judged.because))],
                None => vec![Miss::new("judge", &judge.criterion, "no model was asked: record it again")],
            },
        }
    }
}

/// Checks that a turn ended in one of these ways.
pub(crate) fn status(expected: &[Ending], seen: &Observed) -> Vec<Miss> {
    if expected.contains(&seen.ending) {
        return Vec::new();
    }
    let names: Vec<_> = expected.iter().map(|ending| ending.as_str()).collect();
    let got = match &seen.error {
        Some(error) => format!("{}: {}", seen.ending.as_str(), short(error)),
        None => seen.ending.as_str().to_owned(),
    };
    vec![Miss::new("status", names.join(" or "), got)]
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

impl TextTest {
    pub(super) fn misses(&self, what: &str, text: &str) -> Vec<Miss> {
        let mut misses = Vec::new();
        let shown = || quoted(&short(text));
        // A text that is written as a YAML block ends with a line break.
        if let Some(equals) = &self.equals
            && equals.trim() != text.trim()
        {
            let (expected, got) = differing(equals.trim(), text.trim());
            misses.push(Miss::new(format!("{what} equals"), quoted(&expected), quoted(&got)));
        }
        for part in
            self.contains.iter().flat_map(OneOrManyTexts::iter).filter(|part| !text.contains(part.as_str()))
        {
            misses.push(Miss::new(format!("{what} contains"), quoted(part), shown()));
        }
        for part in
            self.lacks.iter().flat_map(OneOrManyTexts::iter).filter(|part| text.contains(part.as_str()))
        {
            misses.push(Miss::new(format!("{what} lacks"), quoted(part), shown()));
        }
        for written in self.matches.iter().flat_map(OneOrManyTexts::iter) {
            match pattern(written) {
                Ok(pattern) if pattern.is_match(text) => {}
                Ok(_) => misses.push(Miss::new(format!("{what} matches"), format!("/{written}/"), shown())),
                Err(why) => misses.push(Miss::new(format!("{what} matches"), format!("/{written}/"), why)),
            }
        }
        if let Some(reference) = &self.similar_to {
            let (share, min) = (similarity(reference, text), self.at_least.unwrap_or(SIMILAR_MIN));
            if share < min {
                let expected = format!("at least {min:.2} like {}", quoted(&short(reference)));
                misses.push(Miss::new(
                    format!("{what} similar_to"),
                    expected,
                    format!("{share:.2}: {}", shown()),
                ));
            }
        }
        misses
    }
}

impl OutputTest {
    fn misses(&self, seen: &Observed) -> Vec<Miss> {
        let node = self.node.as_deref();
        let place = format!("output {}{}", node.unwrap_or_default(), self.at);
        let place = place.trim_end().to_owned();
        let Some(outputs) = node.map_or(Some(&seen.outputs), |node| seen.outputs_of(node)) else {
            return vec![Miss::new(place, "a value", "the node did not run")];
        };
        let Some(value) = outputs.pointer(&self.at) else {
            let names = outputs.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>().join(", "));
            let got = format!("nothing there; the outputs are: {}", names.unwrap_or_default());
            return vec![Miss::new(place, "a value", short(&got))];
        };
        let mut misses = Vec::new();
        if let Some(equals) = self.equals.as_ref().filter(|equals| !same(equals, value)) {
            let (expected, got) = differing(&equals.to_string(), &value.to_string());
            misses.push(Miss::new(format!("{place} equals"), expected, got));
        }
        if let Some(part) = self.includes.as_ref().filter(|part| !includes(value, part)) {
            misses.push(Miss::new(
                format!("{place} includes"),
                short(&part.to_string()),
                short(&value.to_string()),
            ));
        }
        if let Some(written) = &self.schema {
            misses.extend(breaches(&place, written, value));
        }
        if let Some(test) = &self.text {
            misses.extend(test.misses(&place, &to_text(value)));
        }
        misses
    }
}

fn breaches(place: &str, written: &Json, value: &Json) -> Vec<Miss> {
    let what = format!("{place} schema");
    match schema(written) {
        Err(why) => vec![Miss::new(what, "a schema", why)],
        Ok(validator) => validator
            .iter_errors(value)
            .take(BREACHES_MAX)
            .map(|error| {
                let at = error.instance_path().to_string();
                let at = if at.is_empty() { "the value".to_owned() } else { at };
                Miss::new(what.clone(), format!("{at} to satisfy the schema"), short(&error.to_string()))
            })
            .collect(),
    }
}

/// Whether two values are equal: `1` and `1.0` are.
fn same(one: &Json, two: &Json) -> bool {
    match (one, two) {
        (Json::Number(one), Json::Number(two)) => one == two || one.as_f64() == two.as_f64(),
        (Json::Array(one), Json::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
        }
        (Json::Object(one), Json::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, value)| two.get(key).is_some_and(|other| same(value, other)))
        }
        (one, two) => one == two,
    }
}

/// Whether a value includes a part: members of objects, items of lists in their order.
pub(super) fn includes(value: &Json, part: &Json) -> bool {
    match (value, part) {
        (Json::Object(value), Json::Object(part)) => {
            part.iter().all(|(key, part)| value.get(key).is_some_and(|value| includes(value, part)))
        }
        (Json::Array(value), Json::Array(part)) => {
            // One iterator for all parts, so that each is looked for behind the one before it.
            let mut items = value.iter();
            part.iter().all(|part| items.any(|item| includes(item, part)))
        }
        (value, part) => same(value, part),
    }
}

impl ToolsTest {
    fn misses(&self, seen: &Observed) -> Vec<Miss> {
        let mut misses = Vec::new();
        let calls = || calls(&seen.tools);
        for test in &self.called {
            let count = seen.tools.iter().filter(|call| test.holds(call)).count();
            let wanted = match test.times {
                None if count > 0 => continue,
                Some(times) if count == times => continue,
                None => String::new(),
                Some(1) => "once ".to_owned(),
                Some(times) => format!("{times} times "),
            };
            let expected = format!("{wanted}{}", test.shown());
            let counted = || format!("{}; {}", plural(count, "time"), calls());
            let got = if test.times.is_some() { counted() } else { calls() };
            misses.push(Miss::new("tools called", expected, got));
        }
        // Not if one is missing: the order would only report the same problem again.
        if self.in_order && misses.is_empty() {
            let mut rest = seen.tools.iter();
            let order = self.called.iter().all(|test| rest.any(|call| test.holds(call)));
            if !order {
                let expected: Vec<_> = self.called.iter().map(|test| test.tool.as_str()).collect();
                misses.push(Miss::new("tools in_order", expected.join(", "), calls()));
            }
        }
        let named = |call: &ToolSeen| self.called.iter().any(|test| call.is(&test.tool));
        if let Some(other) = seen.tools.iter().find(|call| self.only && !named(call)) {
            misses.push(Miss::new("tools only", "no other tools", shown_call(other)));
        }
        for tool in self.never.iter().flat_map(OneOrManyTexts::iter) {
            if let Some(call) = seen.tools.iter().find(|call| call.is(tool)) {
                misses.push(Miss::new("tools never", format!("no call of {tool}"), shown_call(call)));
            }
        }
        if let Some(count) = self.count.filter(|count| *count != seen.tools.len()) {
            misses.push(Miss::new("tools count", plural(count, "call"), calls()));
        }
        misses
    }
}

impl CallTest {
    fn holds(&self, call: &ToolSeen) -> bool {
        call.is(&self.tool)
            && self.arguments.as_ref().is_none_or(|part| includes(&call.arguments, part))
            && self.failed.is_none_or(|failed| failed == call.failed)
    }

    fn shown(&self) -> String {
        let arguments = self.arguments.as_ref().map(|part| format!(" with {part}")).unwrap_or_default();
        let failed = match self.failed {
            Some(true) => ", failed",
            Some(false) => ", not failed",
            None => "",
        };
        format!("{}{}{failed}", self.tool, short(&arguments))
    }
}

fn shown_call(call: &ToolSeen) -> String {
    format!(
        "{} {}{}",
        call.tool,
        short(&call.arguments.to_string()),
        if call.failed { " failed" } else { "" }
    )
}

fn calls(tools: &[ToolSeen]) -> String {
    match tools.len() {
        0 => "no call".to_owned(),
        count => {
            let calls: Vec<_> = tools.iter().map(shown_call).collect();
            format!("{}: {}", plural(count, "call"), short(&calls.join(", ")))
        }
    }
}

impl NodesTest {
    fn misses(&self, seen: &Observed) -> Vec<Miss> {
        let mut misses = Vec::new();
        let times = |node: &str| seen.nodes.iter().filter(|of| of.is(node)).count();
        let ran = || {
            let ids: Vec<_> = seen.nodes.iter().map(|of| of.node.as_str()).collect();
            short(&ids.join(", "))
        };
        for node in self.ran.iter().flat_map(OneOrManyTexts::iter).filter(|node| times(node) == 0) {
            misses.push(Miss::new("nodes ran", node, ran()));
        }
        for node in self.not_run.iter().flat_map(OneOrManyTexts::iter).filter(|node| times(node) > 0) {
            misses.push(Miss::new("nodes not_run", format!("not {node}"), ran()));
        }
        let mut rest = seen.nodes.iter();
        if !self.in_order.iter().all(|node| rest.any(|of| of.is(node))) {
            misses.push(Miss::new("nodes in_order", self.in_order.join(", "), ran()));
        }
        for (node, expected) in self.times.iter().filter(|(node, expected)| times(node) != **expected) {
            let expected = format!("{node} {}", plural(*expected, "time"));
            let got = plural(times(node), "time");
            misses.push(Miss::new("nodes times", expected, got));
        }
        misses
    }
}

impl CitationsTest {
    fn misses(&self, seen: &Observed) -> Vec<Miss> {
        let mut misses = Vec::new();
        let count = seen.cited.len();
        let documents: Vec<_> = seen.cited.iter().map(|cited| cited.chunk.document_name.as_str()).collect();
        if self.resolve {
            let known = |number: &u32| seen.cited.iter().any(|cited| cited.number == *number);
            // Marks are written by a model, which may also invent numbers.
            for number in marks(&seen.answer).into_iter().filter(|number| !known(number)) {
                misses.push(Miss::new(
                    "citations resolve",
                    format!("a source for [ID:{number}]"),
                    format!("{} without it", plural(count, "source")),
                ));
            }
        }
        if let Some(expected) = self.count.filter(|expected| *expected != count) {
            misses.push(Miss::new("citations count", expected.to_string(), count.to_string()));
        }
        if let Some(least) = self.at_least.filter(|least| *least > count) {
            misses.push(Miss::new("citations at_least", least.to_string(), count.to_string()));
        }
        for name in self.documents.iter().flat_map(OneOrManyTexts::iter) {
            if !documents.contains(&name.as_str()) {
                let got = if documents.is_empty() { "none".to_owned() } else { documents.join(", ") };
                misses.push(Miss::new("citations documents", name, short(&got)));
            }
        }
        misses
    }
}

/// Returns the numbers of all marks `[ID:n]` in a text.
fn marks(text: &str) -> Vec<u32> {
    text.split("[ID:").skip(1).filter_map(|rest| rest.split_once(']')?.0.trim().parse().ok()).collect()
}

impl WarningsTest {
    fn misses(&self, seen: &Observed) -> Vec<Miss> {
        let mut misses = Vec::new();
        let all = || match seen.warnings.len() {
            0 => "none".to_owned(),
            count => format!("{count}: {}", short(&seen.warnings.join("; "))),
        };
        if let Some(count) = self.count.filter(|count| *count != seen.warnings.len()) {
            misses.push(Miss::new("warnings count", count.to_string(), all()));
        }
        for part in self.contains.iter().flat_map(OneOrManyTexts::iter) {
            if !seen.warnings.iter().any(|warning| warning.contains(part.as_str())) {
                misses.push(Miss::new("warnings contains", quoted(part), all()));
            }
        }
        misses
    }
}

impl UsageLimits {
    fn misses(&self, seen: &Observed) -> Vec<Miss> {
        let spent = &seen.spent;
        let counted = [
            ("tokens", self.tokens, spent.tokens),
            ("model_calls", self.model_calls, spent.model_calls),
            ("tool_calls", self.tool_calls, spent.tool_calls),
            ("rounds", self.rounds, spent.rounds),
        ];
        let over = counted.into_iter().filter_map(|(what, most, used)| {
            let most = most.filter(|most| used > *most)?;
            Some(Miss::new(format!("at_most {what}"), most.to_string(), used.to_string()))
        });
        let money = self.money.filter(|most| seen.money() > *most);
        let money =
            money.map(|most| Miss::new("at_most money", most.to_string(), format!("{:.6}", seen.money())));
        over.chain(money).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::NodeSeen;
    use proptest::prelude::*;
    use serde_json::json;
    use std::sync::Arc;
    use weft_core::budget::Spent;
    use weft_core::citation::{Chunk, Cited};

    fn seen() -> Observed {
        let node = |node: &str, name: &str, outputs: Json| NodeSeen {
            node: node.into(),
            name: name.into(),
            outputs,
        };
        let tool = |tool: &str, arguments: Json, failed| ToolSeen {
            tool: tool.into(),
            path: format!("Agent-->{tool}"),
            arguments: Arc::new(arguments),
            failed,
        };
        let chunk: Chunk = serde_json::from_value(json!({"id": "c", "content": "", "document_id": "d",
            "document_name": "fees.md", "dataset_id": "s", "image_id": null, "url": null, "similarity": null,
            "vector_similarity": null, "term_similarity": null}))
        .unwrap();
        Observed {
            answer: "Oslo has 700000 people [ID:0].".into(),
            outputs: json!({"content": "Oslo", "n": 2}),
            nodes: vec![
                node("begin", "begin", json!({})),
                node(
                    "LLM:X",
                    "Writer",
                    json!({"structured": {"city": "Oslo", "tags": ["a", "b"], "x/y": null}}),
                ),
                node(
                    "LLM:X",
                    "Writer",
                    json!({"structured": {"city": "Bergen", "tags": ["a", "b"], "x/y": null}}),
                ),
            ],
            tools: vec![
                tool("search", json!({"q": "Oslo", "limit": 3}), false),
                tool("search", json!({"q": "Bergen"}), true),
                tool("sum", json!({"of": [1, 2, 3]}), false),
            ],
            cited: vec![Cited { number: 0, chunk: Arc::new(chunk) }],
            warnings: vec!["LLM:X: it was cut off".into()],
            ending: Ending::Succeeded,
            error: None,
            spent: Spent {
                tokens: 10,
                model_calls: 2,
                tool_calls: 3,
                rounds: 1,
                micros: 1_500_000,
                millis: 0,
            },
        }
    }

    /// Passes and fails, both as written in a file; `misses` is the report of the second.
    fn check(holds: Json, fails: Json, misses: &[(&str, &str, &str)]) {
        let read = |json: Json| serde_json::from_value::<Expectation>(json).unwrap();
        let (holds, fails) = (read(holds), read(fails));
        assert_eq!((holds.check(), fails.check()), (Ok(()), Ok(())));
        assert_eq!(holds.misses(&seen(), None), []);
        let told = fails.misses(&seen(), None);
        let told: Vec<_> =
            told.iter().map(|m| (m.what.as_str(), m.expected.as_str(), m.got.as_str())).collect();
        assert_eq!(told, misses);
    }

    #[test]
    fn answers() {
        let shown = "\"Oslo has 700000 people [ID:0].\"";
        check(
            json!({"answer": {"contains": ["Oslo", "people"], "lacks": "Bergen", "matches": "^O.*[0-9]{6}"}}),
            json!({"answer": {"contains": ["Oslo", "oslo"], "lacks": "people", "matches": ["^x", "O"]}}),
            &[
                ("answer contains", "\"oslo\"", shown),
                ("answer lacks", "\"people\"", shown),
                ("answer matches", "/^x/", shown),
            ],
        );
        check(
            json!({"answer": {"equals": "  Oslo has 700000 people [ID:0].\n"}}),
            json!({"answer": {"equals": "Oslo has 700001 people [ID:0]."}}),
            &[("answer equals", "\"Oslo has 700001 people [ID:0].\"", shown)],
        );
        check(
            json!({"answer": {"similar_to": "oslo has 700000 people", "at_least": 0.6}}),
            json!({"answer": {"similar_to": "something else"}}),
            &[(
                "answer similar_to",
                "at least 0.70 like \"something else\"",
                "0.00: \"Oslo has 700000 people [ID:0].\"",
            )],
        );
    }

    #[test]
    fn outputs() {
        check(
            json!({"output": {"node": "Writer", "at": "/structured/city", "equals": "Bergen"}}),
            json!({"output": {"node": "LLM:X", "at": "/structured", "equals": {"city": "Oslo"}, "includes": {"city": "Oslo"},
                "schema": {"properties": {"city": {"type": "integer"}}}, "text": {"contains": "Oslo"}}}),
            &[
                (
                    "output LLM:X/structured equals",
                    "{\"city\":\"Oslo\"}",
                    "{\"city\":\"Bergen\",\"tags\":[\"a\",\"b\"],\"x/y\":null}",
                ),
                (
                    "output LLM:X/structured includes",
                    "{\"city\":\"Oslo\"}",
                    "{\"city\":\"Bergen\",\"tags\":[\"a\",\"b\"],\"x/y\":null}",
                ),
                (
                    "output LLM:X/structured schema",
                    "/city to satisfy the schema",
                    "\"Bergen\" is not of type \"integer\"",
                ),
                (
                    "output LLM:X/structured contains",
                    "\"Oslo\"",
                    "\"{\"city\":\"Bergen\",\"tags\":[\"a\",\"b\"],\"x/y\":null}\"",
                ),
            ],
        );
        check(
            json!({"output": {"node": "Writer", "at": "/structured/x~1y", "equals": null}}),
            json!({"output": {"at": "/x", "equals": null}}),
            &[("output /x", "a value", "nothing there; the outputs are: content, n")],
        );
        check(
            json!({"output": {"at": "/n", "equals": 2.0, "schema": {"type": "integer"}}}),
            json!({"output": {"node": "LLM:None", "equals": 1}}),
            &[("output LLM:None", "a value", "the node did not run")],
        );
    }

    #[test]
    fn tools() {
        let all = "3 calls: search {\"q\":\"Oslo\",\"limit\":3}, search {\"q\":\"Bergen\"} failed, sum {\"of\":[1,2,3]}";
        check(
            json!({"tools": {"called": [{"tool": "search", "arguments": {"q": "Oslo"}}, {"tool": "Agent-->sum", "arguments": {"of": [1, 3]}, "times": 1}],
                "in_order": true, "only": false, "never": "mail", "count": 3}}),
            json!({"tools": {"called": [{"tool": "search", "times": 1}, {"tool": "sum", "failed": true}], "only": true, "never": ["sum"], "count": 1}}),
            &[
                ("tools called", "once search", &format!("2 times; {all}")),
                ("tools called", "sum, failed", all),
                ("tools never", "no call of sum", "sum {\"of\":[1,2,3]}"),
                ("tools count", "1 call", all),
            ],
        );
        check(
            json!({"tools": {"called": [{"tool": "search"}, {"tool": "sum"}], "only": true}}),
            json!({"tools": {"called": [{"tool": "sum"}, {"tool": "search"}], "in_order": true}}),
            &[("tools in_order", "sum, search", all)],
        );
        check(
            json!({"tools": {"called": [{"tool": "search", "times": 2}]}}),
            json!({"tools": {"called": [{"tool": "search"}], "only": true}}),
            &[("tools only", "no other tools", "sum {\"of\":[1,2,3]}")],
        );
    }

    #[test]
    fn nodes_sources_warnings_limits_and_endings() {
        check(
            json!({"nodes": {"ran": ["begin", "Writer"], "not_run": "LLM:Y", "in_order": ["begin", "LLM:X"], "times": {"LLM:X": 2}}}),
            json!({"nodes": {"ran": "LLM:Y", "not_run": "begin", "in_order": ["LLM:X", "begin"], "times": {"begin": 0}}}),
            &[
                ("nodes ran", "LLM:Y", "begin, LLM:X, LLM:X"),
                ("nodes not_run", "not begin", "begin, LLM:X, LLM:X"),
                ("nodes in_order", "LLM:X, begin", "begin, LLM:X, LLM:X"),
                ("nodes times", "begin 0 times", "1 time"),
            ],
        );
        check(
            json!({"citations": {"resolve": true, "count": 1, "documents": "fees.md"}}),
            json!({"citations": {"count": 0, "at_least": 2, "documents": ["fees.md", "x.md"]}}),
            &[
                ("citations count", "0", "1"),
                ("citations at_least", "2", "1"),
                ("citations documents", "x.md", "fees.md"),
            ],
        );
        let mut torn = seen();
        torn.cited.clear();
        let resolve: Expectation = serde_json::from_value(json!({"citations": {"resolve": true}})).unwrap();
        assert_eq!(resolve.misses(&torn, None)[0].expected, "a source for [ID:0]");
        check(
            json!({"warnings": {"count": 1, "contains": "cut off"}}),
            json!({"warnings": {"count": 0, "contains": "lost"}}),
            &[
                ("warnings count", "0", "1: LLM:X: it was cut off"),
                ("warnings contains", "\"lost\"", "1: LLM:X: it was cut off"),
            ],
        );
        check(
            json!({"at_most": {"tokens": 10, "money": 1.5}}),
            json!({"at_most": {"tokens": 9, "model_calls": 1, "tool_calls": 2, "rounds": 0, "money": 1.4}}),
            &[
                ("at_most tokens", "9", "10"),
                ("at_most model_calls", "1", "2"),
                ("at_most tool_calls", "2", "3"),
                ("at_most rounds", "0", "1"),
                ("at_most money", "1.4", "1.500000"),
            ],
        );
        check(
            json!({"status": "succeeded"}),
            json!({"status": "failed"}),
            &[("status", "failed", "succeeded")],
        );
    }

    #[test]
    fn an_expectation_that_could_not_fail_is_refused() {
        let refused = |json: Json| serde_json::from_value::<Expectation>(json).unwrap().check().unwrap_err();
        for what in ["answer", "output", "tools", "nodes", "citations", "warnings", "at_most"] {
            assert!(refused(json!({what: {}})).contains("it has no conditions"), "{what}");
        }
        assert!(refused(json!({"answer": {"matches": "a("}})).contains("not a regular expression"));
        assert!(refused(json!({"answer": {"at_least": 0.5, "contains": "a"}})).contains("similar_to"));
        assert!(refused(json!({"output": {"at": "x", "equals": 1}})).contains("write `/x`"));
        assert!(refused(json!({"output": {"schema": {"type": 7}}})).contains("schema"));
        assert!(refused(json!({"judge": {"criterion": " "}})).contains("sentence"));
        for money in [f64::NAN, f64::INFINITY, -1.0] {
            let most = Expectation::AtMost(UsageLimits { money: Some(money), ..UsageLimits::default() });
            assert!(most.check().unwrap_err().contains("an amount of 0 or more"), "{money}");
        }
    }

    fn value() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i32>().prop_map(Json::from),
            "[a-c]{0,2}".prop_map(Json::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    /// The value without some of its members and items.
    fn less(value: &Json, seed: &mut u64) -> Json {
        let mut keep = || {
            *seed = weft_core::context::mix(*seed);
            !(*seed).is_multiple_of(3)
        };
        match value {
            Json::Object(all) => {
                let kept: Vec<_> = all.iter().filter(|_| keep()).collect();
                Json::Object(kept.into_iter().map(|(key, value)| (key.clone(), less(value, seed))).collect())
            }
            Json::Array(all) => {
                let kept: Vec<_> = all.iter().filter(|_| keep()).collect();
                kept.into_iter().map(|value| less(value, seed)).collect()
            }
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn a_value_includes_itself_and_any_part_of_it(value in value(), mut seed: u64) {
            prop_assert!(includes(&value, &value));
            prop_assert!(same(&value, &value));
            prop_assert!(includes(&value, &less(&value, &mut seed)));
        }

        #[test]
        fn mutual_inclusion_means_equality(one in value(), two in value()) {
            if includes(&one, &two) && includes(&two, &one) {
                prop_assert!(same(&one, &two));
            }
        }

        #[test]
        fn a_text_passes_the_tests_made_from_it(text in "\\PC{1,60}", from in 0usize..20, length in 1usize..20) {
            let part: String = text.chars().skip(from).take(length).collect();
            let test = TextTest {
                equals: Some(text.clone()),
                contains: Some(OneOrManyTexts::One(part.clone())),
                matches: Some(OneOrManyTexts::One(regex::escape(&part))),
                similar_to: Some(text.clone()),
                at_least: Some(1.0),
                lacks: Some(OneOrManyTexts::One(format!("{text}!"))),
            };
            prop_assert_eq!(test.misses("answer", &text), []);
            let other = TextTest { equals: Some(format!("{text}!")), lacks: Some(OneOrManyTexts::One(part)), ..TextTest::default() };
            prop_assert_eq!(other.misses("answer", &text).len(), 2);
        }
    }
}
