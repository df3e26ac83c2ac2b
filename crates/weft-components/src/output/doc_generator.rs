//! The DocGenerator component: creates a document from a Markdown text.

use std::sync::Arc;

use weft_core::effect::Delivery;
use weft_core::field::AnyField;
use weft_core::seam::document_writer::{DocumentContent, DocumentFormat, PageSettings, WriteRequest};
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, NodeSource, OutputSpec, Outputs,
    ParamProblem, Reads, Result, Role, Shape, Template, Value, async_trait,
};

use crate::artifact;
use crate::params::{Field, FieldGroup, Kind, Params, choice};
use crate::passages::with_sources;
use crate::text::without_thinking;

/// Font sizes, in points.
const SIZE_MIN: usize = 6;
const SIZE_MAX: usize = 72;

static CONTENT: Field<Template> = Field::template("content", "the text in Markdown, with references")
    .by_model("the text of the document in Markdown");
static OUTPUT_FORMAT: Field<String> = Field::text("output_format", "the file format").or("pdf").one_of(&[
    choice("pdf", ""),
    choice("docx", ""),
    choice("xlsx", "the tables of the text, one per sheet"),
    choice("html", ""),
    choice("markdown", ""),
    choice("txt", ""),
    choice("csv", "the first table of the text"),
]);
static FILENAME: Field<Template> = Field::template("filename", "the name of the file")
    .by_model_if_wanted("the name of the file, without an ending");
static TITLE: Field<Template> =
    Field::template("title", "a heading above the text, also used as the title in the file's metadata");
static SUBTITLE: Field<Template> = Field::template("subtitle", "a line below the title");
static HEADER_TEXT: Field<Template> = Field::template("header_text", "text at the top of every page");
static FOOTER_TEXT: Field<Template> = Field::template("footer_text", "text at the bottom of every page");
static WATERMARK_TEXT: Field<Template> = Field::template("watermark_text", "the watermark across every page");
static ADD_PAGE_NUMBERS: Field<bool> =
    Field::flag("add_page_numbers", "whether to number the pages").on_by_default();
static ADD_TIMESTAMP: Field<bool> =
    Field::flag("add_timestamp", "whether to include the creation time").on_by_default();
static FONT_SIZE: Field<usize> =
    Field::count("font_size", 12, &(SIZE_MIN..=SIZE_MAX), "the font size of the text").unit("points");
static ORIENTATION: Field<&str> = Field::choice(
    "orientation",
    "portrait",
    &[choice("portrait", ""), choice("landscape", "")],
    "the page orientation",
);
static IN_CONTENT: Field<bool> = Field::flag(
    "include_download_info_in_content",
    "whether a message that shows `download` shows it as text instead of as a file",
);

/// Parameters of PDFGenerator, the name of this component in older canvases: fonts and margins, the location of the
/// file, and a logo.
const fn without_effect(name: &'static str) -> Field {
    Field::raw(name, Kind::Any, "has no effect").not_offered()
}

static LOGO_IMAGE: Field = without_effect("logo_image");
static LOGO_POSITION: Field = without_effect("logo_position");
static LOGO_WIDTH: Field = without_effect("logo_width");
static LOGO_HEIGHT: Field = without_effect("logo_height");
static FONT_FAMILY: Field = without_effect("font_family");
static TITLE_FONT_SIZE: Field = without_effect("title_font_size");
static HEADING1_FONT_SIZE: Field = without_effect("heading1_font_size");
static HEADING2_FONT_SIZE: Field = without_effect("heading2_font_size");
static HEADING3_FONT_SIZE: Field = without_effect("heading3_font_size");
static TEXT_COLOR: Field = without_effect("text_color");
static TITLE_COLOR: Field = without_effect("title_color");
static PAGE_SIZE: Field = without_effect("page_size");
static MARGIN_TOP: Field = without_effect("margin_top");
static MARGIN_BOTTOM: Field = without_effect("margin_bottom");
static MARGIN_LEFT: Field = without_effect("margin_left");
static MARGIN_RIGHT: Field = without_effect("margin_right");
static LINE_SPACING: Field = without_effect("line_spacing");
static OUTPUT_DIRECTORY: Field = without_effect("output_directory");
static ENABLE_TOC: Field = without_effect("enable_toc");

