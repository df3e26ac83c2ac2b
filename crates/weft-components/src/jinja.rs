//! Safe Jinja templates: no loader, no host objects, no macros, and limits on steps, on the size of the output and on
//! the size of intermediate values.
//!
//! The template language itself bounds steps (its fuel), but not how large a value a single step may build or scan. The
//! source is therefore rewritten before it is compiled (see [`rewrite`]): whatever can make a value grow or reads all
//! of it is wrapped in a call that charges the size to a budget, and constructs that could bypass the budget are
//! refused.

mod arguments;
mod charges;
mod formats;
mod limits;
mod loop_members;
mod python;
mod rewrite;
mod watched;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error as JinjaError, ErrorKind as JinjaKind, UndefinedBehavior};
use tokio::runtime::{Handle, RuntimeFlavor};
use weft_core::reference::{Inputs, Names};
use weft_core::rendering::TEMPLATE_TIME_MAX;
use weft_core::{Error, ErrorKind, Json, Reference, Result};

use charges::{RenderBudget, charged, refused, written};
use limits::{LimitedText, OUTPUT_MAX, READ_MAX, SOURCE_MAX, STEPS_MAX};
use rewrite::{Fixed, Named};

pub(crate) use loop_members::{LOOP_MEMBERS, is_no_member_of_loop};

/// A template that has been checked.
#[derive(Debug)]
pub(crate) struct Jinja {
    source: String,
    variables: Vec<(String, Reference)>,
    unknown: Vec<String>,
    failing: Vec<String>,
    empty: Vec<String>,
}

impl Jinja {
    /// Whether a text is a template: it contains `{% … %}`, or `{{ … }}` around something that is not just a reference.
    pub(crate) fn recognises(text: &str, names: Names<'_>) -> bool {
        rewrite::is_template(text, names)
    }

    /// Parses a template.
    ///
    /// # Errors
    /// `Invalid` for a mistake in it, a construct that is not allowed, or a source over [`SOURCE_MAX`].
    pub(crate) fn parse(text: &str, names: Names<'_>) -> Result<Self> {
        if text.len() > SOURCE_MAX {
            return Err(Error::invalid(format!("the Jinja template is longer than {SOURCE_MAX} bytes")));
        }
        let rewrite::RewrittenTemplate { source, variables, named, fixed, by_zero } =
            rewrite::rewrite(text, names)?;
        // Compiled only to find mistakes: each rendering has its own budget.
        let environment = environment(&RenderBudget::new(0, READ_MAX, Instant::now() + TEMPLATE_TIME_MAX));
        environment.template_from_str(&source).map_err(|e| failure(&e))?;
        let unknown = named.iter().filter_map(|named| unknown(&environment, named)).collect();
        let empty = named.iter().filter_map(|named| empty(&environment, named)).collect();
        let fixed = fixed.into_iter().filter(|fixed| fails(&environment, fixed)).map(|fixed| fixed.written);
        let failing = fixed.chain(by_zero).collect();
        Ok(Self { source, variables, unknown, failing, empty })
    }

