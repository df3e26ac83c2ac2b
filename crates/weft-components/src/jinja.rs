//! Jinja templates that cannot harm: no loader, no host objects, no macros, a limit on steps, on the
//! size of what is written and on the size of what is built on the way.
//!
//! The template language itself bounds steps (its fuel) but not how large a value one step may make or go through.
//! So the source is rewritten before it is compiled (see [`rewrite`]): whatever can make a value grow or reads
//! all of it is wrapped in a call that charges the size to a budget, and constructs that could get around it
//! are refused.

mod charges;
mod rewrite;

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error as JinjaError, ErrorKind as JinjaKind, UndefinedBehavior};
use tokio::runtime::{Handle, RuntimeFlavor};
use weft_core::reference::{Inputs, Names};
use weft_core::{Error, ErrorKind, Json, Reference, Result};

use charges::{Budget, charged, refused, written};

/// Bytes of template source, at most.
pub const SOURCE_MAX: usize = 64 * 1024;
/// Steps of one rendering, at most.
pub const STEPS_MAX: u64 = 100_000;
/// Bytes of the finished text, at most.
pub const OUTPUT_MAX: usize = 4 * 1024 * 1024;
/// What a rendering may build besides its output: bytes of text plus [`NODE_COST`] for every value.
pub const WORK_MAX: usize = 16 * 1024 * 1024;
/// Bytes that steps may go through without building any: searching, comparing, counting, slicing. One takes up to
/// some nanoseconds, so that a rendering ends within about a second; a text of 1 MB may be searched 500 times.
pub const READ_MAX: usize = 512 * 1024 * 1024;
/// What a value costs besides its text.
pub const NODE_COST: usize = 32;
/// How deep values may nest.
const DEPTH_MAX: usize = 64;

/// A template, checked once.
#[derive(Debug)]
pub struct Jinja {
    source: String,
    variables: Vec<(String, Reference)>,
}

impl Jinja {
    /// Whether a text is a template: it holds `{% … %}`, or `{{ … }}` around something that is not
    /// just a reference.
    pub fn recognises(text: &str, names: Names<'_>) -> bool {
        rewrite::is_template(text, names)
    }

    /// Reads a template.
    ///
    /// # Errors
    /// `Invalid` for a mistake in it, a construct that is not allowed, or a source over
    /// [`SOURCE_MAX`].
    pub fn parse(text: &str, names: Names<'_>) -> Result<Self> {
        if text.len() > SOURCE_MAX {
            return Err(Error::invalid(format!("the Jinja template is longer than {SOURCE_MAX} bytes")));
        }
        let rewrite::Rewritten { source, variables } = rewrite::rewrite(text, names)?;
        let jinja = Self { source, variables };
        environment(&Budget::new(0, READ_MAX)).template_from_str(&jinja.source).map_err(|e| failure(&e))?;
        Ok(jinja)
    }

    /// What it reads.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.variables.iter().map(|(_, reference)| reference)
    }

    /// The finished text. References have their own types: a list can be looped over.
    ///
    /// # Errors
    /// `Invalid` when the template fails or goes over a limit.
    pub fn render(&self, inputs: &Inputs) -> Result<String> {
        self.render_within(inputs, READ_MAX)
    }

    fn render_within(&self, inputs: &Inputs, read_max: usize) -> Result<String> {
        // Its library panics where a step goes through nothing: `''[::-1]`, a remainder by 0.
        let rendered = aside(|| catch_unwind(AssertUnwindSafe(|| self.render_here(inputs, read_max))));
        rendered.unwrap_or_else(|_| {
            let message = "the Jinja template has a mistake: one of its expressions cannot be worked out";
            Err(Error::invalid(message).help("look for slices of empty values, and divisions by 0"))
        })
    }

    fn render_here(&self, inputs: &Inputs, read_max: usize) -> Result<String> {
        let longest = self.references().map(|reference| length(&inputs.json(reference))).max();
        let environment = environment(&Budget::new(longest.unwrap_or_default(), read_max));
        let template = environment.template_from_str(&self.source).map_err(|e| failure(&e))?;
        // Null counts as undefined: it writes nothing, wherever it stands, and takes a `default`.
        let value = |reference| match &*inputs.json(reference) {
            Json::Null => Value::UNDEFINED,
            json => Value::from(Serde(json)),
        };
        let variables = self.variables.iter().map(|(name, reference)| (name.as_str(), value(reference)));
        let context = Value::from_pairs(variables);
        let max = OUTPUT_MAX.min(inputs.room().left());
        let mut output = Limited { bytes: Vec::new(), max };
        match template.render_captured_to(context, &mut output) {
            Ok(_) => {
                inputs.room().take(output.bytes.len())?;
                Ok(String::from_utf8_lossy(&output.bytes).into_owned())
            }
            Err(_) if output.max == 0 => {
                Err(Error::invalid(format!("the Jinja template writes more than {max} bytes")))
            }
            Err(error) => Err(failure(&error)),
        }
    }
}