static LEGACY: [&'static dyn AnyField; 19] = [
    &LOGO_IMAGE,
    &LOGO_POSITION,
    &LOGO_WIDTH,
    &LOGO_HEIGHT,
    &FONT_FAMILY,
    &TITLE_FONT_SIZE,
    &HEADING1_FONT_SIZE,
    &HEADING2_FONT_SIZE,
    &HEADING3_FONT_SIZE,
    &TEXT_COLOR,
    &TITLE_COLOR,
    &PAGE_SIZE,
    &MARGIN_TOP,
    &MARGIN_BOTTOM,
    &MARGIN_LEFT,
    &MARGIN_RIGHT,
    &LINE_SPACING,
    &OUTPUT_DIRECTORY,
    &ENABLE_TOC,
];

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "DocGenerator",
    role: Role::Step,
    summary: "Creates a document (PDF, Word, Excel, HTML, Markdown, text) from Markdown.",
    fields: &[
        FieldGroup {
            title: "",
            fields: &[&CONTENT, &OUTPUT_FORMAT, &FILENAME, &TITLE, &SUBTITLE, &IN_CONTENT],
        },
        FieldGroup {
            title: "Page layout",
            fields: &[
                &HEADER_TEXT,
                &FOOTER_TEXT,
                &WATERMARK_TEXT,
                &ADD_PAGE_NUMBERS,
                &ADD_TIMESTAMP,
                &FONT_SIZE,
                &ORIENTATION,
            ],
        },
        FieldGroup { title: "Obsolete", fields: &LEGACY },
    ],
    outputs: &[
        OutputSpec::new("doc_id", "string", "the file's id"),
        OutputSpec::new("filename", "string", "its name"),
        OutputSpec::new("mime_type", "string", "its media type"),
        OutputSpec::new("size", "integer", "its size in bytes"),
        OutputSpec::new("download", "string", "the download as JSON text; a message shows it as a file"),
        OutputSpec::new("success", "boolean", "whether it was created"),
    ],
    time_limit: None,
    measuring_only: false,
    // The id of the file is derived from the work, so that repeating it creates the same file.
    tool: Some(weft_core::ToolSpec { function: "generate_document", idempotent: true, sources: false }),
    build,
};

fn build(source: &NodeSource<'_>) -> Result<Arc<dyn Component>, Vec<ParamProblem>> {
    let mut params = Params::of(source);
    for field in LEGACY {
        // Editors write all of them at every node, so that only the one that users would miss is reported.
        let _ = params.get(field);
    }
    params.ignored(&LOGO_IMAGE, "logos are not supported");
    let content = params.take(&CONTENT);
    if content.source().trim().is_empty() {
        let problem = ParamProblem::new("/content", "there is no text for the document");
        params.problem(problem.help("add a text, such as `{Agent:Writer@content}`"));
    }
    let name = params.take(&OUTPUT_FORMAT);
    let format = DocumentFormat::named(&name).unwrap_or_else(|| {
        let problem = ParamProblem::new("/output_format", format!("`{name}` is not a supported format"));
        params.problem(problem.help("use pdf, docx, xlsx, html, markdown, txt or csv"));
        DocumentFormat::Pdf
    });
    let generator = DocGenerator {
        content,
        format,
        filename: params.take(&FILENAME),
        title: params.take(&TITLE),
        subtitle: params.take(&SUBTITLE),
        header: params.take(&HEADER_TEXT),
        footer: params.take(&FOOTER_TEXT),
        watermark: params.take(&WATERMARK_TEXT),
        page_numbers: params.take(&ADD_PAGE_NUMBERS),
        timestamp: params.take(&ADD_TIMESTAMP),
        font_size: params.take(&FONT_SIZE),
        landscape: params.take(&ORIENTATION) == "landscape",
        in_content: params.take(&IN_CONTENT),
        warnings: params.warnings(),
    };
    params.finish(generator)
}

struct DocGenerator {
    content: Template,
    format: DocumentFormat,
    filename: Template,
    title: Template,
    subtitle: Template,
    header: Template,
    footer: Template,
    watermark: Template,
    page_numbers: bool,
    timestamp: bool,
    font_size: usize,
    landscape: bool,
    in_content: bool,
    warnings: Vec<ParamProblem>,
}

impl DocGenerator {
    fn texts(&self) -> [&Template; 7] {
        let Self { content, filename, title, subtitle, header, footer, watermark, .. } = self;
        [content, filename, title, subtitle, header, footer, watermark]
    }

