//! Pictures and recordings: who reads them, and where their text is placed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use serde_json::json;
use weft_core::seam::document_reader::{ChunkMethod, NoReader, PieceKind, ReadDocument, ReadRequest};
use weft_core::seam::picture_reader::{Picture, PictureLine, PicturePlace};
use weft_core::seam::speech::Recording;
use weft_core::seam::{DocumentReader, PictureReader, TranscriptionModel};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};
use weft_parse::{ChildReader, InProcess, Limits, MediaReader, Tesseract, Worker};
use weft_testkit::contracts::picture_reader::{WORDS, picture_reader_keeps_its_contract};

use crate::build::{archive_of, pdf_with_pictures, pdf_with_turned_pictures, relations};

const SCAN: &[u8] = include_bytes!("files/scan.jpg");

fn worker() -> Worker {
    Worker { program: env!("CARGO_BIN_EXE_weft-parse-worker").into(), arguments: Vec::new() }
}

fn request(name: &str, method: ChunkMethod) -> ReadRequest {
    ReadRequest { name: name.to_owned(), method, settings: serde_json::Map::new() }
}

/// Returns the same for every picture, and counts its calls.
struct Says(&'static str, AtomicUsize);

#[async_trait]
impl PictureReader for Says {
    fn name(&self) -> &str {
        "says"
    }

    async fn read(&self, _: &TenantId, picture: &Picture) -> Result<Vec<PictureLine>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        assert!(picture.width > 0 && picture.height > 0 && !picture.bytes.is_empty());
        match self.0 {
            "unavailable" => Err(Error::new(ErrorKind::Unavailable, "the service is down")),
            "invalid" => Err(Error::invalid("it is damaged")),
            text => Ok(text.lines().map(|line| PictureLine { text: line.to_owned(), place: None }).collect()),
        }
    }
}

/// The position and text, in two columns of a page.
struct Columns;

#[async_trait]
impl PictureReader for Columns {
    fn name(&self) -> &str {
        "columns"
    }

    async fn read(&self, _: &TenantId, _: &Picture) -> Result<Vec<PictureLine>> {
        let line = |text: &str, top: f32| PictureLine {
            text: text.to_owned(),
            place: Some(PicturePlace { left: 0.1, right: 0.9, top, bottom: top + 0.02 }),
        };
        Ok(vec![line("A first line", 0.1), line("goes on here.", 0.125), line("Far below.", 0.7)])
    }
}

fn reader(pictures: impl PictureReader + 'static) -> MediaReader {
    MediaReader::new(Arc::new(InProcess::default()), Some(Arc::new(pictures)), None)
}