    /// Returns the references that it reads.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.variables.iter().map(|(_, reference)| reference)
    }

    /// Returns the names it uses that are not defined here, as sentence fragments. Rendering fails when it reaches one
    /// of them.
    pub(crate) fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Returns expressions that fail to evaluate, whatever the input.
    pub(crate) fn failing(&self) -> &[String] {
        &self.failing
    }

    /// Returns variables that are never given a value, with their members: they write nothing.
    pub(crate) fn empty(&self) -> &[String] {
        &self.empty
    }

    /// Renders the template. References have their own types: a list can be looped over.
    ///
    /// # Errors
    /// `Invalid` when the template fails or exceeds a limit.
    pub(crate) fn render(&self, inputs: &Inputs) -> Result<String> {
        self.render_within(inputs, READ_MAX)
    }

    fn render_within(&self, inputs: &Inputs, read_max: usize) -> Result<String> {
        let began = Instant::now();
        let until = began + inputs.room().time_left();
        // The library panics when a step has nothing to work on: `''[::-1]`, a remainder by 0.
        let rendered = aside(|| catch_unwind(AssertUnwindSafe(|| self.render_here(inputs, read_max, until))));
        // Counted after a failure, too: the time limit covers all templates of a node.
        inputs.room().worked(began.elapsed());
        rendered.unwrap_or_else(|_| {
            let message = "the Jinja template has an error: an expression cannot be evaluated";
            Err(Error::invalid(message).help("check for slices of empty values and divisions by zero"))
        })
    }

    fn render_here(&self, inputs: &Inputs, read_max: usize, until: Instant) -> Result<String> {
        let longest = self.references().map(|reference| length(&inputs.json(reference))).max();
        let environment = environment(&RenderBudget::new(longest.unwrap_or_default(), read_max, until));
        let template = environment.template_from_str(&self.source).map_err(|e| failure(&e))?;
        // Null counts as undefined: it writes nothing wherever it stands, and takes a `default`.
        let value = |reference| match &*inputs.json(reference) {
            Json::Null => Value::UNDEFINED,
            json => Value::from(Serde(json)),
        };
        let variables = self.variables.iter().map(|(name, reference)| (name.as_str(), value(reference)));
        let context = Value::from_pairs(variables);
        let max = OUTPUT_MAX.min(inputs.room().left());
        let mut output = LimitedText { bytes: Vec::new(), max };
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

/// Methods of values other than those that a template defines itself: texts, objects, lists, and the helpers of loops.
const METHODS: [&str; 34] = [
    "capitalize",
    "changed",
    "count",
    "current",
    "cycle",
    "endswith",
    "find",
    "format",
    "get",
    "isalnum",
    "isalpha",
    "isascii",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "isupper",
    "items",
    "join",
    "keys",
    "lower",
    "lstrip",
    "next",
    "replace",
    "reset",
    "rfind",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "title",
    "upper",
    "values",
];

/// Returns the problem of a name that a template uses, if it is not defined here.
fn unknown(environment: &Environment<'_>, named: &Named) -> Option<String> {
    let mut state = environment.empty_state();
    match named {
        Named::Filter(name) => {
            let error = state.apply_filter(name, &[Value::UNDEFINED]).err()?;
            (error.kind() == JinjaKind::UnknownFilter).then(|| format!("there is no filter `{name}`"))
        }
        Named::Test(name) => {
            let error = state.perform_test(name, &[Value::UNDEFINED]).err()?;
            (error.kind() == JinjaKind::UnknownTest).then(|| format!("there is no test `is {name}`"))
        }
        Named::Method(name) => {
            (!METHODS.contains(&name.as_str())).then(|| format!("there is no method `{name}`"))
        }
        Named::Function(name) => {
            (!is_global(environment, name)).then(|| format!("there is no function `{name}`"))
        }
        Named::Variable(_) => None,
    }
}

/// Whether an expression that depends on no input fails to evaluate.
fn fails(environment: &Environment<'_>, fixed: &Fixed) -> bool {
    let text = format!("{{{{ {} }}}}", fixed.source);
    // If it cannot be compiled by itself, nothing is known about it.
    let Ok(template) = environment.template_from_str(&text) else { return false };
    // As in `render_within`.
    catch_unwind(AssertUnwindSafe(|| template.render(()))).map_or(true, |rendered| rendered.is_err())
}

/// Returns a variable that neither the template nor the engine gives a value.
fn empty(environment: &Environment<'_>, named: &Named) -> Option<String> {
    let Named::Variable(path) = named else { return None };
    let first = path.split('.').next().unwrap_or(path);
    (!is_global(environment, first)).then(|| path.clone())
}

fn is_global(environment: &Environment<'_>, name: &str) -> bool {
    environment.globals().any(|(known, _)| known == name)
}

/// Runs work that may take long without blocking other tasks of the runtime. A step of a template may copy or search a
/// value of several megabytes, so the limit on steps does not bound the time.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    // On a runtime with a single thread, `block_in_place` panics.
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Returns the byte length of the longest text in a value, or its number of members if that is greater.
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
            // The library reports a list as text here; nothing is repeated, so that no value grows by multiplication.
            Some(detail) if detail.contains("can only be multiplied") => {
                "the Jinja template has an error: only numbers can be multiplied; texts and lists cannot be repeated"
                    .to_owned()
            }
            Some(detail) => format!("the Jinja template has an error: {detail}"),
            None => format!("the Jinja template has an error: {kind}"),
        },
    };
    let place = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
    Error::new(ErrorKind::Invalid, what + &place)
}