    async fn request(&self, ctx: &NodeContext) -> Result<WriteRequest> {
        // A line break in a title would end the heading that it becomes.
        let line =
            |template: &Template| Ok::<_, Error>(template.render(&ctx.inputs)?.trim().replace('\n', " "));
        let title = line(&self.title)?;
        let subtitle = line(&self.subtitle)?;
        let mut text = String::new();
        if !title.is_empty() {
            text.push_str(&format!("# {title}\n\n"));
        }
        if !subtitle.is_empty() {
            text.push_str(&format!("*{subtitle}*\n\n"));
        }
        // Reasoning is not part of a document.
        let content = without_thinking(&self.content.render(&ctx.inputs)?);
        if content.trim().is_empty() {
            return Err(Error::invalid("there is no text for the document: `content` is empty")
                .help("check the values of its references; bypass this node if there is nothing to write"));
        }
        text.push_str(&with_sources(content, self.format, &ctx.run.citations));
        let timestamp = if self.timestamp { when(ctx).await? } else { String::new() };
        let page = PageSettings {
            title,
            header: line(&self.header)?,
            footer: line(&self.footer)?,
            watermark: line(&self.watermark)?,
            page_numbers: self.page_numbers,
            timestamp,
            font_size: u32::try_from(self.font_size).unwrap_or_default(),
            landscape: self.landscape,
        };
        Ok(WriteRequest { format: self.format, content: DocumentContent::Markdown(text), page })
    }
}

