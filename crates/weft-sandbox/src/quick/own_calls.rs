//! Programs that call their `main` themselves: what that gave is the result, instead of a second run.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Map;
use weft_core::Json;

use super::lines::outer_lines;

/// Lets calls of a `main` that is a declared function be known, which is there before the first statement. `__main` is
/// made in `globals.js`.
const DECLARED: &str = ";try { main = __main(main) } catch {} ";
/// The same of a `main` that is a variable, which is `var` then, so that it is one of the global object. To be run before the
/// program: what a script declares is there before its first statement, and cannot be defined in another way any more.
pub(super) const VARIABLE: &str = "__main.variable()";
/// The words that a variable is declared with.
const DECLARING: [&str; 3] = ["const", "let", "var"];
/// What stands before what a module offers.
const EXPORT: &str = "export ";
/// What a module declares in the place of `main`.
const OF_MODULE: &str = "__main_of_module";
/// What may stand before a call of `main` that is a statement.
const BEFORE: [&str; 4] = ["void ", "await ", "console.log(", "await "];
const NAME: &str = "main";

/// A program whose calls of `main` are known.
pub(super) struct Recorded<'a> {
    /// The program, in the same lines.
    pub(super) text: Cow<'a, str>,
    /// Whether its `main` is a variable, which [`VARIABLE`] makes known.
    pub(super) is_variable: bool,
}

/// The program with calls of `main` that are known, in the same lines. One that gets arguments does not call it at its
/// end, since that would be with other arguments.
pub(super) fn recorded<'a>(source: &'a str, arguments: &Map<String, Json>) -> Recorded<'a> {
    let source = if arguments.is_empty() { source } else { without_last_call(source) };
    let last = last_call(source);
    let declared = source.contains("function main");
    // What a call at the end gives is known by that, and with arguments nobody asks what calls gave.
    let asked = last.is_none() && arguments.is_empty();
    let edits = if asked { of_variables(source) } else { Vec::new() };
    let is_variable = !edits.is_empty();
    if last.is_none() && !declared && !is_variable {
        return Recorded { text: Cow::Borrowed(source), is_variable };
    }
    let mut text = source.to_owned();
    // From the end on, so that places before stay as they are.
    if let Some(call) = last {
        text.replace_range(call.name..call.name + NAME.len(), "__main(main)");
    }
    for (place, words) in edits {
        text.replace_range(place, &words);
    }
    if declared {
        text.insert_str(first_statement(source), DECLARED);
    }
    Recorded { text: Cow::Owned(text), is_variable }
}

/// A script as far as a run has it parsed, with everything in its place: what a run leaves out or declares otherwise may be what
/// could not be parsed.
pub(crate) fn as_parsed<'a>(source: &'a str, arguments: &[String]) -> Cow<'a, str> {
    if !arguments.is_empty() {
        return Cow::Borrowed(without_last_call(source));
    }
    let edits = if last_call(source).is_none() { of_variables(source) } else { Vec::new() };
    let mut text = Cow::Borrowed(source);
    for (place, words) in edits {
        text.to_mut().replace_range(place, &words);
    }
    text
}

/// What to write in which place so that a `main` that is a variable is one of the global object, from the end on; nothing
/// where it is none.
fn of_variables(source: &str) -> Vec<(Range<usize>, String)> {
    let variables = variables(source);
    if variables.is_empty() || !super::is_module(source) {
        // As long as it was, so that places in the line stay as they are.
        let var = |word: Range<usize>| (word.clone(), format!("{:width$}", "var", width = word.len()));
        return variables.into_iter().rev().map(|one| var(one.word)).collect();
    }
    let offers = offered(source);
    let is_offered = !offers.is_empty() || variables.iter().any(|one| one.is_offered) || is_default(source);
    // What is called from outside may be another function, which calls `main`.
    if !is_offered || source.contains(OF_MODULE) {
        return Vec::new();
    }
    // What a module declares is never one of the global object: it declares another name, and `main` is set on the way.
    let set = |one: Variable| {
        let value = if one.is_set { " = main" } else { "" };
        (one.name, format!("{OF_MODULE}{value}"))
    };
    let mut edits: Vec<_> = variables.into_iter().map(set).chain(offers).collect();
    edits.sort_unstable_by_key(|(place, _)| std::cmp::Reverse(place.start));
    edits
}

