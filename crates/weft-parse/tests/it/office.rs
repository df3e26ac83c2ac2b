//! Office files of other programs and older versions.

use std::io::{Cursor, Read as _, Write as _};

use crate::build::{archive, read, relations, shown};

/// A file that was packed to be small in this repository.
pub(crate) fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(Cursor::new(packed)).unwrap();
    let mut bytes = Vec::new();
    archive.by_index(0).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn word_97_documents() {
    let parsed = read("a.doc", &unpacked(include_bytes!("files/report.doc.zip")));
    let shown = shown(&parsed);
    let expected = [
        "# Results of the year",
        "The first paragraph says what happened, and that it was good.",
        "## Sales",
        "An umlaut: Grüße, and 数据.",
    ];
    for line in expected {
        assert!(shown.iter().any(|one| one == line), "{line}: {shown:?}");
    }
    // They have bullets, which are not counted.
    assert!(["* pens", "* ink"].iter().all(|item| shown.iter().any(|line| line == item)), "{shown:?}");
    assert!(shown.iter().any(|line| line.ends_with("Product|Sold / Pen|2,248 / Ink|1,135")), "{shown:?}");
    assert_eq!((&parsed.metadata["title"], &parsed.metadata["author"]), (&"A report".into(), &"Ada".into()));
}

