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
    // What a call at the end gives is known by that; with arguments nobody asks what calls gave; and what a module declares is no
    // variable of the global object.
    let asked = last.is_none() && arguments.is_empty() && !super::is_module(source);
    let variables = if asked { variables(source) } else { Vec::new() };
    if last.is_none() && !declared && variables.is_empty() {
        return Recorded { text: Cow::Borrowed(source), is_variable: false };
    }
    let mut text = source.to_owned();
    // From the end on, so that places before stay as they are.
    if let Some(call) = last {
        text.replace_range(call.name..call.name + NAME.len(), "__main(main)");
    }
    for word in &variables {
        // As long as it was, so that places in the line stay as they are.
        text.replace_range(word.start..word.end, &format!("{:width$}", "var", width = word.len()));
    }
    if declared {
        text.insert_str(first_statement(source), DECLARED);
    }
    Recorded { text: Cow::Owned(text), is_variable: !variables.is_empty() }
}

/// The words by which lines of the program itself declare `main` as a variable.
fn variables(source: &str) -> Vec<Range<usize>> {
    let declared = |line: usize| {
        let rest = source.get(line..)?;
        let word = DECLARING.into_iter().find(|word| rest.starts_with(*word))?;
        let after = rest.get(word.len()..)?;
        let name = after.trim_start_matches([' ', '\t']);
        let then = name.strip_prefix(NAME)?.trim_start();
        let becomes = then.starts_with('=') && !then.starts_with("==") || then.starts_with(';');
        (name.len() < after.len() && becomes).then(|| line..line + word.len())
    };
    outer_lines(source).into_iter().filter_map(declared).collect()
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
            ("export const x = 1\nconst main = f", "export const x = 1\nconst main = f", false),
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
