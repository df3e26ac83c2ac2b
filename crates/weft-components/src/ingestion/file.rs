//! The File component: where an ingestion pipeline starts.

use weft_core::pipeline::PipelineDocument;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, OutputSpec, Reads, Reference, Result, Role,
    Shape, async_trait,
};

use crate::artifact;
use crate::ingestion::passed::{self, DOCUMENT_OUTPUT};
use crate::params::Params;

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "File",
    role: Role::Entry,
    summary: "Starts an ingestion pipeline with a document.",
    fields: &[],
    outputs: &[
        DOCUMENT_OUTPUT,
        OutputSpec::new("name", "string", "the name of the file"),
        OutputSpec::new("file", "object", "the file itself: its id, name, media type and size"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| Params::of(source).finish(File),
};

struct File;

fn files() -> Reference {
    Reference::Global("sys.files".into())
}

#[async_trait]
impl Component for File {
    fn shape(&self) -> Shape {
        Shape { reads: Reads::always([files()]), main_output: "name", ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let given = ctx.inputs.json(&files());
        let is_picture = |file: &Json| file.as_str().is_some_and(|text| text.starts_with("data:"));
        // Attached pictures are passed as bytes and have no id.
        if given.as_array().is_some_and(|files| files.iter().any(is_picture)) {
            return Err(Error::invalid("a picture has no text for a pipeline to read")
                .help("convert it to text first, or pass it to a vision model"));
        }
        let ids = artifact::readable(ctx, &given)?;
        let [id] = ids.as_slice() else {
            let message = match ids.len() {
                0 => "no file was given to the pipeline".to_owned(),
                count => format!("{count} files were given to the pipeline, which takes one at a time"),
            };
            return Err(Error::invalid(message).help(
                "choose the pipeline in the settings of a dataset and ingest its documents, or attach one file to a run",
            ));
        };
        let file = ctx.run.seams.files.find(&ctx.run.tenant, id).await?;
        artifact::check_readable(ctx, &file)?;
        let document = PipelineDocument::new(file.id.clone(), file.name.clone());
        let mut finished = passed::finished(&document, None)?;
        finished.outputs.set("name", weft_core::Value::text(file.name.clone()));
        finished.outputs.set(
            "file",
            serde_json::json!({"id": file.id, "name": file.name, "mime_type": file.mime_type, "size": file.size}),
        );
        Ok(finished)
    }
}