#[test]
fn powerpoint_97_presentations() {
    let parsed = read("a.ppt", &unpacked(include_bytes!("files/deck.ppt.zip")));
    let shown = shown(&parsed);
    let place = |text: &str| shown.iter().position(|line| line.contains(text));
    let in_order = ["--- 1", "First slide", "one point", "--- 2", "Second slide", "the last point 数据"];
    let places: Vec<_> = in_order.iter().map(|text| place(text)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {shown:?}");
    assert_eq!(parsed.pages, 2);
}

#[test]
fn powerpoint_97_tables_are_tables() {
    let parsed = read("a.ppt", &unpacked(include_bytes!("files/table.ppt.zip")));
    let shown = shown(&parsed);
    let in_order = [
        "People",
        // Cells that span two columns and two rows.
        "table(0) Name|Years / Ada|1815|1852 / Ada||later",
        "Below the table",
        "Sales",
        // A group of shapes.
        "table(1) box 0|box 1 / box 2|box 3",
    ];
    let place = |text: &&str| shown.iter().position(|line| line.ends_with(*text));
    let places: Vec<_> = in_order.iter().map(place).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {shown:?}");
    let warnings = &parsed.warnings;
    assert!(
        warnings.iter().any(|told| told == "on slide 2, an embedded object was not read"),
        "{warnings:?}"
    );
}

/// An Outlook mail from these parts: names, and texts or bytes.
pub(crate) fn outlook(folders: &[&str], texts: &[(&str, &str)], properties: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
    for folder in folders {
        file.create_storage_all(folder).unwrap();
    }
    for (name, text) in texts {
        let text: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let (folder, number) = name.rsplit_once('/').unwrap();
        let name = format!("{folder}/__substg1.0_{number}001F");
        file.create_stream(name).unwrap().write_all(&text).unwrap();
    }
    for (folder, bytes) in properties {
        file.create_stream(format!("{folder}/__properties_version1.0")).unwrap().write_all(bytes).unwrap();
    }
    file.into_inner().into_inner()
}

#[test]
fn outlook_mails_have_recipients_and_attached_mails() {
    const TO: &str = "/__recip_version1.0_#00000000";
    const ATTACHED: &str = "/__attach_version1.0_#00000000";
    let inner = format!("{ATTACHED}/__substg1.0_3701000D");
    let at = |folder: &str, number: &str| format!("{folder}/{number}");
    let texts = [
        (at("", "0037"), "Outer"),
        (at("", "0C1A"), "Ada"),
        (at("", "5D01"), "ada@example.com"),
        (at("", "0E04"), "Grace"),
        (at("", "1000"), "See below."),
        (at(TO, "3001"), "Grace"),
        (at(TO, "39FE"), "grace@example.com"),
        (at(ATTACHED, "3001"), "what Bob wrote"),
        (at(&inner, "0037"), "Inner"),
        (at(&inner, "0C1A"), "Bob"),
        (at(&inner, "1000"), "The inner text."),
    ];
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    // A header, and a property: kind, number, flags, value.
    let list = |header: usize, property: [u8; 4], value: u64| {
        [vec![0; header], property.to_vec(), vec![0; 4], value.to_le_bytes().to_vec()].concat()
    };
    let properties = [
        ("", vec![0; 32]),
        (TO, list(8, [3, 0, 0x15, 0x0c], 1)),
        (&*inner, list(24, [0x40, 0, 0x39, 0], 116_444_736_000_000_000)),
    ];
    let shown = shown(&read("a.msg", &outlook(&[TO, &inner], &texts, &properties)));
    let expected = [
        "# Outer",
        "From: Ada <ada@example.com>\nTo: Grace <grace@example.com>",
        "See below.",
        "## Attachment: what Bob wrote",
        "# Inner",
        "From: Bob\nDate: 1970-01-01T00:00:00Z",
        "The inner text.",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn outlook_mails_may_be_rich_text_only() {
    // Made by another program.
    const PACKED: &str = "6f000000ab0000004c5a46752157811303000a00726370673132352232034374657805426269fc646903300103\
        01f70a8002a403e4cb071302807d0a81756300500b0931016433363003310bc4204814656c0900200352204f75e27409006f6b2e0aa2\
        0a80141fb06b2061670b7115357d17a0";
    let byte = |place: usize| u8::from_str_radix(&PACKED[place..place + 2], 16).unwrap();
    let packed: Vec<u8> = (0..PACKED.len()).step_by(2).map(byte).collect();
    let mail = |packed: &[u8]| {
        let texts = [("/0037", "Hi"), ("/0C1A", "Ada")];
        let bytes = outlook(&[], &texts, &[("", vec![0; 32])]);
        let mut file = cfb::CompoundFile::open(Cursor::new(bytes)).unwrap();
        file.create_stream("/__substg1.0_10090102").unwrap().write_all(packed).unwrap();
        read("a.msg", &file.into_inner().into_inner())
    };
    let expected = ["# Hi", "From: Ada", "Hello from Outlook.", "Hello from Outlook again."];
    assert_eq!(shown(&mail(&packed)), expected);
    assert_eq!(mail(&packed[..9]).warnings, ["the text of the mail is damaged and was left out"]);
}

#[test]
fn repeated_opendocument_cells_keep_their_positions() {
    let cell = |text: &str| format!("<table:table-cell><text:p>{text}</text:p></table:table-cell>");
    let empty = "<table:table-cell table:number-columns-repeated='2'/>";
    let rest = "<table:table-cell table:number-columns-repeated='16000'/>";
    let row = |cells: &[&str]| format!("<table:table-row>{}</table:table-row>", cells.concat());
    let rows = row(&[&cell("a"), empty, &cell("d"), rest]) + &row(&[empty, &cell("c")]);
    let bytes = opendocument(&format!("<office:text><table:table>{rows}</table:table></office:text>"));
    assert_eq!(shown(&read("a.odt", &bytes)), ["table(0) a|||d / ||c"]);
}

/// An OpenDocument file with this content.
pub(crate) fn opendocument(content: &str) -> Vec<u8> {
    archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        (
            "meta.xml",
            "<office:document-meta><office:meta><dc:title>A text</dc:title><meta:initial-creator>Ada</meta:initial-creator></office:meta></office:document-meta>",
        ),
        (
            "content.xml",
            &format!(
                "<office:document-content><office:automatic-styles><text:p>no text</text:p></office:automatic-styles><office:body>{content}</office:body></office:document-content>"
            ),
        ),
    ])
}

#[test]
fn opendocument_spreadsheets_list_comments_at_the_end() {
    let content = "<office:document-content><office:body><office:spreadsheet>
        <table:table table:name='Stock'>
          <table:table-row table:number-rows-repeated='3'>
            <table:table-cell/>
          </table:table-row>
          <table:table-row>
            <table:table-cell office:value-type='string'>
              <text:p>name<text:s/>of it</text:p>
            </table:table-cell>
            <table:table-cell office:value-type='string'><text:p>left</text:p></table:table-cell>
          </table:table-row>
          <table:table-row>
            <table:table-cell office:value-type='string' table:number-rows-spanned='2'>
              <text:p>Pen</text:p>
              <text:p>blue</text:p>
            </table:table-cell>
            <table:table-cell office:value-type='float' office:value='5'>
              <office:annotation><dc:creator>Ada</dc:creator>
                <text:p>Order<text:s/>more.</text:p><text:p>Or <text:span>not</text:span>?</text:p>
              </office:annotation>
              <text:p>5.00</text:p>
              <draw:custom-shape><svg:title>no text</svg:title><text:p>All <text:span>of</text:span> May</text:p></draw:custom-shape>
            </table:table-cell>
          </table:table-row>
          <table:table-row>
            <table:covered-table-cell/>
            <table:table-cell table:number-columns-repeated='2' office:value-type='date' office:date-value='2024-03-01T00:00:00'>
              <text:p>1.3.</text:p>
            </table:table-cell>
            <table:table-cell table:number-columns-repeated='24'/>
            <table:table-cell><office:annotation><text:p>Far away</text:p></office:annotation></table:table-cell>
          </table:table-row>
        </table:table>
        </office:spreadsheet></office:body></office:document-content>";
    let parts = [
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        ("META-INF/manifest.xml", "<manifest:manifest/>"),
        (
            "meta.xml",
            "<office:document-meta><office:meta><dc:title>Goods</dc:title></office:meta></office:document-meta>",
        ),
        ("content.xml", content),
    ];
    let parsed = read("a.ods", &archive(&parts));
    let expected = [
        "--- 1 Stock",
        "table(0) name of it|left / Pen blue|5 / Pen blue|2024-03-01|2024-03-01",
        "table(1) Shapes: Text / All of May",
        "table(1) Comments: Cell|Comment / B5|Order more. Or not? / AB6|Far away",
    ];
    assert_eq!(shown(&parsed), expected);
    assert_eq!(parsed.metadata["title"], "Goods");
}

#[test]
fn flat_opendocument_files_are_read_like_packed_ones() {
    let flat = |body: &str| {
        format!(
            "<?xml version='1.0'?><office:document xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0' \
             office:mimetype='application/vnd.oasis.opendocument.text'><office:meta><dc:title>Flat</dc:title></office:meta>\
             <office:styles><style:style><text:p>no text</text:p></style:style></office:styles>\
             <office:body a='1'>{body}</office:body></office:document>"
        )
    };
    let text = flat(
        "<office:text><text:h text:outline-level='2'>Title</text:h><text:p>One <draw:frame><draw:image>\
         <office:binary-data>AAAA</office:binary-data></draw:image></draw:frame>two</text:p><draw:frame><draw:object>\
         <office:document><text:p>chart</text:p></office:document></draw:object></draw:frame></office:text>",
    );
    for name in ["a.fodt", "a"] {
        let parsed = read(name, text.as_bytes());
        assert_eq!(shown(&parsed), ["## Title", "One two"]);
        assert_eq!(parsed.metadata["title"], "Flat");
        assert_eq!(parsed.warnings, ["an object in it was not read"]);
    }
    let sheet = flat(
        "<office:spreadsheet><table:table table:name='S'><table:table-row><table:table-cell office:value-type='float' \
         office:value='5'/></table:table-row></table:table></office:spreadsheet>",
    );
    assert_eq!(shown(&read("a.fods", sheet.as_bytes())), ["--- 1 S", "table(0) 5"]);
    // Charts, and sheets in a text, appear in the text itself.
    let object = |content: &str| format!("<draw:frame><draw:object>{content}</draw:object></draw:frame>");
    let inner = "<office:document><office:body><office:spreadsheet><table:table><table:table-row><table:table-cell><text:p>name</text:p>\
                 </table:table-cell><table:table-cell><text:p>Ada</text:p></table:table-cell></table:table-row></table:table>\
                 </office:spreadsheet></office:body></office:document>";
    let text =
        format!("<office:text><text:p>See {}here.</text:p>{}</office:text>", object(CHART), object(inner));
    let chart = "table(1) Fruit sold (Tonnes): Kind|2023 / Pears|22 / Plums";
    assert_eq!(shown(&read("a.fodt", flat(&text).as_bytes())), ["See here.", chart, "table(0) name|Ada"]);
    let sheet = format!(
        "<office:spreadsheet><table:table table:name='S'><table:shapes>{}</table:shapes><table:table-row>\
         <table:table-cell office:value-type='float' office:value='22'/></table:table-row></table:table></office:spreadsheet>",
        object(CHART)
    );
    let chart = "table(1) Charts: Chart|Labels|Values / Fruit sold|Kind|Tonnes";
    assert_eq!(shown(&read("a.fods", flat(&sheet).as_bytes())), ["--- 1 S", "table(0) 22", chart]);
    assert!(crate::build::reason("a.fodt", b"<office:document/>").contains("no body"));
}

/// A chart as in OpenDocument.
const CHART: &str = "<office:document-content><office:body><office:chart><chart:chart>
    <chart:title><text:p>Fruit sold</text:p></chart:title><chart:plot-area>
    <chart:axis chart:dimension='x'><chart:title><text:p>Kind</text:p></chart:title></chart:axis>
    <chart:axis chart:dimension='y'><chart:title><text:p>Tonnes</text:p></chart:title></chart:axis></chart:plot-area>
    <table:table><table:table-header-rows><table:table-row><table:table-cell><text:p/></table:table-cell>
    <table:table-cell><text:p>2023</text:p></table:table-cell></table:table-row></table:table-header-rows>
    <table:table-rows><table:table-row><table:table-cell><text:p>Pears</text:p><draw:g><svg:desc>Data.A2</svg:desc></draw:g>
    </table:table-cell><table:table-cell><text:p>22</text:p></table:table-cell></table:table-row>
    <table:table-row><table:table-cell><text:p>Plums</text:p></table:table-cell><table:table-cell><text:p>NaN</text:p>
    </table:table-cell></table:table-row></table:table-rows></table:table></chart:chart></office:chart></office:body>
    </office:document-content>";

#[test]
fn opendocument_objects_are_read_in_place() {
    let content = "<office:document-content><office:body><office:text>
        <text:p>See <draw:frame><draw:object xlink:href='./Object 1'><loext:p/></draw:object></draw:frame>here.</text:p>
        <text:p>As <draw:frame><draw:object xlink:href='./Object 2'/></draw:frame> holds.</text:p>
        <draw:frame><draw:object xlink:href='./Object 3'/></draw:frame>
        <draw:frame><draw:object xlink:href='./Object 4'/></draw:frame><text:p>The end.</text:p>
        </office:text></office:body></office:document-content>";
    let formula = "<math><semantics><mi>E</mi><annotation encoding='StarMath 5.0'>E = m c^2</annotation></semantics></math>";
    let sheet = "<office:document-content><office:body><office:spreadsheet><table:table><table:table-row>
        <table:table-cell><text:p>name</text:p></table:table-cell><table:table-cell><text:p>age</text:p></table:table-cell>
        </table:table-row><table:table-row><table:table-cell><text:p>Ada</text:p></table:table-cell>
        <table:table-cell><text:p>36</text:p></table:table-cell><table:table-cell table:number-columns-repeated='9000'/>
        </table:table-row></table:table></office:spreadsheet></office:body></office:document-content>";
    let bytes = archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        ("content.xml", content),
        ("Object 1/content.xml", CHART),
        ("Object 2/content.xml", formula),
        ("Object 3/content.xml", sheet),
        ("Object 4/content.xml", "<office:document-content/>"),
    ]);
    let parsed = read("a.odt", &bytes);
    let expected = [
        "See here.",
        "table(1) Fruit sold (Tonnes): Kind|2023 / Pears|22 / Plums",
        "As E = m c^2 holds.",
        "table(1) name|age / Ada|36",
        "The end.",
    ];
    assert_eq!(shown(&parsed), expected);
    assert_eq!(parsed.warnings, ["the object `Object 4` was not read"]);
}

