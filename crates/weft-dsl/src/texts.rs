//! Finds in the texts of a node what looks like a reference and is none: braces that are not closed, and the short names
//! of an Iteration outside of one.

use weft_core::Json;
use weft_core::reference::Names;

use crate::build::Builder;
use crate::canvas::CanvasNode;
use crate::problem::{Problem, Problems, join};

/// The short names of what an Iteration gives its body. `{result}` is a word that texts use for other things.
const OF_AN_ITEM: [&str; 2] = ["item", "index"];

/// A text of another language: braces mean something else there.
fn is_program(node: &CanvasNode, key: &str) -> bool {
    node.kind == "CodeExec" && key == "script"
}

/// Reports what is wrong in the texts of a node.
pub fn check(builder: &Builder<'_>, node: &CanvasNode, problems: &mut Problems) {
    let (names, iterates) = (builder.names(node), builder.iterates());
    for (key, value) in node.params.iter().filter(|(key, _)| !is_program(node, key)) {
        let mut texts = Texts { node, names, iterates, problems };
        texts.of(value, &join(&node.place.params, key));
    }
}

struct Texts<'a> {
    node: &'a CanvasNode,
    names: Names<'a>,
    /// Whether there is an Iteration in the canvas.
    iterates: bool,
    problems: &'a mut Problems,
}

impl Texts<'_> {
    fn of(&mut self, value: &Json, pointer: &str) {
        match value {
            Json::String(text) => self.text(text, pointer),
            Json::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| self.of(item, &join(pointer, index)));
            }
            Json::Object(members) => {
                members.iter().for_each(|(key, member)| self.of(member, &join(pointer, key)));
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn text(&mut self, text: &str, pointer: &str) {
        // A parameter that is nothing but a reference needs no braces, whole or not.
        let bare = text.trim_matches(|c: char| c == '{' || c == '}' || c.is_whitespace());
        let is_whole = |reference: &str| reference == bare;
        let unclosed = unclosed(text, self.names).filter(|reference| !is_whole(reference));
        if let Some(reference) = unclosed {
            let message = format!("`{{{reference}` is not closed: it is taken for text");
            let problem = Problem::warning("unclosed-reference", pointer, message);
            let problem = problem.help(format!("write `{{{reference}}}`"));
            self.problems.add(problem.about(&self.node.id, &self.node.name));
        }
        // In Jinja `item` is as good a name as any.
        if self.names.item.is_some() || !self.iterates || text.contains("{%") || text.contains("{{") {
            return;
        }
        if let Some(name) = OF_AN_ITEM.into_iter().find(|name| text.contains(&format!("{{{name}}}"))) {
            let message = format!("`{{{name}}}` is taken for text: this component is in no Iteration");
            let problem = Problem::warning("outside-iteration", pointer, message)
                .help("put the component into the Iteration, or refer to an output of the Iteration");
            self.problems.add(problem.about(&self.node.id, &self.node.name));
        }
    }
}

/// The first reference to a component of this canvas whose brace is not closed. Looks at each character a few times at most.
fn unclosed<'t>(text: &'t str, names: Names<'_>) -> Option<&'t str> {
    let of_id = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '-');
    let of_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    // What is between one brace and the next; behind two of them an expression may go on after the reference.
    let mut before = "x";
    text.split('{').skip(1).find_map(|rest| {
        let expression = std::mem::replace(&mut before, rest).is_empty() && rest.contains("}}");
        let rest = rest.trim_start_matches(' ');
        let id_end = rest.find(|c: char| !of_id(c))?;
        let path = rest[id_end..].strip_prefix('@')?;
        if !names.components.contains(&rest[..id_end]) {
            return None;
        }
        let path_end = path.find(|c: char| !of_path(c)).unwrap_or(path.len());
        let closed = path[path_end..].trim_start_matches(' ').starts_with('}');
        (!closed && !expression && path_end > 0).then(|| rest[..id_end + 1 + path_end].trim_end_matches('.'))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn braces_are_closed_or_not() {
        let components: HashSet<_> = ["Agent:A".into(), "b".into()].into();
        let names = Names { components: &components, item: None };
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(unclosed(text, names), expected, "{text}");
        check("{Agent:A@content}", None);
        check("{{ Agent:A@content }}", None);
        check("{{ Agent:A@content.upper() }} {{Agent:A@n|length}}", None);
        check("{{ Agent:A@content | upper", Some("Agent:A@content"));
        check("{Agent:A@content", Some("Agent:A@content"));
        check("so {Agent:A@content. And {b@x}", Some("Agent:A@content"));
        check("{b@x} {Agent:A@a.b.0 and more", Some("Agent:A@a.b.0"));
        check("{somebody@example.org", None);
        check("{\"a\": \"b@x\"}", None);
        check("{Agent:A@", None);
        check("{{{", None);
    }
}