fn text(document: &ReadDocument) -> String {
    document.pieces.iter().map(|piece| piece.content.as_str()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn scanned_pages_are_read_with_positions() {
    let scan = Bytes::from(pdf_with_pictures(&[("", Some(SCAN)), ("Text of page two", None)]));
    let document =
        reader(Columns).read(&"t".into(), &request("a.pdf", ChunkMethod::Naive), scan.clone()).await.unwrap();
    assert!(
        text(&document).contains("A first line goes on here.") && text(&document).contains("Far below."),
        "{}",
        text(&document)
    );
    assert!(text(&document).contains("Text of page two"));
    let places = &document.pieces[0].positions;
    // The picture fills the page of 600 by 800 points.
    assert!(
        places.iter().any(|place| place.page == 1
            && (place.left - 60.0).abs() < 1.0
            && (place.top - 80.0).abs() < 1.0),
        "{places:?}"
    );
    assert_eq!(document.warnings, Vec::<String>::new());
    // Without a picture reader the page is missing, which is reported.
    let without = MediaReader::new(Arc::new(InProcess::default()), None, None);
    let document =
        without.read(&"t".into(), &request("a.pdf", ChunkMethod::Naive), scan.clone()).await.unwrap();
    assert!(
        document.warnings[0].contains("no text layer on the pages 1; OCR is needed"),
        "{:?}",
        document.warnings
    );
    // Nor is it called if only the text layer is requested.
    let mut plain = request("a.pdf", ChunkMethod::Naive);
    plain.settings.insert("layout_recognize".to_owned(), json!("Plain Text"));
    let document = reader(Columns).read(&"t".into(), &plain, scan).await.unwrap();
    assert!(document.warnings[0].contains("OCR is needed"), "{:?}", document.warnings);
}

#[tokio::test]
async fn scanning_a_large_file_does_not_block_the_runtime() {
    let reader = MediaReader::new(Arc::new(NoReader), Some(Arc::new(Columns)), None);
    let (tenant, request) = (TenantId::new("t"), request("a.txt", ChunkMethod::Naive));
    let mut read = std::pin::pin!(reader.read(&tenant, &request, Bytes::from(vec![b'x'; 4 << 20])));
    // No other request waits for it.
    assert!(futures::poll!(read.as_mut()).is_pending());
    assert_eq!(read.await.unwrap_err().kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn scans_on_rotated_pages_are_read_upright() {
    for (degrees, size, right) in [
        (0, (850, 1_100), 600.0),
        (90, (1_100, 850), 800.0),
        (180, (850, 1_100), 600.0),
        (270, (1_100, 850), 800.0),
    ] {
        let scan = Bytes::from(pdf_with_turned_pictures(&[("", Some(SCAN))], degrees));
        let found = InProcess::default()
            .pictures(&"t".into(), &request("a.pdf", ChunkMethod::Naive), scan.clone())
            .await
            .unwrap();
        let [one] = &found.pictures[..] else { panic!("{degrees}: {found:?}") };
        assert_eq!((one.picture.width, one.picture.height), size, "{degrees}");
        let expected = if degrees == 0 { "image/jpeg" } else { "image/png" };
        assert_eq!(one.picture.media_type, expected, "{degrees}");
        assert!(
            (one.place.left - 0.0).abs() < 0.1 && (one.place.right - right).abs() < 0.1,
            "{degrees}: {:?}",
            one.place
        );
        let document =
            reader(Columns).read(&"t".into(), &request("a.pdf", ChunkMethod::Naive), scan).await.unwrap();
        assert!(text(&document).starts_with("A first line goes on here."), "{degrees}: {}", text(&document));
    }
}

#[tokio::test]
async fn figure_texts_are_placed_in_their_page() {
    let file = Bytes::from(pdf_with_pictures(&[("The figure shows the plan.", Some(WORDS_JPEG))]));
    let says = reader(Says("Plan of the house", AtomicUsize::new(0)));
    let document = says.read(&"t".into(), &request("a.pdf", ChunkMethod::Naive), file).await.unwrap();
    let text = text(&document);
    assert!(text.contains("The figure shows the plan.") && text.contains("Plan of the house"), "{text}");
}

/// Files that contain pictures as separate files: each shows `a.jpg` twice, and has a small ornament.
fn holding_pictures() -> [(&'static str, Vec<u8>); 4] {
    let gif: &[u8] = b"GIF89a\x03\0\x04\0";
    let word = relations(&[("r1", "image", "media/a.jpg"), ("r2", "image", "media/dot.gif")]);
    let slide = relations(&[("r1", "image", "../media/a.jpg"), ("r2", "image", "../media/dot.gif")]);
    let docx = archive_of(&[
        (
            "word/document.xml",
            b"<w:document><w:body><w:p><w:r><w:t>Before</w:t></w:r><w:r><w:drawing><a:blip r:embed='r1'/></w:drawing></w:r></w:p>
              <w:p><w:r><w:t>After</w:t></w:r><w:r><w:pict><v:imagedata r:id='r1'/><a:blip r:embed='r2'/></w:pict></w:r></w:p>
              </w:body></w:document>",
        ),
        ("word/_rels/document.xml.rels", word.as_bytes()),
        ("word/media/a.jpg", SCAN),
        ("word/media/dot.gif", gif),
        ("word/media/unused.jpg", SCAN),
    ]);
    let pptx = archive_of(&[
        (
            "ppt/presentation.xml",
            b"<p:presentation><p:sldIdLst><p:sldId id='1' r:id='r1'/><p:sldId id='2' r:id='r1'/></p:sldIdLst></p:presentation>",
        ),
        ("ppt/_rels/presentation.xml.rels", relations(&[("r1", "slide", "slides/s1.xml")]).as_bytes()),
        (
            "ppt/slides/s1.xml",
            b"<p:sld><p:sp><a:p><a:r><a:t>Before</a:t></a:r></a:p></p:sp><p:pic><a:blip r:embed='r1'/></p:pic>
              <p:pic><a:blip r:embed='r1'/><a:blip r:embed='r2'/></p:pic><p:sp><a:p><a:r><a:t>After</a:t></a:r></a:p></p:sp></p:sld>",
        ),
        ("ppt/slides/_rels/s1.xml.rels", slide.as_bytes()),
        ("ppt/media/a.jpg", SCAN),
        ("ppt/media/dot.gif", gif),
        ("ppt/media/design.jpg", SCAN),
    ]);
    let epub = archive_of(&[
        ("mimetype", b"application/epub+zip"),
        (
            "META-INF/container.xml",
            b"<container><rootfiles><rootfile full-path='OEBPS/book.opf'/></rootfiles></container>",
        ),
        (
            "OEBPS/book.opf",
            b"<package><manifest><item id='a' href='text/one.xhtml'/></manifest><spine><itemref idref='a'/></spine></package>",
        ),
        (
            "OEBPS/text/one.xhtml",
            b"<html><body><p>Before</p><img src='../a%20b/a.jpg' alt=''/><p>After <img src='../a%20b/a.jpg'/></p></body></html>",
        ),
        ("OEBPS/a b/a.jpg", SCAN),
        ("OEBPS/a b/dot.gif", gif),
    ]);
    let odt = archive_of(&[
        ("mimetype", b"application/vnd.oasis.opendocument.text"),
        (
            "content.xml",
            b"<office:document-content><office:body><office:text><text:p>Before<draw:frame><draw:image xlink:href='Pictures/a.jpg'/>
              </draw:frame></text:p><text:p>After<draw:frame><draw:image xlink:href='./Pictures/a.jpg'/></draw:frame></text:p>
              </office:text></office:body></office:document-content>",
        ),
        ("Pictures/a.jpg", SCAN),
        ("Pictures/dot.gif", gif),
    ]);
    [("a.docx", docx), ("a.pptx", pptx), ("a.epub", epub), ("a.odt", odt)]
}

#[tokio::test]
async fn pictures_in_office_files_and_books_are_placed_where_shown() {
    for (name, bytes) in holding_pictures() {
        let says = Arc::new(Says("A bridge\nin autumn", AtomicUsize::new(0)));
        let reader = MediaReader::new(Arc::new(InProcess::default()), Some(says.clone()), None);
        let document =
            reader.read(&"t".into(), &request(name, ChunkMethod::Naive), bytes.into()).await.unwrap();
        let text = text(&document);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{name}: no `{part}` in {text:?}"));
        assert!(at("Before") < at("A bridge") && at("in autumn") < at("After"), "{name}: {text:?}");
        assert_eq!(text.matches("A bridge").count(), 1, "{name}: {text:?}");
        let asked = says.1.load(Ordering::Relaxed);
        assert_eq!(asked, 1, "{name}: neither the ornament nor hidden pictures are read");
        assert_eq!(document.warnings, Vec::<String>::new(), "{name}");
    }
}

/// A picture in a page, and the page in a mail with attachments.
fn page_with_picture() -> String {
    let data = base64::engine::general_purpose::STANDARD.encode(SCAN);
    format!(
        "<html><body><p>Before.</p><img alt='A chart' src='data:image/jpeg;base64,{data}'><p>After.</p>\
         <div hidden><img src='data:image/jpeg;base64,{data}AAAA'></div>\
         <img src='data:image/png;base64,%%%'><img src='data:image/svg+xml,%3Csvg/%3E'></body></html>"
    )
}

fn mail_with_attachments(attachments: &[(&str, &[u8])]) -> Vec<u8> {
    let mut mail = "From: a@example.com\r\nTo: b@example.com\r\nSubject: Papers\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=\"=\"\r\n\r\n--=\r\nContent-Type: text/plain\r\n\r\nSee below.\r\n"
        .to_owned();
    for (name, bytes) in attachments {
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        mail.push_str(&format!(
            "--=\r\nContent-Type: application/octet-stream; name=\"{name}\"\r\nContent-Disposition: attachment; \
             filename=\"{name}\"\r\nContent-Transfer-Encoding: base64\r\n\r\n{data}\r\n"
        ));
    }
    mail.push_str("--=--\r\n");
    mail.into_bytes()
}

#[tokio::test]
async fn inline_page_pictures_are_placed_where_shown() {
    let page = Bytes::from(page_with_picture());
    let document = reader(Says("Turnover 4711", AtomicUsize::new(0)))
        .read(&"t".into(), &request("a.html", ChunkMethod::Naive), page)
        .await;
    let document = document.unwrap();
    let text = text(&document);
    let places = ["Before.", "A chart", "Turnover 4711", "After."].map(|part| text.find(part));
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{text}");
    assert_eq!(text.matches("4711").count(), 1, "hidden text is not read");
    assert!(
        document.warnings.iter().any(|warning| warning.contains("is damaged")),
        "{:?}",
        document.warnings
    );
}

#[tokio::test]
async fn pictures_attached_to_a_mail_are_read_and_so_are_those_in_attachments() {
    let scanned = pdf_with_pictures(&[("", Some(SCAN))]);
    let page = page_with_picture();
    let inner = mail_with_attachments(&[("inner.jpg", SCAN)]);
    let attachments: [(&str, &[u8]); 5] = [
        ("photo.jpg", SCAN),
        ("photo.jpg", SCAN),
        ("scan.pdf", &scanned),
        ("page.html", page.as_bytes()),
        ("forwarded.eml", &inner),
    ];
    let says = Says("Turnover 4711", AtomicUsize::new(0));
    let mail = Bytes::from(mail_with_attachments(&attachments));
    let document =
        reader(says).read(&"t".into(), &request("a.eml", ChunkMethod::Naive), mail.clone()).await.unwrap();
    let text = text(&document);
    for (name, after) in [
        ("photo.jpg", "Turnover 4711"),
        ("scan.pdf", "Turnover 4711"),
        ("page.html", "Turnover 4711"),
        ("inner.jpg", "Turnover 4711"),
    ] {
        let at = text.find(&format!("Attachment: {name}")).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(text[at..].contains(after), "{name}: {text}");
    }
    assert_eq!(text.matches("Turnover 4711").count(), 5, "{text}");
    // Without a picture reader the rest of the mail is read, and each attachment reports what is missing.
    let alone =
        InProcess::default().read(&"t".into(), &request("a.eml", ChunkMethod::Naive), mail).await.unwrap();
    assert!(alone.warnings.iter().any(|warning| warning.contains("OCR is needed")), "{:?}", alone.warnings);
}

#[tokio::test]
async fn chunks_name_the_picture_their_text_comes_from() {
    let note: &[u8] = b"Nothing is to be seen here.";
    let mut files: Vec<(&str, Vec<u8>)> = holding_pictures().into();
    files.extend([
        ("scan.pdf", pdf_with_pictures(&[("", Some(SCAN)), ("Text of page two", None)])),
        ("figure.pdf", pdf_with_pictures(&[("The figure shows the plan.", Some(SCAN))])),
        ("a.html", page_with_picture().into_bytes()),
        ("a.eml", mail_with_attachments(&[("note.txt", note), ("photo.jpg", SCAN)])),
    ]);
    let documents = Arc::new(ChildReader::new(worker(), Limits::default(), 2));
    let says = Arc::new(Says("Bridge", AtomicUsize::new(0)));
    let reader = MediaReader::new(documents, Some(says), None);
    for (name, bytes) in files {
        let (mut asked, bytes) = (request(name, ChunkMethod::Naive), Bytes::from(bytes));
        asked.settings.insert("chunk_token_num".to_owned(), json!(8));
        let document = reader.read(&"t".into(), &asked, bytes.clone()).await.unwrap();
        for piece in &document.pieces {
            assert_eq!(piece.picture.is_some(), piece.content.contains("Bridge"), "{name}: {piece:?}");
        }
        let numbers: Vec<u32> = document.pieces.iter().filter_map(|piece| piece.picture).collect();
        let [number] = numbers[..] else { panic!("{name}: {numbers:?}") };
        let kept = reader.kept_pictures(&"t".into(), &asked, bytes.clone(), &[number]).await.unwrap();
        let with: Vec<usize> =
            (0..kept.pictures.len()).filter(|at| !kept.pictures[*at].picture.bytes.is_empty()).collect();
        assert_eq!(with, [usize::try_from(number).unwrap()], "{name}");
        assert_eq!(&*kept.pictures[with[0]].picture.bytes, SCAN, "{name}");
        let none = reader.kept_pictures(&"t".into(), &asked, bytes, &[]).await.unwrap();
        assert!(none.pictures.iter().all(|one| one.picture.bytes.is_empty()), "{name}");
    }
}

#[tokio::test]
async fn an_unreadable_picture_does_not_affect_the_rest_of_the_file() {
    for (name, bytes) in holding_pictures() {
        let reader = reader(Says("invalid", AtomicUsize::new(0)));
        let document =
            reader.read(&"t".into(), &request(name, ChunkMethod::Naive), bytes.into()).await.unwrap();
        assert!(text(&document).contains("After"), "{name}");
        assert!(
            document.warnings[0].contains("a.jpg` was not read: it is damaged"),
            "{:?}",
            document.warnings
        );
    }
}

/// Any JPEG will do.
const WORDS_JPEG: &[u8] = SCAN;

#[tokio::test]
async fn picture_files_have_their_own_method() {
    let says = reader(Says("A red bridge\nover a river\n\nIn autumn", AtomicUsize::new(0)));
    let document = says
        .read(&"t".into(), &request("a.png", ChunkMethod::Picture), Bytes::from_static(WORDS))
        .await
        .unwrap();
    assert_eq!((document.pieces.len(), document.pieces[0].kind), (1, PieceKind::Image));
    assert!(document.pieces[0].content.contains("A red bridge over a river"), "{}", text(&document));
    let place = document.pieces[0].positions[0];
    assert_eq!((place.page, place.right, place.bottom), (1, 600.0, 300.0));
    let error = reader(Says("", AtomicUsize::new(0)))
        .read(&"t".into(), &request("a.png", ChunkMethod::Picture), Bytes::from_static(WORDS))
        .await
        .unwrap_err();
    assert!(error.full().contains("no text was found in the picture"), "{}", error.full());
}

#[tokio::test]
async fn unreadable_pictures_are_reported_and_transient_failures_retried() {
    let scan = Bytes::from(pdf_with_pictures(&[("", Some(SCAN)), ("Text", None)]));
    let request = request("a.pdf", ChunkMethod::Naive);
    let document =
        reader(Says("invalid", AtomicUsize::new(0))).read(&"t".into(), &request, scan.clone()).await.unwrap();
    assert!(
        document.warnings.iter().any(|one| one == "A picture on page 1 was not read: it is damaged"),
        "{:?}",
        document.warnings
    );
    let error =
        reader(Says("unavailable", AtomicUsize::new(0))).read(&"t".into(), &request, scan).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn hostile_pictures_are_refused_by_their_headers() {
    let mut bomb = WORDS.to_vec();
    bomb[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let says = Arc::new(Says("x", AtomicUsize::new(0)));
    let pictures: Arc<dyn PictureReader> = says.clone();
    for documents in [
        Arc::new(InProcess::default()) as Arc<dyn DocumentReader>,
        Arc::new(ChildReader::new(worker(), Limits::default(), 2)),
    ] {
        let reader = MediaReader::new(documents, Some(Arc::clone(&pictures)), None);
        let error = reader
            .read(&"t".into(), &request("a.png", ChunkMethod::Picture), Bytes::from(bomb.clone()))
            .await
            .unwrap_err();
        assert!(error.full().contains("65536 × 65536 pixels"), "{}", error.full());
        // A page whose picture unpacks to more than its worker may have: the rest of the file is read.
        let page = crate::build::pdf_with_bomb();
        let document =
            reader.read(&"t".into(), &request("a.pdf", ChunkMethod::Naive), Bytes::from(page)).await.unwrap();
        assert!(text(&document).contains("Text beside it"));
        assert!(document.warnings.iter().any(|one| one.contains("pixels")), "{:?}", document.warnings);
    }
    assert_eq!(says.1.load(Ordering::Relaxed), 0, "no reader is called");
}

#[tokio::test]
async fn settings_without_effect_are_named() {
    let mut request = request("a.txt", ChunkMethod::Naive);
    request.settings = json!({
        "layout_recognize": "MinerU", "image_context_size": 5, "task_page_size": 3, "chunk_token_num": 64
    })
    .as_object()
    .unwrap()
    .clone();
    let reader = MediaReader::new(Arc::new(InProcess::default()), None, None);
    let document = reader.read(&"t".into(), &request, Bytes::from_static(b"text")).await.unwrap();
    for (warning, name) in
        document.warnings.iter().zip(["layout_recognize", "image_context_size", "task_page_size"])
    {
        assert!(warning.contains(name), "{warning}");
    }
    assert_eq!(document.warnings.len(), 3, "{:?}", document.warnings);
}

/// Transcribes the bytes as text.
struct Ears;

#[async_trait]
impl TranscriptionModel for Ears {
    fn name(&self) -> &str {
        "ears"
    }

    async fn transcribe(&self, _: &TenantId, recording: &Recording) -> Result<String> {
        assert_eq!(recording.media_type, "audio/mpeg");
        Ok(String::from_utf8_lossy(&recording.bytes[3..]).into_owned())
    }
}

#[tokio::test]
async fn recordings_are_transcribed() {
    let documents: Arc<dyn DocumentReader> = Arc::new(InProcess::default());
    let reader = MediaReader::new(Arc::clone(&documents), None, Some(Arc::new(Ears)));
    let said = Bytes::from_static(b"ID3Good morning. The pump is broken.");
    let document =
        reader.read(&"t".into(), &request("a.mp3", ChunkMethod::Audio), said.clone()).await.unwrap();
    assert_eq!(text(&document), "Good morning. The pump is broken.");
    let marked = Bytes::from_static(b"ID3\x1b[1mGood\x07 morning.\0 Bye.");
    let document = reader.read(&"t".into(), &request("a.mp3", ChunkMethod::Audio), marked).await.unwrap();
    assert_eq!(text(&document), "[1mGood morning. Bye.");
    let silent = Bytes::from_static(b"ID3 ");
    let error = reader.read(&"t".into(), &request("a.mp3", ChunkMethod::Audio), silent).await.unwrap_err();
    assert!(error.full().contains("`ears` found no speech"), "{}", error.full());
    let deaf = MediaReader::new(documents, None, None);
    let error = deaf.read(&"t".into(), &request("a.mp3", ChunkMethod::Audio), said).await.unwrap_err();
    assert!(error.full().contains("models.default_speech"), "{}", error.full());
}

fn tesseract(limits: Limits) -> Option<Tesseract> {
    match Tesseract::open(worker(), &["eng".to_owned()], limits, 2) {
        Ok(reader) => Some(reader),
        Err(error) => {
            weft_testkit::skipped(error.full());
            None
        }
    }
}

#[tokio::test]
async fn tesseract_keeps_the_contract() {
    let Some(reader) = tesseract(Limits::default()) else { return };
    picture_reader_keeps_its_contract(&reader).await;
}

#[tokio::test]
async fn tesseract_reads_a_scan() {
    let Some(reader) = tesseract(Limits::default()) else { return };
    let documents = Arc::new(ChildReader::new(worker(), Limits::default(), 2));
    let reader = MediaReader::new(documents, Some(Arc::new(reader)), None);
    let scan = Bytes::from(pdf_with_pictures(&[("", Some(SCAN))]));
    let document = reader.read(&"t".into(), &request("scan.pdf", ChunkMethod::Manual), scan).await.unwrap();
    let text = text(&document);
    assert!(
        text.contains("The pump of the second boiler has to be looked after every ninety days"),
        "{text}"
    );
    assert!(
        document.headings.iter().any(|heading| heading.title == "Maintenance manual"),
        "{:?}",
        document.headings
    );
    assert!(
        document
            .pieces
            .iter()
            .flat_map(|piece| &piece.positions)
            .all(|place| place.page == 1 && place.right > place.left)
    );
}

#[tokio::test]
async fn tesseract_is_bounded() {
    let limits = Limits { time: Duration::from_millis(1), ..Limits::default() };
    let Some(reader) = tesseract(limits) else { return };
    let picture = weft_testkit::contracts::picture_reader::picture(WORDS, 600, 300);
    // It ends within the time a worker is given, whatever the outcome.
    let ended =
        tokio::time::timeout(Duration::from_secs(20), reader.read(&"t".into(), &picture)).await.unwrap();
    if let Err(error) = ended {
        assert!(matches!(error.kind, ErrorKind::Timeout | ErrorKind::Invalid), "{}", error.full());
    }
    let limits = Limits { memory_bytes: 0, ..Limits::default() };
    let Some(small) = tesseract(limits) else { return };
    // With little memory of its own the program still ends with a message.
    drop(small.read(&"t".into(), &picture).await);
}