#[test]
fn spreadsheet_charts_are_read_by_their_titles() {
    let content =
        "<office:document-content><office:body><office:spreadsheet><table:table table:name='S'><table:shapes>
        <draw:frame><draw:object xlink:href='./Object 1'/></draw:frame></table:shapes><table:table-row>
        <table:table-cell office:value-type='float' office:value='22'/></table:table-row></table:table>
        </office:spreadsheet></office:body></office:document-content>";
    let ods = archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        ("content.xml", content),
        ("Object 1/content.xml", CHART),
    ]);
    let told = "table(1) Charts: Chart|Labels|Values / Fruit sold|Kind|Tonnes";
    assert_eq!(shown(&read("a.ods", &ods)), ["--- 1 S", "table(0) 22", told]);
    let chart = |formula: &str| {
        format!(
            "<c:chart><c:title><c:tx><c:strRef><c:f>S!A1</c:f><c:strCache><c:pt idx='0'><c:v>Fruit sold</c:v></c:pt></c:strCache>
             </c:strRef></c:tx></c:title><c:plotArea><c:ser><c:cat><c:multiLvlStrRef><c:multiLvlStrCache><c:lvl>
             <c:pt idx='0'><c:v>Pears</c:v></c:pt><c:pt idx='1'><c:v>Plums</c:v></c:pt></c:lvl><c:lvl><c:pt idx='0'>
             <c:v>2023</c:v></c:pt></c:lvl></c:multiLvlStrCache></c:multiLvlStrRef></c:cat><c:val><c:numRef><c:f>{formula}</c:f>
             <c:numCache><c:pt idx='0'><c:v>22</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>
             <c:catAx><c:title><a:p><a:t>Kind</a:t></a:p></c:title></c:catAx>
             <c:valAx><c:title><a:p><a:t>Ton</a:t><a:t>nes</a:t></a:p></c:title></c:valAx></c:plotArea></c:chart>"
        )
    };
    let of_sheet = |formula: &str| {
        let mut files = sheet_parts();
        let chart = chart(formula);
        files.push(("xl/charts/chart1.xml", &chart));
        shown(&read("a.xlsx", &archive(&files))).pop().unwrap()
    };
    assert_eq!(of_sheet("S!$B$2:$B$3"), told);
    // No other format has them.
    let table = "table(1) Fruit sold (Tonnes): Kind / 2023 Pears|22 / Plums";
    assert_eq!(of_sheet("[1]S!$B$2:$B$3"), table);
}