/// Does work that may take long on a thread that serves nobody else meanwhile. A step of a template may copy or
/// search a value of megabytes, so its steps bound no time.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Bytes of the longest text in a value, or how many members it has when that is more.
fn length(value: &Json) -> usize {
    match value {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(length).max().unwrap_or_default().max(items.len()),
        Json::Object(members) => members.values().map(length).max().unwrap_or_default().max(members.len()),
        _ => 0,
    }
}

fn failure(error: &JinjaError) -> Error {
    let what = match error.kind() {
        JinjaKind::OutOfFuel => format!("the Jinja template takes more than {STEPS_MAX} steps"),
        kind => match error.detail() {
            Some(detail) => format!("the Jinja template has a mistake: {detail}"),
            None => format!("the Jinja template has a mistake: {kind}"),
        },
    };
    let place = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
    Error::new(ErrorKind::Invalid, what + &place)
}

/// A text that refuses to grow beyond a limit. `max` drops to 0 when it was reached.
struct Limited {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for Limited {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.max {
            self.max = 0;
            return Err(io::Error::other("too much is written"));
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn environment(budget: &Budget) -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    if let Ok(syntax) = syntax {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(STEPS_MAX));
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(|out, _state, value| match written(value, OUTPUT_MAX) {
        Some(text) => out.write_str(&text).map_err(|_| refused("it writes too much")),
        None => Err(refused("it writes too much")),
    });
    for name in ["namespace", "debug", "dict"] {
        environment.remove_global(name);
    }
    for name in ["batch", "chain", "format", "groupby", "pprint", "slice", "zip"] {
        environment.remove_filter(name);
    }
    charged(&mut environment, budget);
    environment
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::HashSet;

    fn rendered(text: &str) -> Result<String> {
        rendered_within(text, READ_MAX)
    }

    fn rendered_within(text: &str, read_max: usize) -> Result<String> {
        let components = HashSet::from(["Agent:A".into()]);
        let item = "Item:i".into();
        let names = Names { components: &components, item: Some(&item) };
        let values: Json = json!({
            "Agent:A@list": ["a", "b"], "Agent:A@n": 3, "Agent:A@content": "hi", "sys.query": "q{sys.user_id}",
            "Agent:A@rows": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "Agent:A@big": "x".repeat(1_000_000),
            "Item:i@item": "it", "Agent:A@none": null, "Agent:A@zh": ["汉"],
        });
        let jinja = Jinja::parse(text, names)?;
        let inputs = jinja
            .references()
            .map(|r| (r.clone(), values.get(r.to_string()).cloned().unwrap_or(Json::Null).into()))
            .collect();
        jinja.render_within(&inputs, read_max)
    }

