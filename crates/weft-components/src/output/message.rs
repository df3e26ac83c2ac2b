//! The Message component: shows text to the user, piece by piece while models are still writing it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_core::component::MessageEnd;
use weft_core::context::Signal;
use weft_core::reference::{Inputs, Segment};
use weft_core::rendering::BoundedText;
use weft_core::seam::document_writer::{DocumentContent, DocumentFormat, PageSettings, WriteRequest};
use weft_core::stream::TextWriter;
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, NodeOutputs, OutputSpec, Outputs,
    ParamProblem, Piece, Reads, Result, Role, Shape, SharedText, Template, Value, async_trait,
};

use super::read_aloud::read_aloud;
use super::remember::{MEMORY_IDS, Remembering, USER_ID};
use crate::artifact;
use crate::params::{Field, Params, choice, fields};
use crate::passages::with_sources;
use crate::text::{Text, without_thinking};

/// Maximum time for a text. It is written by other nodes, which have their own limits, as the run does.
const WAITING_MAX: Duration = Duration::from_secs(24 * 3_600);

static CONTENT: Field<Vec<String>> =
    Field::texts("content", "the texts to choose from, with references or as Jinja templates")
        .older(&["messages", "text"]);
static STREAM: Field<bool> =
    Field::flag("stream", "whether to show the text while it is being written").on_by_default();
static STATUS: Field<Option<i64>> = Field::whole("status", "the HTTP status of a webhook's answer");
static OUTPUT_FORMAT: Field<String> =
    Field::text("output_format", "the format of a file to create; none if empty").one_of(&[
        choice("", "none"),
        choice("pdf", ""),
        choice("docx", ""),
        choice("xlsx", "the tables of the text, one per sheet"),
        choice("html", ""),
        choice("markdown", ""),
        choice("txt", ""),
        choice("csv", "the first table of the text"),
    ]);
static AUTO_PLAY: Field<bool> =
    Field::flag("auto_play", "whether to read it aloud, with the default speech model");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Message",
    role: Role::Step,
    summary: "Shows a text to the user.",
    fields: &[fields(&[&CONTENT, &STREAM, &STATUS, &OUTPUT_FORMAT, &AUTO_PLAY, &MEMORY_IDS, &USER_ID])],
    outputs: &[
        OutputSpec::new("content", "string", "the text shown"),
        OutputSpec::new("attachment", "object", "the file created from the text").when_asked_for(),
        OutputSpec::new("downloads", "array", "the files that it shows").when_asked_for(),
    ],
    time_limit: Some(WAITING_MAX),
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let (at, texts) = (params.pointer(&CONTENT), params.take(&CONTENT));
        if texts.is_empty() {
            let problem = ParamProblem::new("/content", "there is no text to show");
            params.problem(problem.help("add a text, such as `{Agent:Writer@content}`"));
        }
        let mut parsed = Vec::new();
        for (place, text) in texts.iter().enumerate() {
            if text.trim().is_empty() {
                let when = if texts.len() > 1 { " when this text is chosen" } else { "" };
                let message = format!("is empty, so nothing is shown{when}");
                let problem = ParamProblem::new(format!("{at}/{place}"), message);
                params.warn(problem.help("enter a text, such as `{Agent:Writer@content}`, or remove it"));
            }
            match Text::parse(text, source, &format!("{at}/{place}")) {
                Ok(text) => {
                    text.doubts(source, &format!("{at}/{place}"))
                        .into_iter()
                        .for_each(|warning| params.warn(warning));
                    parsed.push(text);
                }
                Err(problem) => params.problem(problem),
            }
        }
        // A Jinja template needs all of its values before it writes any text.
        let listens = params.take(&STREAM) && parsed.iter().all(|text| matches!(text, Text::Plain(_)));
        let status = params.take(&STATUS);
        // An answer below 200 is not the final one, which HTTP requires.
        if let Some(other) = status.filter(|status| !(200..=599).contains(status)) {
            let problem = ParamProblem::new(
                params.pointer(&STATUS),
                format!("{other} is not the HTTP status of an answer"),
            );
            params.warn(problem.help("write a number such as 200, or remove it"));
        }
        let format = params.take(&OUTPUT_FORMAT);
        let format = (!format.trim().is_empty()).then(|| {
            DocumentFormat::named(&format).unwrap_or_else(|| {
                // Other products' editors offer names that mean Markdown to them.
                let message =
                    format!("`{}` is not a supported format, so the file is Markdown", format.trim());
                let problem = ParamProblem::new("/output_format", message);
                params.warn(problem.help("use pdf, docx, xlsx, html, markdown, txt or csv"));
                DocumentFormat::Markdown
            })
        });
        let aloud = params.take(&AUTO_PLAY);
        let memory = Remembering::of(&mut params);
        let warnings = params.warnings();
        params.finish(Message { texts: parsed, listens, status, format, aloud, memory, warnings })
    },
};