#[test]
fn newer_chart_types_are_tables_too() {
    let chart = "<cx:chartSpace xmlns:cx='http://schemas.microsoft.com/office/drawing/2014/chartex'><cx:chartData><cx:data id='0'>
        <cx:strDim type='cat'><cx:f>S!$A$2:$A$3</cx:f><cx:lvl ptCount='2'><cx:pt idx='0'>Start</cx:pt><cx:pt idx='1'>End</cx:pt></cx:lvl>
        </cx:strDim><cx:numDim type='val'><cx:f>S!$B$2:$B$3</cx:f><cx:lvl ptCount='2'><cx:pt idx='0'>100</cx:pt><cx:pt idx='1'>80</cx:pt>
        </cx:lvl></cx:numDim></cx:data></cx:chartData><cx:chart><cx:title><cx:tx><cx:txData><cx:v>Cash</cx:v></cx:txData></cx:tx>
        <cx:txPr><a:p><a:r><a:t>Cash</a:t></a:r></a:p></cx:txPr></cx:title><cx:plotArea><cx:plotAreaRegion>
        <cx:series layoutId='waterfall'><cx:tx><cx:txData><cx:f>S!$B$1</cx:f><cx:v>2024</cx:v></cx:txData></cx:tx><cx:dataId val='0'/>
        </cx:series></cx:plotAreaRegion><cx:axis id='0'><cx:catScaling/><cx:title><cx:tx><cx:rich><a:p><a:r><a:t>Mo</a:t></a:r><a:r>
        <a:t>nth</a:t></a:r></a:p></cx:rich></cx:tx></cx:title></cx:axis><cx:axis id='1'><cx:valScaling/></cx:axis></cx:plotArea>
        </cx:chart></cx:chartSpace>";
    let table = "table(1) Cash: Month|2024 / Start|100 / End|80";
    let document = archive(&[
        ("_rels/.rels", &relations(&[("r1", "officeDocument", "word/document.xml")])),
        ("word/document.xml", "<w:document><w:p><w:r><w:t>Text</w:t></w:r></w:p></w:document>"),
        ("word/_rels/document.xml.rels", &relations(&[("r2", "chartEx", "charts/chartEx1.xml")])),
        ("word/charts/chartEx1.xml", chart),
    ]);
    assert_eq!(shown(&read("a.docx", &document)), ["Text", table]);
    let mut files = sheet_parts();
    files.push(("xl/charts/chartEx1.xml", chart));
    let told = "table(1) Charts: Chart|Labels|Values / Cash|Month";
    assert_eq!(shown(&read("a.xlsx", &archive(&files)))[2], told);
}