/// A line of the program itself that declares `main` as a variable.
struct Variable {
    word: Range<usize>,
    name: Range<usize>,
    is_set: bool,
    is_offered: bool,
}

fn variables(source: &str) -> Vec<Variable> {
    let declared = |line: usize| {
        let whole = source.get(line..)?;
        let rest = whole.strip_prefix(EXPORT).map_or(whole, str::trim_start);
        let word = DECLARING.into_iter().find(|word| rest.starts_with(*word))?;
        let start = source.len() - rest.len();
        let after = rest.get(word.len()..)?;
        let name = after.trim_start_matches([' ', '\t']);
        let named = source.len() - name.len();
        let then = name.strip_prefix(NAME)?.trim_start();
        let is_set = then.starts_with('=') && !then.starts_with("==");
        let becomes = is_set || then.starts_with(';');
        (name.len() < after.len() && becomes).then(|| Variable {
            word: start..start + word.len(),
            name: named..named + NAME.len(),
            is_set,
            is_offered: whole.starts_with(EXPORT),
        })
    };
    outer_lines(source).into_iter().filter_map(declared).collect()
}

/// Whether `main` is what a module offers without a name.
fn is_default(source: &str) -> bool {
    outer_lines(source).into_iter().any(|line| {
        let rest = source.get(line..).and_then(|rest| rest.strip_prefix("export default main"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([';', '\n', '\r']))
    })
}

/// What to write for `export { main }`, which has to be a name that the module declares.
fn offered(source: &str) -> Vec<(Range<usize>, String)> {
    let mut edits = Vec::new();
    for line in outer_lines(source) {
        let rest = source.get(line..).unwrap_or_default();
        let list = rest.strip_prefix(EXPORT).and_then(|rest| rest.strip_prefix('{')?.split_once('}'));
        let mut at = line + EXPORT.len() + 1;
        for offer in list.map_or("", |(list, _)| list).split(',') {
            let name = at + offer.len() - offer.trim_start().len();
            match offer.trim().strip_prefix(NAME) {
                Some("") => edits.push((name..name + NAME.len(), format!("{OF_MODULE} as {NAME}"))),
                Some(other) if other.starts_with(char::is_whitespace) => {
                    edits.push((name..name + NAME.len(), OF_MODULE.to_owned()));
                }
                _ => {}
            }
            at += offer.len() + 1;
        }
    }
    edits
}

/// Where the first statement may stand: after a line for the shell, or the words that make the whole strict.
fn first_statement(source: &str) -> usize {
    if source.starts_with("#!") {
        return source.find('\n').map_or(source.len(), |end| end + 1);
    }
    let begun = source.trim_start();
    let strict = ["\"use strict\"", "'use strict'"].into_iter().find(|words| begun.starts_with(words));
    strict.map_or(0, |words| source.len() - begun.len() + words.len())
}

/// A last line that calls `main`: where it begins, and where the name stands.
struct LastCall {
    line: usize,
    name: usize,
}

fn last_call(source: &str) -> Option<LastCall> {
    let text = source.trim_end();
    let line = text.rfind('\n').map_or(0, |end| end + 1);
    let (_, last) = text.split_at(line);
    // It may be the end of a text or of a comment that began before.
    if last.contains('`') || last.contains("*/") {
        return None;
    }
    let rest = BEFORE.iter().fold(last, |rest, before| rest.strip_prefix(*before).unwrap_or(rest));
    let called = rest.strip_prefix(NAME)?.trim_start().starts_with('(');
    called.then(|| LastCall { line, name: text.len() - rest.len() })
}

fn without_last_call(source: &str) -> &str {
    let Some(call) = last_call(source) else { return source };
    let (before, last) = source.split_at(call.line);
    let whole = last.trim_end().trim_end_matches(';').ends_with(')');
    let ended = before.trim_end().is_empty() || before.trim_end().ends_with(['}', ';', ')']);
    if whole && ended { before } else { source }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_run_parses_has_its_places() {
        let check = |source: &str, arguments: &[String], expected: &str| {
            assert_eq!(as_parsed(source, arguments), expected, "{source}");
        };
        let arguments = ["a".to_owned()];
        check("function main(a) {}\nawait main(1);", &arguments, "function main(a) {}\n");
        check("function main(a) {}\nawait main(1);", &[], "function main(a) {}\nawait main(1);");
        check("const main = () => 1 1", &[], "var   main = () => 1 1");
        check("function main() {}", &[], "function main() {}");
    }

    #[test]
    fn calls_at_the_end_are_known_and_nothing_else_is_changed() {
        let none = Map::new();
        for (source, expected) in [
            ("const main = () => 1;\nmain();\n", "const main = () => 1;\n__main(main)();\n"),
            ("main ().then(f)", "__main(main) ().then(f)"),
            ("console.log(await main(1))", "console.log(await __main(main)(1))"),
            ("const x = `\nmain()`", "const x = `\nmain()`"),
            ("/*\nmain() */", "/*\nmain() */"),
            ("mainly()", "mainly()"),
            ("  main()", "  main()"),
            ("", ""),
            (
                "#!/usr/bin/node\nfunction main() {}",
                "#!/usr/bin/node\n;try { main = __main(main) } catch {} function main() {}",
            ),
            (
                "'use strict';function main() {}",
                "'use strict';try { main = __main(main) } catch {} ;function main() {}",
            ),
            (
                "\nfunction main() {}\nmain()",
                ";try { main = __main(main) } catch {} \nfunction main() {}\n__main(main)()",
            ),
        ] {
            assert_eq!(recorded(source, &none).text, expected);
        }
    }

    #[test]
    fn variables_are_known_where_the_last_line_is_no_call() {
        let none = Map::new();
        for (source, expected, is_variable) in [
            ("const main = () => 1;\nmain();\nf()", "var   main = () => 1;\nmain();\nf()", true),
            ("let main;\nmain = f\nif (main()) f()", "var main;\nmain = f\nif (main()) f()", true),
            ("var  main= f; main(); f()", "var  main= f; main(); f()", true),
            ("{\nconst main = 1\n}\n f()", "{\nconst main = 1\n}\n f()", false),
            ("`\nconst main = 1\n`", "`\nconst main = 1\n`", false),
            ("const mainly = 1", "const mainly = 1", false),
            ("constmain = 1", "constmain = 1", false),
            (
                "export const main = f\nmain()\ng()",
                "export const __main_of_module = main = f\nmain()\ng()",
                true,
            ),
            (
                "let main;\nmain = f\nexport { g, main , main as default }\ng()",
                "let __main_of_module;\nmain = f\nexport { g, __main_of_module as main , __main_of_module as default }\ng()",
                true,
            ),
            (
                "export const __main_of_module = 1\nconst main = f",
                "export const __main_of_module = 1\nconst main = f",
                false,
            ),
            (
                "const main = f\nexport default g\nmain()\nh()",
                "const main = f\nexport default g\nmain()\nh()",
                false,
            ),
            (
                "export const mainly = f\nexport { x as main }",
                "export const mainly = f\nexport { x as main }",
                false,
            ),
        ] {
            let found = recorded(source, &none);
            assert_eq!((&*found.text, found.is_variable), (expected, is_variable));
        }
        let given = json!({"a": 1}).as_object().cloned().unwrap_or_default();
        assert_eq!(recorded("const main = f\nmain(1)\nf()", &given).text, "const main = f\nmain(1)\nf()");
    }

    #[test]
    fn with_arguments_a_call_at_the_end_is_passed_over() {
        let given = json!({"a": 1}).as_object().cloned().unwrap_or_default();
        for (source, expected) in [
            ("const main = () => 1;\nmain();\n", "const main = () => 1;\n"),
            ("const main = () => 1;\nconsole.log(main(2))", "const main = () => 1;\n"),
            ("const y =\nmain()", "const y =\n__main(main)()"),
            ("const x = 1;\nmain() + 1", "const x = 1;\n__main(main)() + 1"),
        ] {
            assert_eq!(recorded(source, &given).text, expected);
        }
    }
}
