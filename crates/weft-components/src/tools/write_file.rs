//! The WriteFile component: writes a text to a file below the root of the files. A file is replaced as a whole or not
//! at all.

use weft_core::effect::Delivery;
use weft_core::{
    Component, ComponentSpec, Finished, NodeContext, Outputs, Reads, Result, Role, Shape, Template, ToolSpec,
    Value, async_trait,
};

use crate::params::{Field, Params, Widget, fields};
use crate::tools::read_file::path_problem;

static PATH: Field<Template> = Field::template("path", "the path of the file, relative to the file root")
    .by_model("the file, relative, such as notes/today.md");
static CONTENT: Field<Template> =
    Field::template("content", "the text").widget(Widget::Lines).by_model("the whole text");
static APPEND: Field<bool> =
    Field::flag("append", "whether to append to the file instead of replacing its content")
        .by_model_if_wanted("add to the end instead of replacing what is there");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "WriteFile",
    role: Role::Step,
    summary: "Writes a text file, or appends to it. Paths are relative, such as `notes/today.md`.",
    fields: &[fields(&[&PATH, &CONTENT, &APPEND])],
    outputs: &[
        weft_core::OutputSpec::new("result", "string", "a description of what was written"),
        weft_core::OutputSpec::new("existed", "boolean", "whether the file existed before"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec {
        function: "write_file",
        // Appending the same text twice is not the same as once.
        idempotent: false,
        sources: false,
    }),
    build: |source| {
        let mut params = Params::of(source);
        let path = params.take(&PATH);
        let content = params.take(&CONTENT);
        let append = params.take(&APPEND);
        params.finish(WriteFile { path, content, append })
    },
};

struct WriteFile {
    path: Template,
    content: Template,
    append: bool,
}

#[async_trait]
impl Component for WriteFile {
    fn shape(&self) -> Shape {
        let reads = Reads::always(self.path.references().chain(self.content.references()).cloned());
        let unfilled = path_problem(&PATH, &self.path).into_iter().collect();
        Shape { reads, main_output: "result", unfilled, ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let path = self.path.render(&ctx.inputs)?;
        // Models end a path with a line break, which a file system would take for part of the name.
        let path = path.trim();
        // A file is stored, and read by others: it must not contain secrets.
        let text = ctx.run.masks.text(&self.content.render(&ctx.inputs)?).into_owned();
        let (files, tenant) = (&ctx.run.seams.workspace, &ctx.run.tenant);
        // Writing twice leaves the same content; appending twice does not.
        let (call, again, done) = if self.append {
            (files.append(tenant, path, &text), Delivery::AtMostOnce, "added to")
        } else {
            (files.write(tenant, path, &text), Delivery::Idempotent, "replaced")
        };
        let question = ctx.effects.question("file", &(path, &text, self.append));
        let (existed, _) = ctx.effect_asking("file", again, question, call).await?;
        let done = if existed { done } else { "made" };
        let result = format!("{done} `{path}` with {} bytes", text.len());
        let mut outputs = Outputs::of("result", Value::text(result));
        outputs.set("existed", serde_json::Value::from(existed));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage};
    use serde_json::json;
    use weft_core::ErrorKind;

    #[tokio::test]
    async fn a_file_is_created_replaced_and_appended_to() {
        let node = |append: bool| {
            let params = json!({"path": "{Agent:A@p}", "content": "<{sys.query}>\n", "append": append});
            Node::new("WriteFile", params)
        };
        let component = node(false).build();
        let setting = Setting { query: "q", ..Setting::values([("Agent:A@p", json!("a/b"))]) };
        let stage = Stage::new(&node(false), &*component, setting);
        let run = async |append: bool| {
            let finished = node(append).build().run(&stage.ctx).await.unwrap();
            let text = stage.ctx.run.seams.workspace.read(&stage.ctx.run.tenant, "a/b").await.unwrap();
            (json!(finished.outputs)["result"].clone(), text)
        };
        assert_eq!(run(false).await, (json!("made `a/b` with 4 bytes"), "<q>\n".to_owned()));
        assert_eq!(run(true).await, (json!("added to `a/b` with 4 bytes"), "<q>\n<q>\n".to_owned()));
        assert_eq!(run(false).await, (json!("replaced `a/b` with 4 bytes"), "<q>\n".to_owned()));
    }

    #[tokio::test]
    async fn paths_outside_the_root_are_refused() {
        for path in ["../x", "/tmp/x"] {
            let node = Node::new("WriteFile", json!({"path": path, "content": "x"}));
            let error = crate::testing::failure(&node, Setting::default()).await;
            assert_eq!(error.kind, ErrorKind::Denied);
        }
    }
}