/// The parts of a workbook with one cell.
fn sheet_parts() -> Vec<(&'static str, &'static str)> {
    vec![
        ("[Content_Types].xml", "<Types/>"),
        (
            "_rels/.rels",
            "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'><Relationship Id='r1' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument' Target='xl/workbook.xml'/></Relationships>",
        ),
        (
            "xl/workbook.xml",
            "<workbook xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main' xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/relationships'><sheets><sheet name='S' sheetId='1' r:id='rId1'/></sheets></workbook>",
        ),
        (
            "xl/_rels/workbook.xml.rels",
            "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'><Relationship Id='rId1' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet' Target='worksheets/sheet1.xml'/></Relationships>",
        ),
        (
            "xl/worksheets/sheet1.xml",
            "<worksheet xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'><sheetData><row r='1'><c r='A1'><v>5</v></c></row></sheetData></worksheet>",
        ),
    ]
}

#[test]
fn opendocument_texts() {
    let bytes = opendocument(
        "<office:text><text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>
         <text:table-of-content><text:index-body><text:index-title><text:p>Contents</text:p></text:index-title>
         <text:p>Title 1</text:p></text:index-body></text:table-of-content>
         <text:h text:outline-level='2'>Title</text:h>
         <text:p>One<text:s text:c='2'/>two<text:note><text:note-citation>1</text:note-citation><text:note-body>
         <text:p>A note.</text:p></text:note-body></text:note><office:annotation><dc:creator>Grace</dc:creator>
         <text:p>Why?</text:p></office:annotation> three <text:a xlink:href='https://example.com/x'>here</text:a></text:p>
         <text:list><text:list-item><text:p>first</text:p><text:list><text:list-item><text:p>inner</text:p>
         </text:list-item></text:list></text:list-item></text:list>
         <table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>name</text:p></table:table-cell>
         <table:table-cell><text:p>age</text:p></table:table-cell></table:table-row></table:table-header-rows>
         <table:table-row><table:table-cell><text:p>Ada</text:p></table:table-cell><table:table-cell><text:p>36</text:p>
         </table:table-cell></table:table-row></table:table>
         <draw:frame><svg:title>A ship</svg:title></draw:frame></office:text>",
    );
    let parsed = read("a.odt", &bytes);
    let expected = [
        "## Title",
        "One two three here (https://example.com/x)",
        "A note.",
        "Comment (Grace): Why?",
        "* first",
        "  * inner",
        "table(1) name|age / Ada|36",
        "image A ship",
    ];
    assert_eq!(shown(&parsed), expected);
    assert_eq!((&parsed.metadata["title"], &parsed.metadata["author"]), (&"A text".into(), &"Ada".into()));
}

/// Styles of lists, and of heading numbers.
const LIST_STYLES: &str = "<text:list-style style:name='L'><text:list-level-style-number text:level='1' style:num-format='1' style:num-suffix='.'/>
        <text:list-level-style-number text:level='2' style:num-format='a' style:num-suffix=')' text:start-value='2' text:display-levels='2'/>
        </text:list-style><text:list-style style:name='B'><text:list-level-style-bullet text:level='1'/></text:list-style>";
const OUTLINE: &str = "<text:outline-style><text:outline-level-style text:level='1' style:num-format='I'/>
        <text:outline-level-style text:level='2' style:num-format='1' text:display-levels='2'/></text:outline-style>";

/// The result of a text with lists and headings in these styles.
const NUMBERED: [&str; 16] = [
    "# I One",
    "## I.1 Below",
    "# Aside",
    "* 1. first",
    "* more of it",
    "* 2. second",
    "  * 2.b) inner",
    "* between",
    "Text",
    "* 4. fourth",
    "* point",
    "* 1. anew",
    "* 7. seventh",
    "* 4. again",
    "table(0) 1.|red",
    "# II Two",
];