struct Message {
    texts: Vec<Text>,
    listens: bool,
    status: Option<i64>,
    format: Option<DocumentFormat>,
    aloud: bool,
    memory: Remembering,
    warnings: Vec<ParamProblem>,
}

impl Message {
    /// Emits the text, and records it without reasoning. Values that describe a download are collected instead of
    /// shown.
    async fn say(&self, text: &Text, voice: &mut MessageWriter<'_>, downloads: &mut Vec<Json>) -> Result<()> {
        let template = match text {
            Text::Plain(template) if self.listens => template,
            text => {
                let whole = match text {
                    Text::Plain(template) => in_one_piece(template, &voice.ctx.inputs, downloads)?,
                    Text::Jinja(_) => without_files(text, &voice.ctx.inputs, downloads)?,
                };
                return if whole.is_empty() { Ok(()) } else { voice.piece(Piece::Text(whole.into())).await };
            }
        };
        for segment in template.segments() {
            match segment {
                Segment::Literal(literal) => voice.say(Arc::clone(literal)).await?,
                Segment::Reference(reference) => match voice.ctx.value(reference) {
                    Value::Stream(text) => voice.pipe(&text).await?,
                    value @ (Value::Json(_) | Value::Pending(_)) => {
                        let value = value.settled().await?;
                        match shown_as_files(&value) {
                            Some(files) => downloads.extend(files),
                            None => voice.say_value(&value).await?,
                        }
                    }
                },
            }
        }
        Ok(())
    }

    /// Emits the text, and has it read aloud meanwhile.
    async fn spoken(&self, text: &Text, ctx: &NodeContext, downloads: &mut Vec<Json>) -> Result<String> {
        let mut voice = MessageWriter { ctx, said: String::new(), aloud: None };
        let model = match self.aloud.then(|| ctx.run.seams.models.speech(&ctx.run.tenant, "")) {
            Some(Ok(model)) => Some(model),
            Some(Err(error)) => {
                // The text is shown all the same.
                let warning = format!("the text is not read aloud: {}", error.full());
                ctx.signal(Signal::Warn(warning)).await?;
                None
            }
            None => None,
        };
        let Some(model) = model else {
            self.say(text, &mut voice, downloads).await?;
            return Ok(voice.said);
        };
        let (writer, growing) = SharedText::new();
        voice.aloud = Some(writer);
        let saying = async {
            let said = self.say(text, &mut voice, downloads).await;
            // Otherwise the reader of the text would wait for more.
            if let Some(writer) = voice.aloud.take() {
                writer.finish();
            }
            said
        };
        // Boxed, so that a message that is not read aloud reserves no space for this future.
        Box::pin(futures::future::try_join(saying, read_aloud(ctx, model, growing.read()))).await?;
        Ok(voice.said)
    }
}

/// Renders a text. Values that describe a download are collected instead, as when it is shown piece by piece.
fn in_one_piece(template: &Template, inputs: &Inputs, downloads: &mut Vec<Json>) -> Result<String> {
    let mut text = BoundedText::new(inputs.room());
    for segment in template.segments() {
        match segment {
            Segment::Literal(literal) => text.push(literal)?,
            Segment::Reference(reference) => {
                let value = inputs.json(reference);
                match shown_as_files(&value) {
                    Some(files) => downloads.extend(files),
                    None => text.push_value(&value)?,
                }
            }
        }
    }
    Ok(text.finish())
}

/// Renders a template. A value that describes a download and is written out is collected instead; what the template
/// does with it otherwise, such as a condition, is its own affair.
fn without_files(text: &Text, inputs: &Inputs, downloads: &mut Vec<Json>) -> Result<String> {
    let mut whole = text.render(inputs)?;
    for reference in text.references() {
        let value = inputs.json(&reference);
        let Some(files) = shown_as_files(&value) else { continue };
        let written = to_text(&value);
        if whole.contains(&written) {
            whole = whole.replace(&written, "");
            downloads.extend(files);
        }
    }
    Ok(whole)
}

