//! The API as a page for people: Markdown for the repository, self-contained HTML for the server.

use std::fmt::Write as _;

use weft_core::value::listed;

use super::shape::{Member, Type, in_words};
use super::{Answer, Body, Documented};

const INTRODUCTION: &str = "\
Responses are `{code, message, data}` with HTTP status 200, even for most errors: `code` is 0 on success.
Send a token in the header `Authorization: Bearer TOKEN`. Times are milliseconds since 1970.
The OpenAPI document is at `GET /api/openapi.json`, and this page at `GET /api/docs`.";

/// Returns the page as Markdown.
pub fn markdown(routes: &[Documented]) -> String {
    let mut page = format!("# The HTTP API\n\n{INTRODUCTION}\n");
    let mut group = "";
    for route in routes {
        if route.group != group {
            group = route.group;
            let _ = writeln!(page, "\n## {group}");
        }
        let _ = writeln!(page, "\n### `{} {}`\n\n{}", route.method, route.path, route.operation.summary);
        let needs = super::needs(route.operation.access);
        if !needs.is_empty() {
            let _ = writeln!(page, "{needs}");
        }
        if !route.operation.query.is_empty() {
            page.push_str(&table("parameter", route.operation.query));
        }
        match route.operation.body {
            Body::Nothing => {}
            Body::Json(Type::Object(members)) => page.push_str(&table("body", members)),
            Body::Json(Type::Rules(rules)) => {
                let _ = writeln!(page, "\nBody: {}.", listed(rules.iter().map(|(name, _)| name)));
            }
            Body::Json(_) => page.push_str("\nBody: a JSON object.\n"),
            Body::Files => page.push_str("\nBody: a form with files, each in a part `file`.\n"),
            Body::FilesOrJson(kind) => {
                page.push_str("\nBody: a form with files, each in a part `file`, or a JSON object.\n");
                if let Type::Object(members) = kind {
                    page.push_str(&table("body", members));
                }
            }
        }
        let _ = writeln!(page, "\nAnswer: {}.", answered(route.operation.answer));
    }
    page.push_str(&shapes(routes));
    page
}

fn table(of: &str, members: &[Member]) -> String {
    let mut table = format!("\n| {of} | type | |\n|---|---|---|\n");
    for member in members {
        let needed = if member.required { "; required" } else { "" };
        // Writing into a String cannot fail.
        let _ =
            writeln!(table, "| `{}` | {} | {}{needed} |", member.name, in_words(member.kind), member.summary);
    }
    table
}

fn answered(answer: Answer) -> String {
    match answer {
        Answer::Data(kind) => format!("`data` is {}", in_words(kind)),
        Answer::Counted(kind, count) => {
            format!("`data` is {}, and `{count}` is the total number", in_words(kind))
        }
        Answer::Whole(kind) => in_words(kind),
        Answer::JsonRpc => "a message of JSON-RPC, or server-sent events with such messages".to_owned(),
        Answer::Text => "a text".to_owned(),
        Answer::Events => "server-sent events".to_owned(),
        Answer::EventsOrData(kind) => {
            format!("server-sent events, or one answer whose `data` is {}", in_words(kind))
        }
        Answer::EventsOrWhole(kind) => format!("server-sent events, or {}", in_words(kind)),
        Answer::File => "a file".to_owned(),
    }
}

/// The members of the named objects, in the order in which routes refer to them.
fn shapes(routes: &[Documented]) -> String {
    let mut named: Vec<&'static super::shape::Shape> = Vec::new();
    for route in routes {
        let (Answer::Data(kind)
        | Answer::Counted(kind, _)
        | Answer::Whole(kind)
        | Answer::EventsOrData(kind)
        | Answer::EventsOrWhole(kind)) = route.operation.answer
        else {
            continue;
        };
        gather(kind, &mut named);
    }
    let mut page = "\n## Objects\n".to_owned();
    for shape in named {
        let _ = writeln!(page, "\n### {}\n\n{}; there may be other members.", shape.name, shape.summary);
        page.push_str("\n| member | type | |\n|---|---|---|\n");
        for member in shape.members {
            let may = match (member.required, member.nullable) {
                (false, _) => "; optional",
                (true, true) => "; may be null",
                (true, false) => "",
            };
            let _ =
                writeln!(page, "| `{}` | {} | {}{may} |", member.name, in_words(member.kind), member.summary);
        }
    }
    page
}

fn gather(kind: Type, named: &mut Vec<&'static super::shape::Shape>) {
    match kind {
        Type::Of(shape) => {
            if named.iter().all(|known| known.name != shape.name) {
                named.push(shape);
                shape.members.iter().for_each(|member| gather(member.kind, named));
            }
        }
        Type::List(of) | Type::Map(of) => gather(*of, named),
        Type::Object(members) => members.iter().for_each(|member| gather(member.kind, named)),
        Type::Either(of) => of.iter().for_each(|kind| gather(*kind, named)),
        Type::Any
        | Type::Text
        | Type::OneOf(_)
        | Type::Whole
        | Type::Time
        | Type::Number
        | Type::Flag
        | Type::Null
        | Type::Rules(_) => {}
    }
}

/// Returns the page as HTML, without external resources.
pub fn html(routes: &[Documented]) -> String {
    let mut page = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Weft: the HTTP API</title><style>\
        body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
        table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2rem .5rem;text-align:left;vertical-align:top}\
        code{background:#f3f3f3;padding:0 .2rem}h3{margin-top:2rem}</style></head><body>"
        .to_owned();
    let mut in_table = false;
    for line in markdown(routes).lines() {
        let is_row = line.starts_with('|');
        if in_table && !is_row {
            page.push_str("</table>");
        }
        if is_row && !in_table {
            page.push_str("<table>");
        }
        in_table = is_row;
        let _ = match line.split_once(' ') {
            _ if is_row && line.starts_with("|---") => Ok(()),
            _ if is_row => {
                let cells =
                    line.trim_matches('|').split('|').map(|cell| format!("<td>{}</td>", inline(cell.trim())));
                write!(page, "<tr>{}</tr>", cells.collect::<String>())
            }
            Some((marks @ ("#" | "##" | "###"), title)) => {
                let (level, id) = (marks.len(), title.to_lowercase());
                let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
                write!(page, "<h{level} id=\"{id}\">{}</h{level}>", inline(title))
            }
            _ if line.is_empty() => Ok(()),
            _ => write!(page, "<p>{}</p>", inline(line)),
        };
    }
    if in_table {
        page.push_str("</table>");
    }
    page.push_str("</body></html>");
    page
}

/// Renders code and links within a line.
fn inline(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let mut out = String::new();
    for (place, part) in escaped.split('`').enumerate() {
        match place % 2 {
            0 => out.push_str(&linked(part)),
            _ => {
                let _ = write!(out, "<code>{part}</code>");
            }
        }
    }
    out
}

/// Replaces `[name](#place)` by a link.
fn linked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((name, end)) = after.split_once("](#") else { break };
        let Some((place, more)) = end.split_once(')') else { break };
        let _ = write!(out, "{before}<a href=\"#{place}\">{name}</a>");
        rest = more;
    }
    out.push_str(rest);
    out
}
