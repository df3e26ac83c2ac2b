//! A self-contained HTML page: no scripts, no files, no network.

use std::fmt::Write as _;

use super::{CaseReport, FileReport, TurnReport, escaped, nodes, percent, summary, used};

const STYLE: &str = "
:root { color-scheme: light dark; --ok: #1a7f37; --bad: #c4232b; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem; }
.sum { margin: .2rem 0 1rem; } .about { margin: 0 0 .6rem; opacity: .75; }
.ok { color: var(--ok); } .bad { color: var(--bad); } .soft { opacity: .7; font-weight: normal; font-size: .9rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; padding: .35rem .7rem; }
summary { cursor: pointer; font-weight: 600; } h3 { font-size: .95rem; margin: .9rem 0 .2rem; }
pre { background: var(--soft); border-radius: 4px; margin: .2rem 0 .6rem; padding: .5rem .7rem; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin: .2rem 0 .6rem; }
th, td { border-top: 1px solid var(--line); padding: .25rem .5rem .25rem 0; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; width: 12rem; } .miss th { color: var(--bad); } .bar { height: 6px; border-radius: 3px; background: var(--bad); overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--ok); }
";

/// Formats all files as one page.
pub fn page(files: &[FileReport]) -> String {
    let all = files.iter().all(FileReport::passed);
    let mut body = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        body,
        "<h1>Evals</h1>\n<p class=\"sum {}\">{}</p>\n",
        if all { "ok" } else { "bad" },
        escaped(&summary(files))
    );
    // Failures come first.
    let (passed, failed): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.passed());
    failed.into_iter().chain(passed).for_each(|file| write_file(&mut body, file));
    // The page contains texts of models: even if one got through as markup, it could load and run nothing.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Evals: {}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        if all { "passed" } else { "failed" }
    )
}

/// Returns a mark for this number of problems.
fn mark(wrong: usize) -> &'static str {
    if wrong == 0 { "<span class=\"ok\">✓</span>" } else { "<span class=\"bad\">✗</span>" }
}

fn write_file(body: &mut String, file: &FileReport) {
    let (passed, all) = (file.passed_count(), file.cases.len());
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer cases than 2^52")]
    let share = passed as f64 / all.max(1) as f64;
    let needed = if file.pass < 1.0 { format!(", {} required", percent(file.pass)) } else { String::new() };
    let _ = writeln!(
        body,
        "<h2>{} {} <span class=\"soft\">{passed} of {all} passed{needed}</span></h2>",
        mark(usize::from(!file.passed())),
        escaped(&file.file)
    );
    if !file.about.is_empty() {
        let _ = writeln!(body, "<p class=\"about\">{}</p>", escaped(&file.about));
    }
    let _ = writeln!(body, "<div class=\"bar\"><i style=\"width: {:.1}%\"></i></div>", share * 100.0);
    file.cases.iter().for_each(|case| write_case(body, case));
}

fn write_case(body: &mut String, case: &CaseReport) {
    let passed = case.passed();
    let _ = writeln!(
        body,
        "<details{}><summary>{} {} <span class=\"soft\">{:.2} s</span></summary>",
        if passed { "" } else { " open" },
        mark(usize::from(!passed)),
        escaped(&case.case),
        case.seconds
    );
    if let Some(error) = &case.error {
        let _ = writeln!(body, "<pre class=\"bad\">{}</pre>", escaped(error));
    }
    let several = case.turns.len() > 1;
    for (at, turn) in case.turns.iter().enumerate() {
        if several {
            let _ = writeln!(body, "<h3>{} Turn {}</h3>", mark(turn.misses.len()), at + 1);
        }
        write_turn(body, turn);
    }
    body.push_str("</details>\n");
}

fn write_turn(body: &mut String, turn: &TurnReport) {
    for miss in &turn.misses {
        let nth = miss.expectation.map(|nth| format!(" <span class=\"soft\">expect[{nth}]</span>"));
        let _ = writeln!(
            body,
            "<table class=\"miss\"><tr><th>{}{}</th><td></td></tr><tr><td>expected</td><td>{}</td></tr>\
             <tr><td>got</td><td>{}</td></tr></table>",
            escaped(&miss.what),
            nth.unwrap_or_default(),
            escaped(&miss.expected),
            escaped(&miss.got)
        );
    }
    let seen = &turn.seen;
    // Several deviations may concern one expectation, and each counts once.
    let held = turn.expectations.saturating_sub(
        turn.misses
            .iter()
            .filter_map(|miss| miss.expectation)
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
    );
    let _ = writeln!(
        body,
        "<h3>Asked</h3><pre>{}</pre>\n<h3>Answered <span class=\"soft\">{}; {}; {held} of {} met</span></h3><pre>{}</pre>",
        escaped(&turn.query),
        seen.ending.as_str(),
        escaped(&used(seen)),
        weft_core::value::plural(turn.expectations, "expectation"),
        escaped(&seen.answer)
    );
    for call in &turn.stale {
        let _ = writeln!(
            body,
            "<p class=\"about\">{}: the question differs from the recording.</p>",
            escaped(call)
        );
    }
    if !seen.tools.is_empty() {
        body.push_str("<h3>Tools</h3><table>");
        for call in &seen.tools {
            let failed = if call.failed { " <span class=\"bad\">failed</span>" } else { "" };
            let (tool, arguments) = (escaped(&call.path), escaped(&call.arguments.to_string()));
            let _ = write!(body, "<tr><th>{tool}{failed}</th><td>{arguments}</td></tr>");
        }
        body.push_str("</table>\n");
    }
    if seen.nodes.is_empty() {
        return;
    }
    body.push_str("<details><summary>Nodes</summary><table>");
    for (node, outputs) in nodes(seen) {
        let _ = write!(body, "<tr><th>{}</th><td>{}</td></tr>", escaped(node), escaped(&outputs));
    }
    body.push_str("</table></details>\n");
}