#[test]
fn opendocument_lists_and_headings_have_numbers() {
    let item = |inner: &str| format!("<text:list-item>{inner}</text:list-item>");
    let list =
        |attributes: &str, items: &[&str]| format!("<text:list {attributes}>{}</text:list>", items.concat());
    let body = [
        "<text:h text:outline-level='1'>One</text:h><text:h text:outline-level='2'>Below</text:h>",
        "<text:h text:outline-level='1' text:is-list-header='true'>Aside</text:h>",
        &list(
            "xml:id='l1' text:style-name='L'",
            &[
                &item("<text:p>first</text:p><text:p>more of it</text:p>"),
                &item(&format!("<text:p>second</text:p>{}", list("", &[&item("<text:p>inner</text:p>")]))),
                "<text:list-header><text:p>between</text:p></text:list-header>",
                &item("<text:p/>"),
            ],
        ),
        "<text:p>Text</text:p>",
        &list("text:style-name='L' text:continue-numbering='true'", &[&item("<text:p>fourth</text:p>")]),
        &list("text:style-name='B'", &[&item("<text:p>point</text:p>")]),
        &list(
            "text:style-name='L'",
            &[
                &item("<text:p>anew</text:p>"),
                "<text:list-item text:start-value='7'><text:p>seventh</text:p></text:list-item>",
            ],
        ),
        &list("text:style-name='L' text:continue-list='l1'", &[&item("<text:p>again</text:p>")]),
        "<table:table><table:table-row><table:table-cell>",
        &list("text:style-name='L'", &[&item("<text:p/>")]),
        "</table:table-cell><table:table-cell><text:p>red</text:p></table:table-cell></table:table-row></table:table>",
        "<text:h text:outline-level='1'>Two</text:h>",
    ];
    let content = format!(
        "<office:document-content><office:automatic-styles>{LIST_STYLES}</office:automatic-styles><office:body><office:text>{}</office:text></office:body></office:document-content>",
        body.concat()
    );
    let bytes = archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        (
            "styles.xml",
            &format!(
                "<office:document-styles><office:styles>{OUTLINE}</office:styles></office:document-styles>"
            ),
        ),
        ("content.xml", &content),
    ]);
    assert_eq!(shown(&read("a.odt", &bytes)), NUMBERED);
    let flat = format!(
        "<office:document xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0' office:mimetype='application/vnd.oasis.opendocument.text'>
         <office:styles>{OUTLINE}</office:styles><office:automatic-styles>{LIST_STYLES}</office:automatic-styles>
         <office:body><office:text>{}</office:text></office:body></office:document>",
        body.concat()
    );
    assert_eq!(shown(&read("a.fodt", flat.as_bytes())), NUMBERED);
}

#[test]
fn opendocument_presentations() {
    let bytes = opendocument(
        "<office:presentation><draw:page><draw:frame presentation:class='title'><draw:text-box><text:p>One</text:p>
         </draw:text-box></draw:frame><draw:frame><draw:text-box><text:list><text:list-item><text:p>a point</text:p>
         </text:list-item></text:list></draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box>
         <text:p>Say hello</text:p></draw:text-box></draw:frame><draw:frame><draw:text-box><text:p><text:span><text:page-number>
         &lt;number&gt;</text:page-number></text:span></text:p></draw:text-box></draw:frame></presentation:notes></draw:page>
         <draw:page><draw:frame><draw:text-box><text:p>The end</text:p></draw:text-box></draw:frame></draw:page>
         </office:presentation>",
    );
    let parsed = read("a.odp", &bytes);
    assert_eq!(shown(&parsed), ["--- 1 ", "# One", "* a point", "Notes: Say hello", "--- 2 ", "The end"]);
}

#[test]
fn charts_of_a_document_are_tables_after_it() {
    let chart = "<c:chart><c:title><a:t>Sales</a:t></c:title><c:ser><c:tx><c:v>2024</c:v></c:tx><c:cat><c:pt idx='0'><c:v>Pen</c:v></c:pt></c:cat>
        <c:val><c:pt idx='0'><c:v>5</c:v></c:pt></c:val></c:ser></c:chart>";
    let bytes = archive(&[
        ("_rels/.rels", &relations(&[("r1", "officeDocument", "word/document.xml")])),
        ("word/document.xml", "<w:document><w:p><w:r><w:t>Text</w:t></w:r></w:p></w:document>"),
        ("word/_rels/document.xml.rels", &relations(&[("r2", "chart", "charts/chart1.xml")])),
        ("word/charts/chart1.xml", chart),
    ]);
    assert_eq!(shown(&read("a.docx", &bytes)), ["Text", "table(1) Sales: |2024 / Pen|5"]);
}

