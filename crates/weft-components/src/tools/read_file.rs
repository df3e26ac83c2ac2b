//! The ReadFile component: returns the text of a file below the root of the files, or some of its lines.

use weft_core::effect::Delivery;
use weft_core::seam::workspace;
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, Outputs, ParamProblem, Reads, Result, Role,
    Shape, Template, ToolSpec, Value, async_trait,
};

use crate::params::{self, Field, Kind, Params, fields, pointer};

const LINE: Kind = Kind::Whole { min: 1, max: i64::MAX };
static PATH: Field<Template> = Field::template("path", "the path of the file, relative to the file root")
    .by_model("the file, relative, such as notes/today.md");
static FROM: Field<Template> =
    Field::template("from", "the first line, counted from 1; the beginning of the file if absent")
        .by_model_if_wanted("the first line, counted from 1")
        .as_model_kind(LINE);
static TO: Field<Template> = Field::template("to", "the last line; the end of the file if absent")
    .by_model_if_wanted("the last line")
    .as_model_kind(LINE);
static RANGES: Field = Field::raw("ranges", Kind::List, "`[from, to]`, instead of these two parameters");
static LINE_NUMBERS: Field<bool> = Field::flag("line_numbers", "whether to prefix each line with its number");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "ReadFile",
    role: Role::Step,
    summary: "Reads a text file, or some of its lines. Paths are relative, such as `notes/today.md`.",
    fields: &[fields(&[&PATH, &FROM, &TO, &RANGES, &LINE_NUMBERS])],
    outputs: &[
        weft_core::OutputSpec::new("content", "string", "the lines of the file"),
        weft_core::OutputSpec::new("lines", "integer", "the number of lines in the file"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "read_file", idempotent: true, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let path = params.take(&PATH);
        let [first, last] = match params.get(&RANGES) {
            Some(Json::Array(pair)) if !pair.is_empty() => ranges(&mut params, pair),
            _ => [params.take(&FROM), params.take(&TO)],
        };
        for (key, line) in [("from", &first), ("to", &last)] {
            // The value of a reference is checked at run time.
            if line.references().next().is_none() && number(line.source(), key).is_err() {
                let message = format!("`{}` is not the number of a line", line.source());
                params.problem(ParamProblem::new(pointer(&[key]), message).help("lines are counted from 1"));
            }
        }
        let numbered = params.take(&LINE_NUMBERS);
        params.finish(ReadFile { path, first, last, numbered })
    },
};

struct ReadFile {
    path: Template,
    first: Template,
    last: Template,
    numbered: bool,
}

/// Returns the problem of a node's path, as far as it is known before it runs.
pub(super) fn path_problem(field: &Field<Template>, path: &Template) -> Option<ParamProblem> {
    // Remaining braces are a mistyped reference, which is reported as such.
    if path.references().next().is_some() || path.source().contains(['{', '}']) {
        return None;
    }
    let so = "there is no file to use, and the node fails";
    params::unfilled(field, path, so, "name a file, such as `notes/today.md`").or_else(|| {
        let Error { message, help, .. } = workspace::names(path.source().trim()).err()?;
        let problem = ParamProblem::new(pointer(&[field.name()]), format!("{message}: the node fails"));
        Some(match help {
            Some(help) => problem.help(help),
            None => problem,
        })
    })
}

fn ranges(params: &mut Params<'_>, pair: &[Json]) -> [Template; 2] {
    let names = params.source.names();
    match pair {
        [first, last] => [first, last].map(|line| Template::parse_value(&to_text(line), names)),
        _ => {
            let problem = ParamProblem::new("/ranges", format!("has {} entries", pair.len()));
            params.problem(problem.help("write two numbers: the first line and the last"));
            [Template::default(), Template::default()]
        }
    }
}

/// Parses a line number; `None` if the text is empty.
fn number(text: &str, what: &str) -> Result<Option<usize>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(line) if line > 0 => Ok(Some(line)),
        _ => Err(Error::invalid(format!("`{what}` is `{text}`, which is not the number of a line"))
            .help("lines are counted from 1")),
    }
}

/// Returns these lines, including their line ends.
fn lines(text: &str, first: Option<usize>, last: Option<usize>) -> Result<Vec<(usize, &str)>> {
    let first = first.unwrap_or(1);
    let last = last.unwrap_or(usize::MAX);
    if first > last {
        return Err(Error::invalid(format!("`from` is {first} and `to` is {last}")).help("swap the two"));
    }
    let all: Vec<_> = (1..).zip(text.split_inclusive('\n')).collect();
    // An empty file can be read from its first line on, too.
    if first > all.len().max(1) {
        let message = format!("there is no line {first}: the file has {} lines", all.len());
        return Err(Error::invalid(message));
    }
    Ok(all.into_iter().skip(first - 1).take_while(|(line, _)| *line <= last).collect())
}

