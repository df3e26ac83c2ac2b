//! Programs that call their `main` themselves: what that gave is the result, instead of a second run.

use std::borrow::Cow;

use serde_json::Map;
use weft_core::Json;

/// Lets calls of a `main` that is a declared function be known, which is there before the first statement. `__main` is
/// made in `globals.js`.
const DECLARED: &str = ";try { main = __main(main) } catch {} ";
/// What may stand before a call of `main` that is a statement.
const BEFORE: [&str; 4] = ["void ", "await ", "console.log(", "await "];
const NAME: &str = "main";

/// The program with calls of `main` that are known, in the same lines. One that gets arguments does not call it at its
/// end, since that would be with other arguments.
pub fn recorded<'a>(source: &'a str, arguments: &Map<String, Json>) -> Cow<'a, str> {
    let source = if arguments.is_empty() { source } else { without_last_call(source) };
    let last = last_call(source);
    let declared = source.contains("function main");
    if last.is_none() && !declared {
        return Cow::Borrowed(source);
    }
    let mut text = source.to_owned();
    // From the end on, so that places before stay as they are.
    if let Some(call) = last {
        text.replace_range(call.name..call.name + NAME.len(), "__main(main)");
    }
    if declared {
        text.insert_str(first_statement(source), DECLARED);
    }
    Cow::Owned(text)
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
            assert_eq!(recorded(source, &none), expected);
        }
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
            assert_eq!(recorded(source, &given), expected);
        }
    }
}
