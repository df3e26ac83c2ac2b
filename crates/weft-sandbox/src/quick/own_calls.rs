//! Handles programs that call their `main` themselves: the value of that call is the result, instead of a second run.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Map;
use weft_core::Json;

use super::lines::outer_lines;

/// Records the calls of a `main` that is a declared function, which exists before the first statement. `__main` is
/// defined in `globals.js`.
const DECLARED: &str = ";try { main = __main(main) } catch {} ";
/// Records the calls of a `main` that is a variable, which is declared by `var` in this case, so that it becomes a
/// property of the global object. Must run before the program: what a script declares exists before its first statement
/// and can no longer be redefined.
pub(super) const VARIABLE: &str = "__main.variable()";
/// The keywords that declare a variable.
const DECLARING: [&str; 3] = ["const", "let", "var"];
/// The prefix of an export.
const EXPORT: &str = "export ";
/// The name that a module declares in place of `main`.
const OF_MODULE: &str = "__main_of_module";
/// What may precede a call of `main` in a statement.
const BEFORE: [&str; 4] = ["void ", "await ", "console.log(", "await "];
const NAME: &str = "main";

/// A program whose calls of `main` are recorded.
pub(super) struct RecordedProgram<'a> {
    /// The program, with the same lines.
    pub(super) text: Cow<'a, str>,
    /// Whether its `main` is a variable, whose calls [`VARIABLE`] records.
    pub(super) is_variable: bool,
}

/// Returns the program with recorded calls of `main`, with the same lines. With arguments, a call at its end is
/// removed, since it would pass different arguments.
pub(super) fn recorded<'a>(source: &'a str, arguments: &Map<String, Json>) -> RecordedProgram<'a> {
    let source = if arguments.is_empty() { source } else { without_last_call(source) };
    let last = last_call(source);
    let declared = source.contains("function main");
    // The value of a call at the end is recorded by that call, and with arguments the values of other calls are not
    // needed.
    let asked = last.is_none() && arguments.is_empty();
    let edits = if asked { of_variables(source) } else { Vec::new() };
    let is_variable = !edits.is_empty();
    if last.is_none() && !declared && !is_variable {
        return RecordedProgram { text: Cow::Borrowed(source), is_variable };
    }
    let mut text = source.to_owned();
    // From the end backwards, so that earlier positions remain valid.
    if let Some(call) = last {
        text.replace_range(call.name..call.name + NAME.len(), "__main(main)");
    }
    for (place, words) in edits {
        text.replace_range(place, &words);
    }
    if declared {
        text.insert_str(first_statement(source), DECLARED);
    }
    RecordedProgram { text: Cow::Owned(text), is_variable }
}

/// Returns a script as it is parsed for a run, with all positions unchanged: what a run leaves out or declares
/// differently may be what could not be parsed.
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

/// Returns the replacements that make a `main` that is a variable a property of the global object, last position first;
/// empty if it is not a variable.
fn of_variables(source: &str) -> Vec<(Range<usize>, String)> {
    let variables = variables(source);
    if variables.is_empty() || !super::is_module(source) {
        // Padded to the same length, so that positions in the line remain valid.
        let var = |word: Range<usize>| (word.clone(), format!("{:width$}", "var", width = word.len()));
        return variables.into_iter().rev().map(|one| var(one.word)).collect();
    }
    let offers = offered(source);
    let is_offered = !offers.is_empty() || variables.iter().any(|one| one.is_offered) || is_default(source);
    // What is called from outside may be another function, which calls `main`.
    if !is_offered || source.contains(OF_MODULE) {
        return Vec::new();
    }
    // A module's declarations are never properties of the global object: the module declares another name, and sets
    // `main` along the way.
    let set = |one: MainVariable| {
        let value = if one.is_set { " = main" } else { "" };
        (one.name, format!("{OF_MODULE}{value}"))
    };
    let mut edits: Vec<_> = variables.into_iter().map(set).chain(offers).collect();
    edits.sort_unstable_by_key(|(place, _)| std::cmp::Reverse(place.start));
    edits
}

/// A top-level line that declares `main` as a variable.
struct MainVariable {
    word: Range<usize>,
    name: Range<usize>,
    is_set: bool,
    is_offered: bool,
}

fn variables(source: &str) -> Vec<MainVariable> {
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
        (name.len() < after.len() && becomes).then(|| MainVariable {
            word: start..start + word.len(),
            name: named..named + NAME.len(),
            is_set,
            is_offered: whole.starts_with(EXPORT),
        })
    };
    outer_lines(source).into_iter().filter_map(declared).collect()
}

/// Whether `main` is the default export of a module.
fn is_default(source: &str) -> bool {
    outer_lines(source).into_iter().any(|line| {
        let rest = source.get(line..).and_then(|rest| rest.strip_prefix("export default main"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([';', '\n', '\r']))
    })
}

/// Returns the replacements for `export { main }`, which must name something that the module declares.
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

/// Returns where the first statement may be: after a shebang line, or after a directive that enables strict mode.
fn first_statement(source: &str) -> usize {
    if source.starts_with("#!") {
        return source.find('\n').map_or(source.len(), |end| end + 1);
    }
    let begun = source.trim_start();
    let strict = ["\"use strict\"", "'use strict'"].into_iter().find(|words| begun.starts_with(words));
    strict.map_or(0, |words| source.len() - begun.len() + words.len())
}

/// A last line that calls `main`: where the line and the name begin.
struct LastCall {
    line: usize,
    name: usize,
}

fn last_call(source: &str) -> Option<LastCall> {
    let text = source.trim_end();
    let line = text.rfind('\n').map_or(0, |end| end + 1);
    let (_, last) = text.split_at(line);
    // It may be the end of a template or a comment that began earlier.
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
    fn parse_errors_have_their_positions() {
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
    fn final_calls_are_recognised_and_nothing_else_changes() {
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
    fn variables_are_recognised_if_the_last_line_is_no_call() {
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
    fn with_arguments_a_final_call_is_skipped() {
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