    /// Each step reverses a text of a mebibyte, and there is one thread for everybody.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_template_that_takes_long_keeps_nobody_waiting() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};
        let done = Arc::new(AtomicBool::new(false));
        let mut tasks = tokio::task::JoinSet::new();
        let ends = Arc::clone(&done);
        let (begun, begins) = tokio::sync::oneshot::channel();
        tasks.spawn(async move {
            begun.send(()).unwrap();
            rendered("{% for i in range(100) %}{% if Agent:A@big[::-1] %}x{% endif %}{% endfor %}").unwrap();
            ends.store(true, Ordering::SeqCst);
            false
        });
        begins.await.unwrap();
        tasks.spawn(async move { !done.load(Ordering::SeqCst) });
        assert!(tasks.join_next().await.unwrap().unwrap(), "others go on meanwhile");
        tasks.join_all().await;
    }

    #[test]
    fn what_the_library_cannot_work_out_is_a_mistake_of_the_template() {
        for text in ["{{ ''[::-1] }}", "{{ [][::-1] }}", "{{ 1 is divisibleby(0) }}", "{{ 'abc'[0:2:-1] }}"] {
            if let Err(error) = rendered(text) {
                assert!(
                    error.kind == ErrorKind::Invalid && error.full().contains("has a mistake"),
                    "{error:?}"
                );
            }
        }
        assert!(rendered("{{ ''[::-1] }}").is_err());
    }

    #[test]
    fn what_is_a_template() {
        let components = HashSet::from(["Agent:A".into()]);
        let names = Names { components: &components, item: None };
        let check = |text: &str, expected| assert_eq!(Jinja::recognises(text, names), expected, "{text}");
        check("{{ sys.query }} {{Agent:A@content}}", false);
        check("{\"a\": {\"b\": {sys.query}}}", false);
        check("{% if sys.query %}x{% endif %}", true);
        check("{{ sys.query | upper }}", true);
        check("100 %} off {", false);
    }

    #[test]
    fn values_keep_their_types() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check("{% for x in {Agent:A@list} %}<{{ x }}>{% endfor %}", "<a><b>");
        check("{% for x in Agent:A@list %}{{ loop.index }}{{ x }}{% endfor %}\n", "1a2b\n");
        check("{{ Agent:A@content | upper }}!", "HI!");
        check("{{ Agent:A@n * 2 + 1 }} {{ 2 * Agent:A@list|length }} {{ 7 - 2 * 3 }}", "7 4 1");
        check(
            "{{ Agent:A@list }} {{ Agent:A@zh }} {{ Agent:A@none }}{{ nobody.at.home }}.",
            "[\"a\",\"b\"] [\"汉\"] .",
        );
        check("{{ Agent:A@list | join(', ') }}", "a, b");
        check("{% set t = {Agent:A@n} ~ '!' %}{{ t }}", "3!");
        check("{{ item }}{% for item in [1, 2] %}{{ item }}{% endfor %}", "it12");
        check("{% raw %}{{ x }}{% endraw %}{% if true %}y{% endif %}", "{{ x }}y");
        check("{{ {'a': {'b': 1}}.a.b }}", "1");
        check("{% for r in Agent:A@rows %}{{ r.name }}={{ r['v'] }};{% endfor %}", "x=1;y=2;");
    }