/// Returns the time of the run, which stays the same when the work is repeated.
async fn when(ctx: &NodeContext) -> Result<String> {
    let now = ctx.effect("clock", Delivery::Idempotent, async { Ok(ctx.run.seams.clock.now_ms()) }).await?.0;
    let time = jiff::Timestamp::from_millisecond(now)
        .map_err(|cause| Error::internal("the system clock is wrong").because(cause))?;
    Ok(time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

#[async_trait]
impl Component for DocGenerator {
    fn shape(&self) -> Shape {
        Shape {
            reads: Reads::always(self.texts().into_iter().flat_map(Template::references).cloned()),
            main_output: "download",
            warnings: self.warnings.clone(),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let request = self.request(ctx).await?;
        let name = self.filename.render(&ctx.inputs)?;
        let name = if name.trim().is_empty() { ctx.name.to_string() } else { name };
        let file = artifact::made(ctx, &name, &request).await?;
        let mut download = artifact::download(&file);
        if self.in_content {
            // Tells a Message that the value is to be shown as text.
            download["include_download_info_in_content"] = true.into();
        }
        let mut outputs = Outputs::of("download", Value::text(download.to_string()));
        outputs.set("doc_id", Json::from(file.id.as_str()));
        outputs.set("filename", Json::from(file.name));
        outputs.set("mime_type", Json::from(file.mime_type));
        outputs.set("size", Json::from(file.size));
        outputs.set("success", Json::from(true));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value as Json, json};
    use weft_core::seam::FileStore as _;
    use weft_testkit::MemoryFiles;

    use crate::testing::{Node, Setting, Stage, failure, outputs};

    fn setting(files: &Arc<MemoryFiles>, values: impl IntoIterator<Item = (&'static str, Json)>) -> Setting {
        let files = Arc::clone(files);
        let change = move |seams: &mut weft_core::seam::Seams| {
            seams.files = files;
            seams.documents = Arc::new(crate::testing::PlainDocuments);
        };
        Setting { seams: Some(Box::new(change)), ..Setting::values(values) }
    }

    #[tokio::test]
    async fn a_text_becomes_a_downloadable_file() {
        let files = Arc::new(MemoryFiles::default());
        let params = json!({"content": "<think>no</think>Of {Agent:A@topic}", "output_format": "PDF", "title": "T",
            "filename": "../{Agent:A@topic}", "font_size": "14", "orientation": "landscape", "add_timestamp": true});
        let found =
            outputs(&Node::new("DocGenerator", params), setting(&files, [("Agent:A@topic", json!("looms"))]))
                .await;
        let kept = files.all().pop().unwrap();
        assert_eq!((kept.name.as_str(), kept.mime_type.as_str()), ("looms.pdf", "application/pdf"));
        assert_eq!(kept.session.as_ref().unwrap().as_str(), "s");
        let (_, bytes) = files.read(&"t".into(), &kept.id).await.unwrap();
        let written: Json = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(written["content"]["markdown"], "# T\n\nOf looms");
        assert_eq!(
            written["page"],
            json!({"title": "T", "header": "", "footer": "", "watermark": "",
            "page_numbers": true, "timestamp": "1970-01-01 00:00 UTC", "font_size": 14, "landscape": true})
        );
        let download: Json = serde_json::from_str(found["download"].as_str().unwrap()).unwrap();
        assert_eq!(download["url"], format!("/api/v1/agents/attachments/{}/download", kept.id));
        assert_eq!((&found["doc_id"], &found["size"]), (&json!(kept.id), &json!(kept.size)));
    }

    #[tokio::test]
    async fn a_file_lists_the_sources_of_its_marks() {
        let files = Arc::new(MemoryFiles::default());
        let params = json!({"content": "{Agent:A@content}", "output_format": "markdown"});
        let mut setting = setting(&files, [("Agent:A@content", json!("So it is [ID:0]."))]);
        setting.cited =
            vec![weft_core::citation::Chunk { document_name: "law.pdf".to_owned(), ..Default::default() }];
        outputs(&Node::new("DocGenerator", params), setting).await;
        let kept = files.all().pop().unwrap();
        let (_, bytes) = files.read(&"t".into(), &kept.id).await.unwrap();
        let written: Json = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(written["content"]["markdown"], "So it is [ID:0].\n\n## Sources\n\n- [ID:0] law.pdf\n");
    }

    #[tokio::test]
    async fn repeated_work_keeps_one_file() {
        let files = Arc::new(MemoryFiles::default());
        let node = Node::new("DocGenerator", json!({"content": "x", "output_format": "txt"}));
        let component = node.build();
        let mut stage = Stage::new(&node, &*component, setting(&files, []));
        component.run(&stage.ctx).await.unwrap();
        let notes = stage.notes();
        component.run(&stage.again(&notes).ctx).await.unwrap();
        // Even if its record was lost.
        let stage = Stage::new(&node, &*component, setting(&files, []));
        component.run(&stage.ctx).await.unwrap();
        assert_eq!(files.all().len(), 1);
    }

    #[tokio::test]
    async fn no_part_of_a_document_contains_a_secret() {
        let files = Arc::new(MemoryFiles::default());
        let secret = "{Agent:A@key}";
        let node = Node::new(
            "DocGenerator",
            json!({"content": secret, "title": secret, "subtitle": secret, "header_text": secret, "footer_text": secret,
                "watermark_text": secret, "filename": secret, "add_timestamp": false}),
        );
        let component = node.build();
        let stage = Stage::new(&node, &*component, setting(&files, [("Agent:A@key", json!("s3cret-key"))]));
        stage.ctx.run.masks.add("secret.key", &json!("s3cret-key")).unwrap();
        component.run(&stage.ctx).await.unwrap();
        let kept = files.all().pop().unwrap();
        let (_, bytes) = files.read(&"t".into(), &kept.id).await.unwrap();
        let written: Json = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&written["page"]["header"], &written["page"]["title"]), (&json!("***"), &json!("***")));
        assert!(!written.to_string().contains("s3cret") && !kept.name.contains("s3cret"), "{}", kept.name);
    }

    #[tokio::test]
    async fn an_empty_text_makes_no_file() {
        for value in ["", " \n", "<think>only this</think>"] {
            let files = Arc::new(MemoryFiles::default());
            let node = Node::new("DocGenerator", json!({"content": "{Agent:A@content}", "title": "T"}));
            let error = failure(&node, setting(&files, [("Agent:A@content", json!(value))])).await;
            assert_eq!(error.kind, weft_core::ErrorKind::Invalid);
            assert!(error.message.contains("no text") && files.all().is_empty(), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_stored_is_an_error() {
        let files = Arc::new(MemoryFiles::within(10, 10));
        let error = failure(
            &Node::new("DocGenerator", json!({"content": "x", "logo_image": ""})),
            setting(&files, []),
        )
        .await;
        assert_eq!(error.kind, weft_core::ErrorKind::Invalid);
    }

    #[test]
    fn parameters_are_checked() {
        assert_eq!(Node::new("DocGenerator", json!({})).problems(), ["/content"]);
        assert_eq!(
            Node::new("DocGenerator", json!({"content": "x", "output_format": "exe"})).problems(),
            ["/output_format"]
        );
        assert_eq!(
            Node::new("DocGenerator", json!({"content": "x", "font_size": 1})).problems(),
            ["/font_size"]
        );
    }
}