#[test]
fn diagrams_are_lists() {
    let point = |id: &str, kind: &str, text: &str| {
        format!(
            "<dgm:pt modelId='{id}' {kind}><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>"
        )
    };
    let link = |above: &str, below: &str, order: u8| {
        format!("<dgm:cxn srcId='{above}' destId='{below}' srcOrd='{order}'/>")
    };
    let points = [
        point("1", "type='doc'", ""),
        point("2", "", "Make"),
        point("3", "type='node'", "Sell"),
        point("4", "", "by mail"),
        point("5", "type='pres'", "how it looks"),
        point("6", "", "alone"),
    ];
    let links = [
        link("1", "2", 1),
        link("1", "3", 0),
        link("3", "4", 0),
        // In a cycle.
        link("4", "3", 0),
        "<dgm:cxn type='presOf' srcId='2' destId='5'/>".to_owned(),
    ];
    let data = format!(
        "<dgm:dataModel><dgm:ptLst>{}</dgm:ptLst><dgm:cxnLst>{}</dgm:cxnLst></dgm:dataModel>",
        points.concat(),
        links.concat()
    );
    let slides = archive(&[
        ("_rels/.rels", &relations(&[("r1", "officeDocument", "ppt/presentation.xml")])),
        (
            "ppt/presentation.xml",
            "<p:presentation><p:sldIdLst><p:sldId r:id='r1'/></p:sldIdLst></p:presentation>",
        ),
        ("ppt/_rels/presentation.xml.rels", &relations(&[("r1", "slide", "slides/s1.xml")])),
        (
            "ppt/slides/s1.xml",
            "<p:sld><p:graphicFrame><a:graphicData><dgm:relIds r:dm='r2' r:lo='r3'/></a:graphicData></p:graphicFrame></p:sld>",
        ),
        ("ppt/slides/_rels/s1.xml.rels", &relations(&[("r2", "diagramData", "../diagrams/data1.xml")])),
        ("ppt/diagrams/data1.xml", &data),
    ]);
    let list = ["* Sell", "  * by mail", "* Make", "* alone"];
    assert_eq!(shown(&read("a.pptx", &slides))[1..], list);
    let document = archive(&[
        ("_rels/.rels", &relations(&[("r1", "officeDocument", "word/document.xml")])),
        ("word/document.xml", "<w:document><w:p><w:r><w:t>Text</w:t></w:r></w:p></w:document>"),
        ("word/_rels/document.xml.rels", &relations(&[("r2", "diagramData", "diagrams/data1.xml")])),
        ("word/diagrams/data1.xml", &data),
    ]);
    assert_eq!(shown(&read("a.docx", &document))[1..], list);
}

#[test]
fn slide_comments_are_read_in_part_order() {
    let bytes = archive(&[
        ("_rels/.rels", &relations(&[("r1", "officeDocument", "ppt/presentation.xml")])),
        (
            "ppt/presentation.xml",
            "<p:presentation><p:sldIdLst><p:sldId r:id='r1'/></p:sldIdLst></p:presentation>",
        ),
        ("ppt/_rels/presentation.xml.rels", &relations(&[("r1", "slide", "slides/s1.xml")])),
        ("ppt/slides/s1.xml", "<p:sld><p:sp><a:p><a:r><a:t>A slide</a:t></a:r></a:p></p:sp></p:sld>"),
        ("ppt/slides/_rels/s1.xml.rels", &remarks()),
        ("ppt/comments/c1.xml", "<p:cmLst><p:cm><p:text>Too short</p:text></p:cm></p:cmLst>"),
        (
            "ppt/comments/c2.xml",
            "<p:cmLst><p:cm><p:replyLst><p:reply><a:p><a:r><a:t>No</a:t></a:r></a:p></p:reply></p:replyLst>
             <p:txBody><a:p><a:r><a:t>Is it?</a:t></a:r></a:p></p:txBody></p:cm></p:cmLst>",
        ),
        ("ppt/comments/c10.xml", "<p:cmLst><p:cm><p:text>It is</p:text></p:cm></p:cmLst>"),
    ]);
    let remarks = ["Comment: Too short", "Comment: Is it?", "Comment: No", "Comment: It is"];
    assert_eq!(shown(&read("a.pptx", &bytes))[..2], ["--- 1 ", "A slide"]);
    assert_eq!(shown(&read("a.pptx", &bytes))[2..], remarks);
}

/// A slide's relationships to three comment parts, in an unrelated order.
fn remarks() -> String {
    let part = |id, number| (id, "comments", number);
    relations(&[
        part("r3", "../comments/c10.xml"),
        part("r1", "../comments/c2.xml"),
        part("r2", "../comments/c1.xml"),
    ])
}