/// Returns the files that a value describes, unless it asks to be shown as text.
fn shown_as_files(value: &Json) -> Option<Vec<Json>> {
    let files = artifact::downloads(value)?;
    let as_text =
        |file: &Json| file.get("include_download_info_in_content").is_some_and(|flag| *flag == true);
    (!files.iter().any(as_text)).then_some(files)
}

/// The output of a message while it is being emitted.
struct MessageWriter<'a> {
    ctx: &'a NodeContext,
    /// The text so far, without reasoning.
    said: String,
    /// Where it is sent to be read aloud.
    aloud: Option<TextWriter>,
}

impl MessageWriter<'_> {
    async fn say(&mut self, text: Arc<str>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.ctx.inputs.room().take(text.len())?;
        self.piece(Piece::Text(text)).await
    }

    async fn piece(&mut self, piece: Piece) -> Result<()> {
        if let Piece::Text(text) = &piece {
            self.said.push_str(text);
        }
        self.ctx.say(piece.clone()).await?;
        if let Some(aloud) = &self.aloud {
            aloud.push(piece);
        }
        Ok(())
    }

    /// Emits the text form of a value.
    async fn say_value(&mut self, value: &Json) -> Result<()> {
        // Its size is counted only once, when it is emitted.
        let room = self.ctx.inputs.room().afresh();
        let mut text = BoundedText::new(&room);
        text.push_value(value)?;
        self.say(text.finish().into()).await
    }

    /// Forwards a text that is still being written. If it fails, so does the message, after what was already emitted.
    async fn pipe(&mut self, text: &SharedText) -> Result<()> {
        let mut reader = text.read();
        // While this message is held back, none of it has been read: the model may still be asked again.
        if reader.ready().await {
            self.ctx.may_speak().await?;
        }
        while let Some(piece) = reader.next().await? {
            if let Piece::Text(text) = &piece {
                self.ctx.inputs.room().take(text.len())?;
            }
            self.piece(piece).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Component for Message {
    fn shape(&self) -> Shape {
        let alternatives = self.texts.iter().map(Text::references).collect();
        Shape {
            reads: Reads { always: self.memory.references().cloned().collect(), alternatives },
            listens: self.listens,
            aloud: self.aloud.then_some("/auto_play"),
            main_output: "content",
            outputs: NodeOutputs::named(self.format.map(|_| "attachment").into_iter().chain(["downloads"])),
            memories: self.memory.named(),
            warnings: self.warnings.clone(),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let Some(text) = self.texts.get(ctx.alternative) else {
            return Err(Error::internal(format!("the Message node has no text number {}", ctx.alternative)));
        };
        let mut downloads = Vec::new();
        let said = self.spoken(text, ctx, &mut downloads).await?;
        self.memory.remember(ctx, &said).await?;
        let text = self.format.map(|format| (format, without_thinking(&said)));
        let attachment = match text {
            Some((format, text)) if text.trim().is_empty() => {
                let warning = format!("no {} file was made: the message has no text", format.name());
                ctx.signal(Signal::Warn(warning)).await?;
                None
            }
            Some((format, text)) => {
                let text = with_sources(text, format, &ctx.run.citations);
                let content = DocumentContent::Markdown(text);
                let request = WriteRequest { format, content, page: PageSettings::default() };
                let file = artifact::made(ctx, &ctx.name, &request).await?;
                Some(artifact::attachment(&file, format))
            }
            None => None,
        };
        let cited = ctx.run.citations.cited_in(&said);
        let mut outputs = Outputs::of("content", Value::text(said));
        if let Some(attachment) = &attachment {
            outputs.set("attachment", json!(attachment));
        }
        if !downloads.is_empty() {
            outputs.set("downloads", Json::Array(downloads.clone()));
        }
        let end = MessageEnd { status: self.status, cited, attachment, downloads };
        Ok(Finished { message_end: Some(Box::new(end)), ..outputs.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Node, Setting, Stage};
    use serde_json::{Value as Json, json};
    use weft_core::citation::Chunk;

    fn said(stage: &mut Stage) -> Vec<String> {
        let texts = stage.signals().into_iter().filter_map(|signal| match signal {
            Signal::Say(Piece::Text(text)) => Some(text.to_string()),
            Signal::Say(Piece::Thinking(text)) => Some(format!("({text})")),
            _ => None,
        });
        texts.collect()
    }

    #[tokio::test]
    async fn chunks_are_shown_in_order_as_they_arrive() {
        let node = Node::new(
            "Message",
            json!({"content": ["Hi {sys.query} you: {Agent:A@content}!"], "status": "201"}),
        );
        let component = node.build();
        let (writer, text) = SharedText::new();
        let mut setting = Setting { query: "Q", cited: vec![Chunk::default()], ..Setting::default() };
        setting.values.insert("Agent:A@content", Value::Stream(text));
        let mut stage = Stage::new(&node, &*component, setting);
        writer.push(Piece::Thinking("hm".into()));
        writer.push(Piece::Text("one ".into()));
        writer.push(Piece::Text("two [ID:0]".into()));
        writer.finish();
        let finished = component.run(&stage.ctx).await.unwrap();
        assert_eq!(said(&mut stage), ["Hi ", "Q", " you: ", "(hm)", "one ", "two [ID:0]", "!"]);
        assert_eq!(json!(finished.outputs), json!({"content": "Hi Q you: one two [ID:0]!"}));
        let end = finished.message_end.unwrap();
        assert_eq!((end.status, end.cited.len()), (Some(201), 1));
    }

    /// While it is held back, the text may be retracted.
    #[tokio::test]
    async fn a_held_back_message_has_read_nothing() {
        let node = Node::new("Message", json!({"content": "{Agent:A@content}!"}));
        let component = node.build();
        let (writer, text) = SharedText::new();
        let mark = writer.mark();
        let mut setting = Setting::default();
        setting.values.insert("Agent:A@content", Value::Stream(text));
        let mut stage = Stage::new(&node, &*component, setting);
        stage.ctx.floor = weft_core::Floor::of_one();
        let floor = stage.ctx.floor.clone();
        assert!(floor.take(u32::MAX - 7));
        writer.push(Piece::Text("one".into()));
        let ctx = stage.ctx.clone();
        let running = component.run(&ctx);
        tokio::pin!(running);
        assert!(futures::poll!(running.as_mut()).is_pending());
        assert!(mark.take_back());
        floor.pass(Some(ctx.activation));
        writer.push(Piece::Text("two".into()));
        writer.finish();
        running.await.unwrap();
        assert_eq!(said(&mut stage), ["two", "!"]);
    }

    #[tokio::test]
    async fn a_broken_stream_ends_the_message_with_its_error() {
        let node = Node::new("Message", json!({"content": "{Agent:A@content}!"}));
        let component = node.build();
        let (writer, text) = SharedText::new();
        let mut setting = Setting::default();
        setting.values.insert("Agent:A@content", Value::Stream(text));
        let mut stage = Stage::new(&node, &*component, setting);
        writer.push(Piece::Text("half".into()));
        writer.fail(&Error::new(weft_core::ErrorKind::Unavailable, "gone"));
        let error = component.run(&stage.ctx).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (weft_core::ErrorKind::Unavailable, "gone"));
        assert_eq!(said(&mut stage), ["half"]);
    }

    #[tokio::test]
    async fn one_chunk_when_it_does_not_stream() {
        let check = async |params: Json, expected: &str| {
            let node = Node::new("Message", params);
            let component = node.build();
            assert!(!component.shape().listens);
            let values = [("Agent:A@list", json!(["a", "b"])), ("Agent:A@content", json!("x"))];
            let mut stage = Stage::new(&node, &*component, Setting::values(values));
            component.run(&stage.ctx).await.unwrap();
            assert_eq!(said(&mut stage), [expected]);
        };
        check(
            json!({"content": ["a {Agent:A@content} {Agent:A@list}"], "stream": false}),
            "a x [\"a\",\"b\"]",
        )
        .await;
        check(json!({"content": ["{% for x in {Agent:A@list} %}{{ x }}.{% endfor %}"]}), "a.b.").await;
    }

    #[tokio::test]
    async fn a_file_is_shown_as_such_in_one_piece_too() {
        let node = Node::new("Message", json!({"content": "See {Agent:A@download}!", "stream": false}));
        let component = node.build();
        let download = json!({"doc_id": "d", "filename": "f.pdf", "mime_type": "m"});
        let values = [("Agent:A@download", json!(download.to_string()))];
        let mut stage = Stage::new(&node, &*component, Setting::values(values));
        let finished = component.run(&stage.ctx).await.unwrap();
        assert_eq!(said(&mut stage), ["See !"]);
        assert_eq!(json!(finished.outputs), json!({"content": "See !", "downloads": [download]}));
        assert_eq!(finished.message_end.unwrap().downloads, [download]);
    }

    #[tokio::test]
    async fn a_template_shows_a_file_as_such() {
        let download = json!({"doc_id": "d", "filename": "f.pdf", "mime_type": "m"});
        let check = async |text: &str, expected: &str, files: usize| {
            let node = Node::new("Message", json!({"content": text}));
            let component = node.build();
            let values = [("Agent:A@download", json!(download.to_string()))];
            let mut stage = Stage::new(&node, &*component, Setting::values(values));
            let finished = component.run(&stage.ctx).await.unwrap();
            assert_eq!(said(&mut stage), [expected]);
            assert_eq!(finished.message_end.unwrap().downloads.len(), files, "{text}");
        };
        check("{% if true %}See {Agent:A@download}{% endif %}!", "See !", 1).await;
        check("{% if {Agent:A@download} %}There is a file.{% endif %}", "There is a file.", 0).await;
    }

    #[tokio::test]
    async fn the_chosen_text_is_shown() {
        let node = Node::new("Message", json!({"messages": ["a {Agent:A@x}", "b {Agent:B@x}"]}));
        let component = node.build();
        assert_eq!(
            component.shape().reads.alternatives,
            [[node.reference("Agent:A@x")], [node.reference("Agent:B@x")]]
        );
        let setting = Setting { alternative: 1, ..Setting::values([("Agent:B@x", json!(0))]) };
        let mut stage = Stage::new(&node, &*component, setting);
        component.run(&stage.ctx).await.unwrap();
        assert_eq!(said(&mut stage), ["b ", "0"]);
    }

    /// As in newer canvases that contain one text only.
    #[tokio::test]
    async fn content_may_be_a_single_text() {
        let node = Node::new("Message", json!({"text": "a {Agent:B@x}"}));
        let component = node.build();
        let mut stage = Stage::new(&node, &*component, Setting::values([("Agent:B@x", json!(0))]));
        component.run(&stage.ctx).await.unwrap();
        assert_eq!(said(&mut stage), ["a ", "0"]);
    }

    #[tokio::test]
    async fn texts_become_files_and_files_are_shown_as_downloads() {
        let files = Arc::new(weft_testkit::MemoryFiles::default());
        let download = json!({"doc_id": "d", "filename": "f.pdf", "mime_type": "m"});
        let mut node = Node::new(
            "Message",
            json!({"content": "<think>x</think>A {Agent:A@download}{Agent:B@download}"}),
        );
        node.add(json!({"output_format": "md"}));
        let kept = json!({"doc_id": "e", "filename": "g", "mime_type": "m", "include_download_info_in_content": true});
        let kept_files = Arc::clone(&files);
        let setting = Setting {
            seams: Some(Box::new(move |seams| {
                seams.files = kept_files;
                seams.documents = Arc::new(crate::testing::PlainDocuments);
            })),
            ..Setting::values([
                ("Agent:A@download", json!(download.to_string())),
                ("Agent:B@download", kept.clone()),
            ])
        };
        let component = node.build();
        assert!(component.shape().warnings.is_empty());
        let odd =
            Node::new("Message", json!({"content": "a", "output_format": "odt"})).build().shape().warnings;
        assert!(odd.len() == 1 && format!("{odd:?}").contains("`odt` is not a supported format"), "{odd:?}");
        let mut stage = Stage::new(&node, &*component, setting);
        let finished = component.run(&stage.ctx).await.unwrap();
        assert_eq!(said(&mut stage).concat(), format!("<think>x</think>A {kept}"));
        let end = finished.message_end.unwrap();
        let file = files.all().pop().unwrap();
        assert_eq!(end.downloads, [download]);
        let attachment = end.attachment.unwrap();
        assert_eq!((attachment.doc_id, attachment.file_name.as_str()), (file.id, "test.md"));
        assert_eq!(json!(finished.outputs)["attachment"]["format"], "markdown");
    }

    /// A memory that stores what it is given.
    #[derive(Default)]
    struct Kept(std::sync::Mutex<Vec<weft_core::seam::memories::Turn>>);

    #[async_trait]
    impl weft_core::seam::Memories for Kept {
        async fn remember(
            &self,
            _: &weft_core::id::MemoryKey,
            _: &str,
            turn: &weft_core::seam::memories::Turn,
        ) -> Result<()> {
            self.0.lock().unwrap().push(turn.clone());
            Ok(())
        }

        async fn recall(
            &self,
            _: &weft_core::TenantId,
            _: &weft_core::seam::memories::MemoryQuery,
        ) -> Result<weft_core::seam::memories::Recollection> {
            Ok(weft_core::seam::memories::Recollection::default())
        }
    }

    #[tokio::test]
    async fn a_memory_receives_no_secret() {
        let node = Node::new("Message", json!({"content": "It is {Agent:A@key}", "memory_ids": ["m"]}));
        let component = node.build();
        let kept = Arc::new(Kept::default());
        let memories = Arc::clone(&kept);
        let setting = Setting {
            query: "Is it s3cret-key?",
            seams: Some(Box::new(move |seams| seams.memories = memories)),
            ..Setting::values([("Agent:A@key", json!("s3cret-key"))])
        };
        let stage = Stage::new(&node, &*component, setting);
        stage.ctx.run.masks.add("secret.key", &json!("s3cret-key")).unwrap();
        component.run(&stage.ctx).await.unwrap();
        let turn = kept.0.lock().unwrap().pop().unwrap();
        assert_eq!((turn.query.as_str(), turn.response.as_str()), ("Is it ***?", "It is ***"));
    }

    #[tokio::test]
    async fn text_that_cannot_become_a_file_is_a_warning() {
        let check = async |content: &str, part: &str, made: usize| {
            let node = Node::new("Message", json!({"content": content, "output_format": "pdf"}));
            let component = node.build();
            let files = Arc::new(weft_testkit::MemoryFiles::default());
            let kept = Arc::clone(&files);
            let seams: crate::testing::Replace = Box::new(move |seams| {
                seams.files = kept;
                seams.documents = Arc::new(crate::testing::PlainDocuments);
            });
            let mut stage =
                Stage::new(&node, &*component, Setting { seams: Some(seams), ..Setting::default() });
            let finished = component.run(&stage.ctx).await.unwrap();
            let end = finished.message_end.unwrap();
            assert_eq!((files.all().len(), end.attachment.is_some()), (made, made == 1), "{content}");
            let warned = stage
                .signals()
                .into_iter()
                .any(|signal| matches!(signal, Signal::Warn(text) if text.contains(part)));
            assert!(warned, "{content}");
        };
        check("<think>x</think> ", "no pdf file was made", 0).await;
        check("a ![b](data:image/png;base64,AAAA)", "text in place of 1 picture,", 1).await;
    }

    #[tokio::test]
    async fn characters_a_file_cannot_contain_are_a_warning() {
        let node = Node::new("Message", json!({"content": "snow \u{2603}", "output_format": "pdf"}));
        let component = node.build();
        let files = Arc::new(weft_testkit::MemoryFiles::default());
        let seams: crate::testing::Replace = Box::new(move |seams| {
            seams.files = files;
            seams.documents = Arc::new(crate::testing::PlainDocuments);
        });
        let mut stage = Stage::new(&node, &*component, Setting { seams: Some(seams), ..Setting::default() });
        component.run(&stage.ctx).await.unwrap();
        let warned: Vec<String> = stage
            .signals()
            .into_iter()
            .filter_map(|signal| match signal {
                Signal::Warn(text) => Some(text),
                _ => None,
            })
            .collect();
        assert!(
            warned.len() == 1 && warned[0].contains("U+2603") && warned[0].contains("documents.font"),
            "{warned:?}"
        );
    }

    fn decoded(base64: &str) -> String {
        use base64::Engine as _;
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(base64).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn replayed_work_does_not_repeat_speech() {
        let text = "The first sentence is this. The second sentence is that.";
        let node = Node::new("Message", json!({"content": text, "auto_play": true}));
        let component = node.build();
        let voice = Arc::new(weft_testkit::Voice::default());
        let stage = || {
            let voice = Arc::clone(&voice);
            let seams: crate::testing::Replace = Box::new(move |seams| {
                seams.models =
                    Arc::new(weft_testkit::WithVoice(weft_core::seam::chat_model::NoModels, voice));
            });
            Stage::new(&node, &*component, Setting { seams: Some(seams), ..Setting::default() })
        };
        let heard = |signals: &[Signal]| {
            let of = |signal: &Signal| match signal {
                Signal::Play(audio) => Some(decoded(&audio.base64)),
                _ => None,
            };
            signals.iter().filter_map(of).collect::<Vec<_>>()
        };
        let asked = || voice.asked.load(std::sync::atomic::Ordering::Relaxed);
        let mut first = stage();
        component.run(&first.ctx).await.unwrap();
        let signals = first.all_signals();
        let expected = ["The first sentence is this.", "The second sentence is that."];
        assert_eq!((heard(&signals).as_slice(), asked()), (&expected.map(str::to_owned)[..], 2));
        let gave = signals.into_iter().filter_map(|signal| match signal {
            Signal::EffectFinished(gave) => Some((gave.key, weft_core::effect::Known::Ended(gave.gave))),
            _ => None,
        });
        let mut second = stage().again(&gave.collect::<Vec<_>>());
        component.run(&second.ctx).await.unwrap();
        assert_eq!((heard(&second.all_signals()).as_slice(), asked()), (&expected.map(str::to_owned)[..], 2));
    }

    /// A sentence is a model call, and a recorded one counts as well.
    #[tokio::test]
    async fn speech_counts_towards_the_budget_and_ends_with_it() {
        use weft_core::Budget;
        use weft_core::budget::{BudgetLimits, Spent};
        let text = "The first sentence is this. The second sentence is that. The third sentence is long.";
        let node = Node::new("Message", json!({"content": text, "auto_play": true}));
        let component = node.build();
        for (calls, read) in [(10, 3), (2, 2), (0, 0)] {
            let voice = Arc::new(weft_testkit::Voice::default());
            let seen = Arc::clone(&voice);
            let seams: crate::testing::Replace = Box::new(move |seams| {
                seams.models =
                    Arc::new(weft_testkit::WithVoice(weft_core::seam::chat_model::NoModels, voice));
            });
            let mut stage =
                Stage::new(&node, &*component, Setting { seams: Some(seams), ..Setting::default() });
            let limits = BudgetLimits { model_calls: Some(calls), ..BudgetLimits::default() };
            stage.ctx.budget = Budget::unlimited().within(limits, Spent::default());
            let finished = component.run(&stage.ctx).await.unwrap();
            assert_eq!(json!(finished.outputs)["content"], text, "the text is shown anyway");
            assert_eq!(seen.asked.load(std::sync::atomic::Ordering::Relaxed), read);
            let spent = stage.ctx.budget.spent();
            assert_eq!(spent.model_calls, read as u64);
            assert_eq!(spent.tokens > 0, read > 0);
            // A million tokens cost one unit, so each token is a millionth.
            assert_eq!(spent.micros, spent.tokens);
            let signals = stage.all_signals();
            let warned = signals.iter().any(
                |signal| matches!(signal, Signal::Warn(text) if text.contains("not read aloud any further")),
            );
            assert_eq!(warned, calls < 3, "{signals:?}");
        }
    }

    #[tokio::test]
    async fn without_speech_the_text_is_shown_with_a_warning() {
        let node = Node::new("Message", json!({"content": "Hello", "auto_play": "true"}));
        let component = node.build();
        let mut stage = Stage::new(&node, &*component, Setting::default());
        component.run(&stage.ctx).await.unwrap();
        let signals = stage.signals();
        let warned = signals
            .iter()
            .any(|signal| matches!(signal, Signal::Warn(text) if text.contains("not read aloud")));
        assert!(warned, "{signals:?}");
    }

    #[test]
    fn problems_and_warnings() {
        assert_eq!(Node::new("Message", json!({"content": []})).problems(), ["/content"]);
        assert_eq!(Node::new("Message", json!({"content": ["ok", "{% if %}"]})).problems(), ["/content/1"]);
        let warned = |texts: Json| -> Vec<String> {
            let shape = Node::new("Message", json!({"content": texts})).build().shape();
            shape.warnings.iter().map(|warning| format!("{} {}", warning.pointer, warning.message)).collect()
        };
        assert_eq!(warned(json!([" "])), ["/content/0 is empty, so nothing is shown"]);
        let chosen = "/content/1 is empty, so nothing is shown when this text is chosen";
        assert_eq!(warned(json!(["ok", ""])), [chosen]);
        assert!(warned(json!(["{Agent:A@content}"])).is_empty());
        let whose = json!({"content": "x", "memory_ids": ["m"], "user_id": ["Ada"]});
        assert_eq!(Node::new("Message", whose).problems(), ["/user_id"]);
    }
}