    #[test]
    fn references_in_string_literals_and_in_values_are_left_alone() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check(
            "{{ '{sys.query}' }} sys_query {% if true %}{sys.query}{% endif %}",
            "{sys.query} sys_query q{sys.user_id}",
        );
        check("{{ \"sys.query\" ~ sys.query }}", "sys.queryq{sys.user_id}");
    }

    #[test]
    fn nothing_leads_out_of_the_sandbox() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check("{{ ''.__class__.__mro__ | default('no') }}", "no");
        check("{{ Agent:A@list.__class__ ~ '' }}{{ Agent:A@list[0].__class__ }}", "");
        check("{{ self.__init__.__globals__ }}{{ cycler.__init__ }}", "");
        let refused = |text: &str, what: &str| {
            let error = rendered(text).expect_err(text).full();
            assert!(error.contains(what), "{text}: {error}");
        };
        refused("{% include '/etc/passwd' %}", "include");
        refused("{% import 'x' as y %}", "import");
        refused("{{ ''.__class__() }}", "mistake");
        refused("{{ namespace(a=1) }}", "mistake");
        refused("{% macro f() %}{% endmacro %}", "macro");
        refused("{% set x %}{% endset %}", "set");
        refused("{% for x in [1] recursive %}{% endfor %}", "recursive");
        refused("{{ weft_cost }}", "weft_");
        refused("{% if %}", "mistake");
        refused("{{ sys.query | }}", "mistake");
    }

    #[test]
    fn steps_and_sizes_have_limits() {
        let refused = |text: &str, what: &str| {
            let error = rendered(text).expect_err(text).full();
            assert!(error.contains(what), "{text}: {error}");
        };
        refused("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps");
        refused("{% for a in range(9) %}{{ Agent:A@big }}{% endfor %}", "writes more");
        refused("{{ 'x' * 100000000 }}", "multiplied");
        refused("{{ 100000000 * 'x' }}", "multiplied");
        refused("{{ ([1] * 100000000) | length }}", "multiplied");
        refused(&format!("{{% set a = Agent:A@big %}}{}", "{% set a = a ~ a %}".repeat(40)), "too large");
        refused(&format!("{{% set a = [1] %}}{}", "{% set a = [a, a] %}".repeat(40)), "too large");
        refused(&format!("{{% set a = [1] %}}{}", "{% set a = (a, a) %}".repeat(40)), "too large");
        refused(&format!("{{% set a = [1] %}}{}", "{% set a = a, a %}".repeat(40)), "brackets");
        refused("{{ Agent:A@big | replace('x', Agent:A@big) }}", "too large");
        refused(&format!("{{{{ Agent:A@big {} }}}}", "| tojson".repeat(40)), "too large");
        refused("{% if 1 %}{{ 'a\nb' | indent(100000000) }}{% endif %}", "too large");
        refused("{{ 'x'|indent(99999999999999) }}{% if 1 %}{% endif %}", "too large");
        refused(&format!("{{% if 1 %}}{}", " ".repeat(SOURCE_MAX)), "longer than");
        refused(&format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000)), "deep");
    }

    /// Each step goes through a text of 1 MB and builds nothing that would be charged otherwise.
    #[test]
    fn reading_long_texts_has_a_limit() {
        let in_a_loop = |what: &str| {
            let text = format!("{{% for i in range(30) %}}{{% if {what} %}}{{% endif %}}{{% endfor %}}");
            rendered_within(&text, 20_000_000).map(|_| ())
        };
        for what in [
            "'y' in Agent:A@big",
            "'y' not in Agent:A@big",
            "Agent:A@big | length == 7",
            "Agent:A@big == 'x'",
            "Agent:A@big is lower",
            "Agent:A@big[1:2]",
            "Agent:A@big[:2]",
            "Agent:A@big[(1):][0] == 'x'",
        ] {
            let error = in_a_loop(what).expect_err(what).full();
            assert!(error.contains("too often"), "{what}: {error}");
        }
        in_a_loop("'y' in Agent:A@content and Agent:A@list[0:1] | length == 1").unwrap();
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check("{{ Agent:A@content[1:] }}{{ Agent:A@content[:1] }}{{ Agent:A@content[::-1] }}", "ihih");
        check(
            "{{ Agent:A@list[-1:] }}{{ 'b' in Agent:A@list }}{{ 'z' not in Agent:A@list }}",
            "[\"b\"]truetrue",
        );
        check("{{ Agent:A@n is number }}{{ Agent:A@n >= 3 }}{{ nobody.home is defined }}", "truetruefalse");
        check("{% for x in Agent:A@list if x in ['b'] %}{{ x }}{% endfor %}", "b");
        check("{{ 'h' in Agent:A@content ~ 'x' and not 'x' in Agent:A@content }}", "true");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([{}%#'\"()|~+*.,=-]| |set|for|in|raw|endraw|sys.query|Agent:A@n|item|é|1){0,40}") {
            if let Ok(text) = rendered(&text) {
                assert!(text.len() <= OUTPUT_MAX);
            }
        }
    }
}