fn environment(budget: &RenderBudget) -> Environment<'static> {
    let mut environment = Environment::new();
    // As in a text without a template, whose trailing line break is kept.
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    if let Ok(syntax) = syntax {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(STEPS_MAX));
    // The output of a branch that did not run is empty, with all of its members, like a reference to it.
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    // The output goes to models and people rather than into a page: they would read `&lt;`.
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    let b = budget.clone();
    environment.set_formatter(move |out, _state, value| {
        b.in_time()?;
        match written(value, OUTPUT_MAX) {
            Some(text) => {
                b.charge_written(text.len())?;
                out.write_str(&text).map_err(|_| refused("it writes too much"))
            }
            None => Err(refused("it writes too much")),
        }
    });
    // The first discloses everything there is, the second builds values without a charge.
    for name in ["debug", "dict"] {
        environment.remove_global(name);
    }
    // These build values without a charge.
    for name in ["chain", "pprint", "zip"] {
        environment.remove_filter(name);
    }
    watched::added(&mut environment, budget);
    charged(&mut environment, budget);
    python::added(&mut environment, budget);
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
        rendered_in(text, read_max, std::time::Duration::ZERO)
    }

    /// As a template of a node that has already used this much time on others.
    fn rendered_in(text: &str, read_max: usize, worked: std::time::Duration) -> Result<String> {
        let components = HashSet::from(["Agent:A".into()]);
        let item = "Item:i".into();
        let names = Names { components: &components, item: Some(&item) };
        let values: Json = json!({
            "Agent:A@list": ["a", "b"], "Agent:A@n": 3, "Agent:A@content": "hi", "sys.query": "q{sys.user_id}",
            "Agent:A@rows": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "Agent:A@big": "x".repeat(1_000_000),
            "Agent:A@many": vec![json!({"t": "x".repeat(1000)}); 1000], "Agent:A@texts": vec!["x".repeat(1000); 1000],
            "secret.K": "rosebud", "Item:i@item": "it", "Agent:A@none": null, "Agent:A@zh": ["汉"],
        });
        let jinja = Jinja::parse(text, names)?;
        let inputs: Inputs = jinja
            .references()
            .map(|r| (r.clone(), values.get(r.to_string()).cloned().unwrap_or(Json::Null).into()))
            .collect();
        inputs.room().worked(worked);
        jinja.render_within(&inputs, read_max)
    }

    #[test]
    fn deeply_nested_templates_do_not_overflow_the_stack() {
        let chains: [&dyn Fn(usize) -> String; 13] = [
            &|n| format!("{{{{ {}1 }}}}", "-".repeat(n)),
            &|n| format!("{{{{ {}1 }}}}", "not ".repeat(n)),
            &|n| format!("{{{{ x{} }}}}", ".a".repeat(n)),
            &|n| format!("{{{{ x{} }}}}", "()".repeat(n)),
            &|n| format!("{{{{ x{} }}}}", "[0]".repeat(n)),
            &|n| format!("{{{{ 'x'{} }}}}", "|upper".repeat(n)),
            &|n| format!("{{{{ 1{} }}}}", "*1".repeat(n)),
            &|n| format!("{{{{ 1{} }}}}", "**1".repeat(n)),
            &|n| format!("{{{{ 'x'{} }}}}", "~'y'".repeat(n)),
            &|n| format!("{{{{ 1{} }}}}", " or 1".repeat(n)),
            &|n| format!("{{{{ 1{} }}}}", " is odd".repeat(n)),
            &|n| format!("{{{{ 1{} }}}}", " if 0 else 1".repeat(n)),
            &|n| format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(n)),
        ];
        for chain in chains {
            // The longest possible one, whatever the result: the process survives.
            for count in (10..=150).step_by(10) {
                drop(rendered(&chain(count)));
            }
            for count in [151, 5_000] {
                let error = rendered(&chain(count)).unwrap_err().to_string();
                assert!(error.contains("more than 1"), "{}: {error}", &chain(3));
            }
        }
        assert_eq!(rendered(&format!("{{{{ {}1 }}}}", "-".repeat(150))).unwrap(), "1");
        assert_eq!(rendered(&format!("{{{{ 'x'{} }}}}", "~'y'".repeat(150))).unwrap().len(), 151);
        // Nested ones count together, and sequential ones don't.
        let inside = format!("{{{{ 1{}({}1) }}}}", "+".repeat(100), "-".repeat(60));
        assert!(rendered(&inside).unwrap_err().to_string().contains("150 operators"));
        let beside = format!("{{{{ [{}]|length }}}}", "1 + 1 + 1, ".repeat(200));
        assert_eq!(rendered(&beside).unwrap(), "200");
        assert_eq!(rendered(&"{{ 1 + 1 }}{% if 1 %}{% elif 1 %}{% endif %}".repeat(200)).unwrap().len(), 200);
    }

    #[test]
    fn long_blocks_are_read_quickly() {
        let begun = std::time::Instant::now();
        for part in [".a", "-", " ~ 'a'", "|upper", "[0]", ":a", ", a", " a"] {
            for end in ["", "@content + 1"] {
                drop(rendered(&format!("{{{{ x{}{end} }}}}", part.repeat(60_000 / part.len()))));
            }
        }
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn unknown_names_are_reported_in_advance() {
        let components = HashSet::new();
        let unknown = |text: &str| {
            let names = Names { components: &components, item: None };
            Jinja::parse(text, names).unwrap().unknown().to_vec()
        };
        assert_eq!(
            unknown(
                "{{ sys.query|uper }}{{ sys.query is evn }}{{ sys.query.spilt(',') }}{% if sys.query is not odly %}{% endif %}{{ rnage(3) }}"
            ),
            [
                "there is no filter `uper`",
                "there is no test `is evn`",
                "there is no test `is odly`",
                "there is no method `spilt`",
                "there is no function `rnage`"
            ]
        );
        assert_eq!(
            unknown(
                "{{ [1]|map('uper')|select('evn')|selectattr('n', 'matches', 1)|list }}{{ [1]|rejectattr(\"a\", 'oddly') }}"
            ),
            [
                "there is no filter `uper`",
                "there is no test `is evn`",
                "there is no test `is matches`",
                "there is no test `is oddly`",
            ]
        );
        let named = "{{ [1]|map(attribute='x')|map('round', 1)|select('>', 1)|selectattr('n')|rejectattr('a', 'in', [1])|list }}";
        assert_eq!(unknown(named), Vec::<String>::new());
        let known = "{{ sys.query|upper|default('x', true)|format(1) }}{{ sys.query is not defined }}{{ sys.query.split(',') }}\
            {% for x in [1]|batch(2)|map('upper') %}{{ loop.cycle('a', 'b') }}{% endfor %}{{ x is in [1] }}{{ 'a|b is c.d()' }}{{ x is divisibleby 3 }}";
        assert_eq!(unknown(known), Vec::<String>::new());
    }

    #[test]
    fn expressions_without_a_value_are_reported_in_advance() {
        let check = |text: &str, expected: &[&str]| {
            let components = HashSet::from(["Agent:A".into()]);
            let names = Names { components: &components, item: None };
            let parsed = Jinja::parse(text, names).unwrap();
            assert_eq!(parsed.failing(), expected, "{text}");
            assert!(expected.is_empty() || rendered(text).is_err(), "{text}");
        };
        check("{{ 1/0 }}", &["1 / 0"]);
        check("{{ Agent:A@n / 0 }}", &["/ 0"]);
        check("{% if Agent:A@n % 0.0 == 1 %}x{% endif %}", &["% 0.0"]);
        check("{% set n = 7 // (2 - 2) %}", &["7 // ( 2 - 2 )"]);
        check("{{ 'a' * 2 }}", &["'a' * 2"]);
        check("{{ 'a' - 1 }}", &["'a' - 1"]);
        check("{{ [1, 2] + 1 }}", &["[ 1 , 2 ] + 1"]);
        for text in [
            "{{ 1/2 }}{{ '%d' % 0 }}{{ '%d of %d' % (1, 2) }}{{ 7 % 4 }}{{ 2 ** 0 }}{{ 0 / 1 }}",
            "{{ 1 if true else 1/0 }}{{ 'a' ~ 1 }}{{ 'a' in 'abc' }}{{ [1][0] + 1 }}{{ not 1 == 2 }}",
            "{{ Agent:A@n / 0.5 }}{{ Agent:A@n / (0 or 1) }}{{ Agent:A@n // 0|default(1, true) }}",
            "{% set a, b = 1, 2 %}{{ a / b }}{% for x in [0] %}{% endfor %}",
        ] {
            check(text, &[]);
            rendered(text).unwrap();
        }
    }

    #[test]
    fn unassigned_variables_are_reported_in_advance() {
        let (components, item) = (HashSet::from(["b".into()]), "Item:i".into());
        let empty = |text: &str| {
            let names = Names { components: &components, item: Some(&item) };
            Jinja::parse(text, names).unwrap().empty().to_vec()
        };
        assert_eq!(
            empty(
                "{{ user.name.first }}{{ b.text.upper() }}{% if odd %}{{ f(key=x) }}{% endif %}{{ loop.index }}"
            ),
            ["b.text", "loop.index", "odd", "user.name.first", "x"]
        );
        let looped =
            "{% for a in b@rows %}{{ loop.indx }}{{ loop.last.x }}{{ loop }}{% endfor %}{{ loop.frist }}";
        assert_eq!(empty(looped), ["loop.frist", "loop.indx"]);
        let known = "{% for a, b in b@rows %}{{ loop.index }}{{ a.x }}{{ b|default('y')|join(d='-') }}{% endfor %}\
            {% set n = namespace(c=1) %}{% set n.c = n.c + 1 %}{% with w = 1, v = 2 %}{{ w + v }}{% endwith %}\
            {{ range(3) is iterable }}{{ sys.query is not none and true or False }}{{ item }}{{ {'k': 1}.k }}\
            {% raw %}{{ x }}{% endraw %}{# {{ y }} #}{{ 'z' if 1 is not odd else \"u\" }}{{ sys.query[1:] }}";
        assert_eq!(empty(known), Vec::<String>::new());
    }

    /// Each step reverses a text of a mebibyte, and there is only one thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_slow_template_does_not_block_the_runtime() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};
        let done = Arc::new(AtomicBool::new(false));
        let mut tasks = tokio::task::JoinSet::new();
        let ends = Arc::clone(&done);
        let (begun, begins) = tokio::sync::oneshot::channel();
        tasks.spawn(async move {
            begun.send(()).unwrap();
            rendered("{% for i in range(10) %}{% if Agent:A@big[::-1] %}x{% endif %}{% endfor %}").unwrap();
            ends.store(true, Ordering::SeqCst);
            false
        });
        begins.await.unwrap();
        tasks.spawn(async move { !done.load(Ordering::SeqCst) });
        assert!(tasks.join_next().await.unwrap().unwrap(), "others continue meanwhile");
        tasks.join_all().await;
    }

    #[test]
    fn evaluation_errors_are_template_errors() {
        for text in ["{{ ''[::-1] }}", "{{ [][::-1] }}", "{{ 1 is divisibleby(0) }}", "{{ 'abc'[0:2:-1] }}"] {
            if let Err(error) = rendered(text) {
                assert!(
                    error.kind == ErrorKind::Invalid && error.full().contains("has an error"),
                    "{error:?}"
                );
            }
        }
        assert!(rendered("{{ ''[::-1] }}").is_err());
    }

    #[test]
    fn templates_are_recognised() {
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
        check(
            "{% raw %}endraw {% endraws %}{{ x }}{%- endraw -%} {{ 1 + 1 }}",
            "endraw {% endraws %}{{ x }}2",
        );
        check("{{ {'a': {'b': 1}}.a.b }}", "1");
        check("{% for r in Agent:A@rows %}{{ r.name }}={{ r['v'] }};{% endfor %}", "x=1;y=2;");
    }

    #[test]
    fn arguments_are_positional_or_named() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check(
            "{{ Agent:A@rows|sum(attribute='v') }} {{ Agent:A@rows|sum('v', 10) }} {{ [1, 2]|sum(start=3) }}",
            "3 13 6",
        );
        check(
            "{{ {'a': [1]}|tojson(indent=2) }} {{ [1]|tojson(1) }}",
            "{\n  \"a\": [\n    1\n  ]\n} [\n 1\n]",
        );
        check("{{ Agent:A@rows|join(', ', attribute='name') }} {{ [1, 2]|join(d='-') }}", "x, y 1-2");
        check(
            "{{ ''|default('x', boolean=True) }}{{ nothing|d(default_value='y') }}{{ ''|default('z') }}",
            "xy",
        );
        check(
            "{{ 'aaa'|replace('a', 'b', 1) }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'aa'|replace('a', 'b', count=-1) }}",
            "baa bba bb",
        );
        check(
            "{{ 'a\n\nb'|indent(2, first=True) }}|{{ 'a\n\nb'|indent(width=1, blank=true) }}|{{ 'a\nb'|indent('> ', true) }}",
            "  a\n\n  b|a\n \n b|> a\n> b",
        );
        check("{{ Agent:A@rows|sort(true, attribute='v')|map(attribute='name')|join }}", "yx");
        check(
            "{{ ['b', 'A']|sort(false, true)|join }} {{ {'b': 1, 'a': 2}|dictsort(false, 'value')|map('first')|join }}",
            "Ab ba",
        );
        check("{{ 'a b c'.split(sep=' ', maxsplit=1) }} {{ 'a b'|split }}", "[\"a\",\"b c\"] [\"a\",\"b\"]");
        check(
            "{{ '%d' % 3.7 }} {{ '%d'|format(3.0) }} {{ '%r' % 'x' }} {{ '{:.1%}'.format(0.256) }}",
            "3 3 'x' 25.6%",
        );
        check("{{ 'a bc def'|truncate(length=5, leeway=0, end='~') }}", "a~");
        let refused = |text: &str, part: &str| {
            let error = rendered(text).unwrap_err().full();
            assert!(error.contains(part), "{text}: {error}");
        };
        refused("{{ [1]|tojson(ident=2) }}", "`tojson` has no argument `ident`: it takes `indent`");
        refused("{{ [1]|sum('a', 1, 2) }}", "too many arguments");
        refused("{{ [1]|sort(true, reverse=true) }}", "`reverse` twice");
        refused("{{ [1]|tojson(indent=99999999999) }}", "indented");
        refused("{{ Agent:A@big.replace('x', Agent:A@big, 1000000) }}", "too large");
    }

    #[test]
    fn references_in_string_literals_and_values_are_unchanged() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check(
            "{{ '{sys.query}' }} sys_query {% if true %}{sys.query}{% endif %}",
            "{sys.query} sys_query q{sys.user_id}",
        );
        check("{{ \"sys.query\" ~ sys.query }}", "sys.queryq{sys.user_id}");
    }

    #[test]
    fn secrets_are_written_as_they_are_or_refused() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check("{{ secret.K }}{secret.K}{%- if 1 -%} {secret.K} {%- endif %}", "rosebudrosebudrosebud");
        check("{{ 'Bearer ' ~ secret.K ~ Agent:A@content|upper ~ Agent:A@list[0] }}", "Bearer rosebudHIa");
        check(
            "{{ {secret.K} + '!' }}{% for x in Agent:A@list %}{{ secret.K }}{% endfor %}",
            "rosebud!rosebudrosebud",
        );
        check("{{ Agent:A@content|replace('h', 'j') ~ secret.K }}", "jirosebud");
        for text in [
            "{{ secret.K | upper }}",
            "{{ {secret.K} | list | join('_') }}",
            "{{ secret.K[1:] }}",
            "{{ secret.K.upper() }}",
            "{{ ('x' ~ secret.K) | upper }}",
            "{{ secret.K ~ secret.K|upper }}",
            "{{ [secret.K] | first }}",
            "{{ 'x' | replace('x', secret.K) }}",
            "{{ '%s' % secret.K }}",
            "{{ secret.K is string }}",
            "{{ 'r' in secret.K ~ '' }}",
            "{{ 's' > 'r' ~ secret.K }}",
            "{{ 1 if secret.K else 2 }}",
            "{{ secret.K and 1 }}",
            "{% set x = secret.K %}{{ x | upper }}",
            "{% for c in secret.K %}{{ c }}{% endfor %}",
            "{% if secret.K == 'x' %}{% endif %}",
            "{% with x = secret.K %}{{ x | upper }}{% endwith %}",
            "{% filter upper %}{secret.K}{% endfilter %}",
            "{% filter upper %}{{ secret.K }}{% endfilter %}",
        ] {
            let error = rendered(text).expect_err(text).full();
            assert!(error.contains("`secret.K`") && error.contains("as it is"), "{text}: {error}");
        }
    }

    #[test]
    fn nothing_escapes_the_sandbox() {
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
        refused("{{ ''.__class__() }}", "has an error");
        refused("{% macro f() %}{% endmacro %}", "macro");
        refused("{% set x %}{% endset %}", "set");
        refused("{% for x in [1] recursive %}{% endfor %}", "recursive");
        refused("{{ weft_cost }}", "weft_");
        refused("{% if %}", "has an error");
        refused("{{ sys.query | }}", "has an error");
    }

    /// As people write them for Jinja on Python.
    #[test]
    fn usual_expressions_work() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check(
            "{{ '%.2f'|format(Agent:A@n) }} {{ '%s-%s'|format('a', 2) }} {{ '%(x)s'|format(x=1) }}",
            "3.00 a-2 1",
        );
        check(
            "{{ '%d' % Agent:A@n }} {{ '%s of %d' % ('a', 3) }} {{ '%.1f%%' % (Agent:A@n * 10) }} {{ 7 % 4 }}",
            "3 a of 3 30.0% 3",
        );
        check("{{ '{} {:.2f} {x}'.format('a', 1.5, x='b') }}", "a 1.50 b");
        check(
            "{{ 'a,b,c'.split(',') }} {{ 'a b'.split()[1] }} {{ 'a-b-c'.split('-', 1) }}",
            "[\"a\",\"b\",\"c\"] b [\"a\",\"b-c\"]",
        );
        check("{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "a=1;b=2;");
        check(
            "{{ {'a': 1}.keys()|list }} {{ {'a': 1}.values()|list }} {{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b', 'none') }}",
            "[\"a\"] [1] 1 none",
        );
        check("{{ Agent:A@rows[0].get('name') }} {{ Agent:A@rows[0].items()|list|length }}", "x 2");
        check(
            "{{ ' hi '.strip() }}{{ 'HI'.lower() }}{{ 'a-b'.replace('-', '+') }}{{ ', '.join(Agent:A@list) }}",
            "hihia+ba, b",
        );
        check(
            "{{ 'abc'.startswith('a') }} {{ 'abc'.endswith('x') }} {{ 'abcb'.count('b') }} {{ 'abc'.find('c') }}",
            "true false 2 2",
        );
        check(
            "{{ 'a\nb'.splitlines() }} {{ 'hello world'.title() }} {{ '12'.isdigit() }}",
            "[\"a\",\"b\"] Hello World true",
        );
        check(
            "{% set ns = namespace(sum=0) %}{% for r in Agent:A@rows %}{% set ns.sum = ns.sum + r.v %}{% endfor %}{{ ns.sum }}",
            "3",
        );
        check(
            "{% set ns = namespace(all=[]) %}{% for r in Agent:A@rows %}{% set ns.all = ns.all + [r.name] %}{% endfor %}{{ ns.all }}",
            "[\"x\",\"y\"]",
        );
        check(
            "{% for v, rows in Agent:A@rows|groupby('v') %}{{ v }}:{{ rows|length }};{% endfor %}",
            "1:1;2:1;",
        );
        check(
            "{{ 'one two three four five'|truncate(9) }} {{ 'one two three four five'|truncate(6, true, '…') }} {{ 'one'|truncate(length=9) }}",
            "one... one t… one",
        );
        check("{{ 'one two, three'|wordcount }} {{ ''|wordcount }}", "3 0");
        check("{% for row in [1, 2, 3]|batch(2, '-') %}{{ row }}{% endfor %}", "[1,2][3,\"-\"]");
        check("{{ [1, 2, 3]|slice(2)|list }}", "[[1,2],[3]]");
        for text in ["{{ 'a'.nothing() }}", "{{ Agent:A@n.split() }}", "{{ '%d' % 'x' }}"] {
            assert_eq!(rendered(text).expect_err(text).kind, ErrorKind::Invalid);
        }
    }

    #[test]
    fn urls_are_encoded() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check("{{ 'a b/c?é~-_.'|urlencode }}", "a%20b/c%3F%C3%A9%7E-_.");
        check("{{ {'q': 'a&b', 'n': 1, 'x': none}|urlencode }}{{ nobody|urlencode }}", "q=a%26b&n=1");
        check("{{ ['a b']|map('urlencode')|join }} {{ 3.5|urlencode }}", "a%20b 3.5");
    }

    #[test]
    fn several_names_can_be_set_at_once() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check("{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}", "1221");
        check(
            "{% set a, b = Agent:A@list %}{{ a ~ b }}{% set c = a ~ b, [1, 2] %}{{ c }}",
            "ab[\"ab\",[1,2]]",
        );
    }

    #[test]
    fn filters_can_be_applied_to_a_block() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check(
            "{% filter upper %}a {sys.query}{% if Agent:A@n %}{{ Agent:A@n + 1 }}{% endif %}{% endfilter %}!",
            "A Q{SYS.USER_ID}4!",
        );
        check("{% filter replace('a', 'b')|trim|upper %} aa {% endfilter %}", "BB");
        check("{% for x in Agent:A@list %}{% filter upper %}{{ x }}{% endfilter %}{% endfor %}", "AB");
        let refused = |text: &str, what: &str| {
            let error = rendered_within(text, 20_000_000).expect_err(text).full();
            assert!(error.contains(what), "{text}: {error}");
        };
        refused("{% filter upper %}{% filter trim %}a{% endfilter %}{% endfilter %}", "within `filter`");
        let often = "{{ Agent:A@big }}".repeat(20);
        refused(&format!("{{% filter length %}}{often}{{% endfilter %}}"), "writes too much");
        let long = "x".repeat(10_000);
        let each = |filter: &str| {
            format!(
                "{{% for i in range(9999) %}}{{% filter {filter} %}}{long}{{% endfilter %}}{{% endfor %}}"
            )
        };
        refused(&each("length"), "too often");
        refused(&each("upper|length"), "too large");
        refused("{% filter weft_cost %}a{% endfilter %}", "weft_");
        refused("{% filter %}a{% endfilter %}", "has an error");
        let names = Names { components: &HashSet::new(), item: None };
        let parsed = Jinja::parse("{% filter uper(1)|trm %}a{% endfilter %}", names).unwrap();
        assert_eq!(parsed.unknown(), ["there is no filter `trm`", "there is no filter `uper`"]);
        assert_eq!(parsed.empty(), [""; 0]);
    }

    #[test]
    fn unsupported_operations_have_specific_messages() {
        let told = |text: &str| rendered(text).unwrap_err().full();
        for text in ["{{ [0] * 2 }}", "{{ 2 * [0] }}", "{{ 'x' * 2 }}"] {
            let error = told(text);
            assert!(
                error.contains("only numbers can be multiplied") && !error.contains("strings"),
                "{error}"
            );
        }
        let error = told("{% filter upper %}{% for x in [1] %}a{% endfor %}{% endfilter %}");
        assert!(error.contains("`for` within `filter`") && error.contains("text|upper"), "{error}");
    }

    /// Features known from Jinja on Python are limited like anything else.
    #[test]
    fn usual_expressions_have_limits() {
        let refused = |text: &str, what: &str| {
            let error = rendered(text).expect_err(text).full();
            assert!(error.contains(what), "{text}: {error}");
        };
        for text in [
            "{{ '%999999999d'|format(1) }}",
            "{{ '%.999999999f' % 1 }}",
            "{{ '%*d'|format(999999999, 1) }}",
            "{{ '{:>999999999}'.format(1) }}",
            "{{ '{:>{}}'.format(1, 999999999) }}",
        ] {
            refused(text, "wider than 1000");
        }
        refused(&format!("{{{{ '{}'.format(Agent:A@big) }}}}", "{0}".repeat(100)), "too large");
        refused("{{ Agent:A@big.replace('x', Agent:A@big) }}", "too large");
        refused("{{ Agent:A@big.join(range(1000)) }}", "too large");
        refused("{{ Agent:A@big.replace('x', 'x ').split() }}", "too large");
        refused("{{ Agent:A@big.splitlines() }}{{ Agent:A@big.upper() }}", "too large");
        refused("{{ [1]|batch(999999999, 'x') }}{% if 1 %}{% endif %}", "too large");
        refused("{{ [1]|slice(999999999) }}{% if 1 %}{% endif %}", "too large");
        refused(
            &format!("{{% set n = namespace() %}}{}", "{% set n = namespace(a=n) %}".repeat(100)),
            "nested too deeply",
        );
        let grows =
            "{% set ns = namespace(a='x') %}{% for i in range(99) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}";
        refused(grows, "too large");
        // One that contains itself is a copy of its previous value.
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        check(
            "{% set ns = namespace(a=1) %}{% set ns.b = ns %}{% set ns.c = [ns] %}{{ ns.b }}{{ ns.c[0].b.a }}",
            "{\"a\":1}1",
        );
        refused(
            "{% set ns = namespace(a=1) %}{% for i in range(200) %}{% set ns.b = ns %}{% endfor %}{{ ns }}",
            "nested too deeply",
        );
    }

    /// The most extreme numbers, and some between.
    const EXTREMES: [&str; 13] = [
        "0",
        "-1",
        "0.5",
        "1000",
        "100001",
        "2147483647",
        "-2147483648",
        "4294967295",
        "99999999999999",
        "9223372036854775807",
        "-9223372036854775807",
        "18446744073709551615",
        "1e308",
    ];
    /// Every filter, function, method and operator that takes a number, with its place marked.
    const COUNTING: [&str; 47] = [
        "'x'|indent(#)",
        "'a\nb'|indent(#, true, true)",
        "[1]|tojson(#)",
        "[1]|batch(#)",
        "[1]|batch(#, 'x')",
        "[1]|slice(#)",
        "[1]|slice(#, 'x')",
        "'x y'|truncate(#)",
        "'x y'|truncate(#, true, '', #)",
        "'xx'|replace('x', 'y', #)",
        "'x y'|split(' ', #)",
        "'7'|int(0, #)",
        "7|round(#)",
        "0.7|round(#)",
        "0.7|round(#, 'ceil')",
        "#|round(-1)",
        "#|int",
        "#|abs",
        "[1]|sum(start=#)",
        "[#, #]|sum",
        "'%#d'|format(1)",
        "'%.#f' % 1",
        "'%d'|format(#)",
        "range(#)|list|length",
        "range(0, #)|length",
        "range(#, -#)|length",
        "range(1, #, #)|length",
        "range(#, -1, -1)|length",
        "'{:>#}'.format(1)",
        "'{:.#}'.format('x')",
        "'xx'.replace('x', 'y', #)",
        "'x y'.split(' ', #)",
        "'xyz'[#]",
        "'xyz'[#:]",
        "'xyz'[:#]",
        "'xyz'[::#]",
        "[1, 2][#]",
        "[1, 2][#::#]",
        "'x' * #",
        "# * [1]",
        "# + #",
        "# * #",
        "2 ** #",
        "# ** #",
        "# // -1",
        "# % 7",
        "7 is divisibleby(#)",
    ];

    /// Everything that takes a number gets extreme numbers. One that was not checked before an allocation of
    /// that size would kill this process and not only fail.
    #[test]
    fn extreme_numbers_are_computed_or_refused() {
        for expression in COUNTING {
            for number in EXTREMES {
                let expression = expression.replace('#', number);
                let template = format!("{{{{ {expression} }}}}{{% if 1 %}}{{% endif %}}");
                let is_bounded = match rendered(&template) {
                    Ok(text) => text.len() <= OUTPUT_MAX,
                    Err(error) => error.kind == ErrorKind::Invalid,
                };
                assert!(is_bounded, "{expression}");
            }
        }
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
        refused(&format!("{{% set a = [1] %}}{}", "{% set a = a, a %}".repeat(40)), "too large");
        refused(&format!("{{% set a = [1] %}}{}", "{% set a, b = [a, a], 1 %}".repeat(40)), "too large");
        refused("{% for x in 1, 2 %}{% endfor %}", "brackets");
        refused(
            "{% if 1 %}{% endif %}{{ Agent:A@big|urlencode|replace('x', 'xxxxxxxxxxxxxxx') }}",
            "too large",
        );
        refused("{% for i in range(9) %}{% set x = Agent:A@big|urlencode %}{% endfor %}", "too large");
        refused("{{ Agent:A@big | replace('x', Agent:A@big) }}", "too large");
        refused(&format!("{{{{ Agent:A@big {} }}}}", "| tojson".repeat(40)), "too large");
        refused("{% if 1 %}{{ 'a\nb' | indent(100000000) }}{% endif %}", "too large");
        refused("{{ 'x'|indent(99999999999999) }}{% if 1 %}{% endif %}", "too large");
        refused(&format!("{{% if 1 %}}{}", " ".repeat(SOURCE_MAX)), "longer than");
        refused(&format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000)), "deep");
    }

    /// Each step scans a text of 1 MB and creates nothing else that would be charged.
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
            "Agent:A@big ~ '' == 'x'",
            "Agent:A@texts|sort == 7",
            "Agent:A@texts|unique == 7",
            "Agent:A@many|sort(attribute='t') == 7",
            "Agent:A@many|groupby('t') == 7",
            "Agent:A@many|max(attribute='t') == 7",
            "[1, 2, 3, 4]|select('in', Agent:A@big) == 7",
            "['y', 'z']|reject('in', Agent:A@big) == 7",
            "Agent:A@texts is eq(Agent:A@texts)",
            "Agent:A@many is eq(Agent:A@many)",
            "Agent:A@texts|select('lt', Agent:A@texts[0] ~ 'x')|list == 7",
            "'x'.format(Agent:A@big)",
            "Agent:A@list|map('default', Agent:A@big) == 7",
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

    /// However little is charged for its work.
    #[test]
    fn the_templates_of_a_node_have_a_time_limit() {
        for text in [
            "{{ sys.query }}{% if 1 %}{% endif %}",
            "{% if Agent:A@n * 2 %}{% endif %}",
            "{% for x in Agent:A@list %}{% endfor %}",
            "{% for x in Agent:A@list if x == 'a' %}{% endfor %}",
            "{% if sys.query.startswith('x') %}{% endif %}",
            "{% if Agent:A@list|first %}{% endif %}",
            "{% for x in range(3) %}{% if loop.changed(x) %}{% endif %}{% endfor %}",
            "{% if loop.cycle(*Agent:A@list) %}{% endif %}",
            "{% set x = Agent:A@list + [1] %}",
            "{% if Agent:A@n in Agent:A@list %}{% endif %}",
            "{% if Agent:A@list[1:] %}{% endif %}",
        ] {
            rendered_in(text, READ_MAX, TEMPLATE_TIME_MAX / 2).unwrap_or_else(|error| {
                assert!(!error.full().contains("10 seconds"), "{text}: {error:?}");
                String::new()
            });
            let error = rendered_in(text, READ_MAX, TEMPLATE_TIME_MAX).expect_err(text).full();
            assert!(error.contains("longer than the 10 seconds"), "{text}: {error}");
        }
        assert_eq!(TEMPLATE_TIME_MAX.as_secs(), 10, "the message says so");
    }

    /// A slice, a concatenation or a reversed list is evaluated once and not at each iteration.
    #[test]
    fn computed_lists_are_evaluated_once() {
        let check = |text: &str, expected: &str| assert_eq!(rendered(text).unwrap(), expected, "{text}");
        for list in ["Agent:A@texts[::500]", "Agent:A@texts|reverse", "Agent:A@list + Agent:A@list"] {
            check(
                &format!("{{% set x = {list} %}}{{{{ x is sequence }}}}{{{{ x|reverse is sequence }}}}"),
                "truefalse",
            );
        }
        check("{% for x in Agent:A@list[::-1] + [1] if x != 'a' %}{{ x }}{% else %}none{% endfor %}", "b1");
        check("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1");
        check("{% for x in nobody.home %}{% else %}none{% endfor %}", "none");
        check("{{ Agent:A@list|map('upper')|join(Agent:A@n|string) }}", "A3B");
        check("{{ Agent:A@rows|sort(attribute='v', reverse=true)|map(attribute='name')|join }}", "yx");
        check(
            "{{ Agent:A@rows|selectattr('v', 'in', [2])|list|length }}{{ Agent:A@rows|rejectattr('v', '==', 1)|list|length }}",
            "11",
        );
        check(
            "{% set a = -Agent:A@n + 1 %}{{ a }}{{ not Agent:A@n ~ 'x' }}{{ 'x' is defined ~ '' }}",
            "-2falseTrue",
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([{}%#'\"()|~+*.,=-]| |set|for|in|raw|endraw|ns.a|namespace(a=1)|.split()|format|batch|sys.query|Agent:A@n|item|é|1){0,40}") {
            if let Ok(text) = rendered(&text) {
                assert!(text.len() <= OUTPUT_MAX);
            }
        }
    }
}