#[async_trait]
impl Component for ReadFile {
    fn shape(&self) -> Shape {
        let texts = [&self.path, &self.first, &self.last];
        Shape {
            reads: Reads::always(texts.into_iter().flat_map(Template::references).cloned()),
            main_output: "content",
            unfilled: path_problem(&PATH, &self.path).into_iter().collect(),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let path = self.path.render(&ctx.inputs)?;
        let first = number(&self.first.render(&ctx.inputs)?, "from")?;
        let last = number(&self.last.render(&ctx.inputs)?, "to")?;
        // Only what was requested is stored with the run.
        let read = async {
            let text = ctx.run.seams.workspace.read(&ctx.run.tenant, path.trim()).await?;
            let chosen = lines(&text, first, last)?;
            let content: String = if self.numbered {
                chosen.iter().map(|(number, line)| format!("{number:>6}\t{line}")).collect()
            } else {
                chosen.iter().map(|(_, line)| *line).collect()
            };
            Ok((content, text.split_inclusive('\n').count()))
        };
        let question = ctx.effects.question("file", &(path.trim(), first, last, self.numbered));
        let ((content, count), _) = ctx.effect_asking("file", Delivery::Idempotent, question, read).await?;
        let mut outputs = Outputs::of("content", Value::text(content));
        outputs.set("lines", Json::from(count));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage};
    use serde_json::{Value as Json, json};
    use weft_core::{ErrorKind, Result, TenantId};

    async fn read(params: Json) -> Result<Json> {
        let node = Node::new("ReadFile", params);
        let component = node.build();
        let stage = Stage::new(&node, &*component, Setting::values([("Agent:A@n", json!(2))]));
        let files = &stage.ctx.run.seams.workspace;
        files.write(&stage.ctx.run.tenant, "a/b.txt", "one\ntwo\r\nthree").await.unwrap();
        files.write(&stage.ctx.run.tenant, "empty", "").await.unwrap();
        files.write(&TenantId::new("other"), "theirs", "x").await.unwrap();
        component.run(&stage.ctx).await.map(|finished| json!(finished.outputs))
    }

    #[tokio::test]
    async fn a_file_is_read_whole_or_by_lines() {
        let check = async |params: Json, expected: &str| {
            assert_eq!(read(params.clone()).await.unwrap()["content"], expected, "{params}");
        };
        check(json!({"path": "a/b.txt"}), "one\ntwo\r\nthree").await;
        check(json!({"path": " ./a/b.txt ", "from": 2, "to": 2}), "two\r\n").await;
        check(json!({"path": "a/b.txt", "from": "{Agent:A@n}"}), "two\r\nthree").await;
        check(json!({"path": "a/b.txt", "ranges": [1, 2]}), "one\ntwo\r\n").await;
        check(json!({"path": "a/b.txt", "to": "99", "from": 3, "line_numbers": true}), "     3\tthree").await;
        check(json!({"path": "empty"}), "").await;
        assert_eq!(read(json!({"path": "a/b.txt", "to": 1})).await.unwrap()["lines"], 3);
    }

    #[tokio::test]
    async fn unreadable_files_are_refused() {
        let check = async |params: Json, kind: ErrorKind| {
            assert_eq!(read(params.clone()).await.unwrap_err().kind, kind, "{params}");
        };
        check(json!({"path": "../t/a/b.txt"}), ErrorKind::Denied).await;
        check(json!({"path": "/etc/passwd"}), ErrorKind::Denied).await;
        check(json!({"path": "theirs"}), ErrorKind::NotFound).await;
        check(json!({}), ErrorKind::Invalid).await;
        check(json!({"path": "a/b.txt", "from": 4}), ErrorKind::Invalid).await;
        check(json!({"path": "a/b.txt", "from": 3, "to": 2}), ErrorKind::Invalid).await;
        check(json!({"path": "a/b.txt", "from": "{sys.query}", "to": "{Agent:A@none}x"}), ErrorKind::Invalid)
            .await;
        assert_eq!(Node::new("ReadFile", json!({"from": 0, "to": "x"})).problems(), ["/from", "/to"]);
        assert_eq!(Node::new("ReadFile", json!({"ranges": [1]})).problems(), ["/ranges"]);
    }
}