#[test]
fn cell_comments_are_read() {
    let sheet = |comments: &[(&str, &str)]| {
        let workbook = "<workbook xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main' xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/relationships'><sheets><sheet name='S' sheetId='1' r:id='rId1'/></sheets></workbook>";
        let links = "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'><Relationship Id='rId1' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet' Target='worksheets/sheet1.xml'/></Relationships>";
        let main = relations(&[("r1", "officeDocument", "xl/workbook.xml")]);
        let data = "<worksheet xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'><sheetData><row r='1'><c r='A1'><v>5</v></c></row></sheetData></worksheet>";
        let mut files = vec![
            ("[Content_Types].xml", "<Types/>"),
            ("_rels/.rels", main.as_str()),
            ("xl/workbook.xml", workbook),
            ("xl/_rels/workbook.xml.rels", links),
            ("xl/worksheets/sheet1.xml", data),
        ];
        files.extend(comments);
        shown(&read("a.xlsx", &archive(&files)))
    };
    let old = (
        "xl/comments1.xml",
        "<comments><commentList><comment ref='A1'><text><r><t>Not </t></r><r><t>sure</t></r></text></comment></commentList></comments>",
    );
    assert_eq!(sheet(&[old])[2], "table(1) Comments: Cell|Comment / A1|Not sure");
    let shape = (
        "xl/drawings/drawing1.xml",
        "<xdr:wsDr><xdr:sp><xdr:txBody><a:p><a:r><a:t>As </a:t></a:r><a:r><a:t>of May</a:t></a:r></a:p><a:p><a:r><a:t>2024</a:t></a:r>
         </a:p></xdr:txBody></xdr:sp></xdr:wsDr>",
    );
    assert_eq!(sheet(&[old, shape])[2], "table(1) Shapes: Text / As of May 2024");
    let new = (
        "xl/threadedComments/threadedComment1.xml",
        "<ThreadedComments><threadedComment ref='A1'><text>Sure</text></threadedComment></ThreadedComments>",
    );
    assert_eq!(sheet(&[old, new])[2], "table(1) Comments: Cell|Comment / A1|Sure");
    assert_eq!(sheet(&[old, new]).len(), 3);
}

#[test]
fn a_title_above_a_table_is_not_its_header() {
    let cell = |place: &str, text: &str| format!("<c r='{place}' t='inlineStr'><is><t>{text}</t></is></c>");
    let sheet = format!(
        "<sheetData><row r='1'>{}</row><row r='2'>{}{}</row><row r='3'>{}{}</row></sheetData>",
        cell("A1", "Sales of 2024"),
        cell("A2", "product"),
        cell("B2", "sold"),
        cell("A3", "pen"),
        cell("B3", "five"),
    );
    let parsed = read("a.xlsx", &crate::build::xlsx(&sheet));
    assert_eq!(shown(&parsed)[1], "table(1) Sales of 2024: product|sold / pen|five");
}

#[test]
fn a_book_may_be_in_a_subfolder() {
    let bytes = archive(&[
        ("book/mimetype", "application/epub+zip"),
        (
            "book/META-INF/container.xml",
            "<container><rootfiles><rootfile full-path='OEBPS/book.opf'/></rootfiles></container>",
        ),
        (
            "book/OEBPS/book.opf",
            "<package><manifest><item id='a' href='one.xhtml'/></manifest><spine><itemref idref='a'/></spine></package>",
        ),
        ("book/OEBPS/one.xhtml", "<html><body><p>First text</p></body></html>"),
    ]);
    assert_eq!(shown(&read("a.epub", &bytes)), ["--- 1 ", "First text"]);
}

#[test]
fn a_book_without_a_spine_uses_file_order() {
    let bytes = archive(&[
        ("mimetype", "application/epub+zip"),
        (
            "META-INF/container.xml",
            "<container><rootfiles><rootfile full-path='book.opf'/></rootfiles></container>",
        ),
        (
            "book.opf",
            "<package><manifest><item id='s' href='a.css' media-type='text/css'/>
             <item id='z' href='one.xhtml' media-type='application/xhtml+xml'/><item id='b' href='two.HTML'/>
             <item id='n' href='nav.xhtml' properties='nav'/></manifest></package>",
        ),
        ("a.css", "p { color: red }"),
        ("one.xhtml", "<html><body><p>First text</p></body></html>"),
        ("two.HTML", "<html><body><p>Second text</p></body></html>"),
        ("nav.xhtml", "<html><body><p>nobody reads this</p></body></html>"),
    ]);
    assert_eq!(shown(&read("a.epub", &bytes)), ["--- 1 ", "First text", "--- 2 ", "Second text"]);
}

#[test]
fn utf_16_and_utf_32_text_is_read() {
    let text = "From: a@example.com\nTo: b@example.com\nSubject: Grüße\n\nText 数据.";
    let utf16: Vec<u8> =
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(shown(&read("a.eml", &utf16))[0], "# Grüße");
    let number = |letter: char| u32::from(letter).to_le_bytes();
    let utf32: Vec<u8> =
        std::iter::once('\u{feff}').chain("数据 and text".chars()).flat_map(number).collect();
    assert_eq!(shown(&read("a.txt", &utf32)), ["数据 and text"]);
    // A text that ends in the middle of a character is not one.
    assert!(!shown_or_reason(&utf32[..utf32.len() - 1]).contains("text"));
}

fn shown_or_reason(bytes: &[u8]) -> String {
    match weft_parse::parse("a.txt", bytes, &weft_parse::DocumentSettings::new()) {
        Ok(parsed) => shown(&parsed).join(" "),
        Err(error) => error.full(),
    }
}
