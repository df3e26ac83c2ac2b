//! Small files of every format, and views of the parsed result.

use std::io::{Cursor, Write as _};

use weft_parse::element::{ElementBody, Parsed};
use weft_parse::{DocumentSettings, parse};
use zip::write::SimpleFileOptions;

pub(crate) fn read(name: &str, bytes: &[u8]) -> Parsed {
    parse(name, bytes, &DocumentSettings::new()).unwrap_or_else(|error| panic!("{}", error.full()))
}

pub(crate) fn reason(name: &str, bytes: &[u8]) -> String {
    match parse(name, bytes, &DocumentSettings::new()) {
        Ok(parsed) => panic!("{name} was read: {:?}", parsed.elements.first()),
        Err(error) => error.full(),
    }
}

/// The parts, one line each.
pub(crate) fn shown(parsed: &Parsed) -> Vec<String> {
    parsed.elements.iter().map(|element| one_line(&element.body)).collect()
}

fn one_line(body: &ElementBody) -> String {
    match body {
        ElementBody::Heading { level, text } => format!("{} {text}", "#".repeat(usize::from(*level))),
        ElementBody::Paragraph(text) => text.clone(),
        ElementBody::Item { depth, text } => format!("{}* {text}", "  ".repeat(usize::from(*depth))),
        ElementBody::Code { language, text } => {
            format!("`{}` {text}", language.as_deref().unwrap_or_default())
        }
        ElementBody::Table(table) => {
            let rows: Vec<String> = table.rows.iter().map(|row| row.join("|")).collect();
            let caption = table.caption.as_ref().map(|caption| format!("{caption}: ")).unwrap_or_default();
            format!("table({}) {caption}{}", table.header_rows, rows.join(" / "))
        }
        ElementBody::Image { caption } => format!("image {caption}"),
        ElementBody::Break { number, name } => {
            format!("--- {number} {}", name.as_deref().unwrap_or_default())
        }
    }
}

/// All text of a file.
pub(crate) fn text(parsed: &Parsed) -> String {
    shown(parsed).join("\n")
}

pub(crate) fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    archive_of(&files.iter().map(|(name, text)| (*name, text.as_bytes())).collect::<Vec<_>>())
}

pub(crate) fn archive_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

pub(crate) fn relations(lines: &[(&str, &str, &str)]) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|(id, kind, target)| {
            let mode = if target.contains("://") { " TargetMode=\"External\"" } else { "" };
            format!("<Relationship Id=\"{id}\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}\" Target=\"{target}\"{mode}/>")
        })
        .collect();
    format!(
        "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">{}</Relationships>",
        lines.concat()
    )
}

/// A Word document with this body.
pub(crate) fn docx(body: &str) -> Vec<u8> {
    let relations = relations(&[
        ("r1", "styles", "styles.xml"),
        ("r2", "numbering", "numbering.xml"),
        ("r3", "footnotes", "footnotes.xml"),
        ("r4", "comments", "comments.xml"),
        ("r5", "hyperlink", "https://example.com/a"),
    ]);
    archive(&[
        ("word/document.xml", &format!("<w:document><w:body>{body}</w:body></w:document>")),
        ("word/_rels/document.xml.rels", &relations),
        (
            "word/styles.xml",
            "<w:styles><w:style w:styleId='H1'><w:name w:val='heading 1'/></w:style>
             <w:style w:styleId='Own'><w:basedOn w:val='H1'/><w:pPr><w:outlineLvl w:val='2'/></w:pPr></w:style>
             <w:style w:styleId='T1'><w:name w:val='toc 1'/></w:style></w:styles>",
        ),
        (
            "word/numbering.xml",
            "<w:numbering><w:abstractNum w:abstractNumId='0'><w:lvl w:ilvl='0'><w:start w:val='1'/>
             <w:numFmt w:val='decimal'/><w:lvlText w:val='%1.'/></w:lvl><w:lvl w:ilvl='1'><w:numFmt w:val='bullet'/>
             <w:lvlText w:val='x'/></w:lvl></w:abstractNum><w:num w:numId='7'><w:abstractNumId w:val='0'/></w:num>
             </w:numbering>",
        ),
        (
            "word/footnotes.xml",
            "<w:footnotes><w:footnote w:id='2'><w:p><w:r><w:t>the note</w:t></w:r></w:p></w:footnote></w:footnotes>",
        ),
        (
            "word/comments.xml",
            "<w:comments><w:comment w:id='0' w:author='Ada'><w:p><w:r><w:t>really?</w:t></w:r></w:p></w:comment>
             </w:comments>",
        ),
        (
            "docProps/core.xml",
            "<c:coreProperties><dc:title>The title</dc:title><dc:creator>Grace</dc:creator>
             <dcterms:modified>2024-01-02T03:04:05Z</dcterms:modified></c:coreProperties>",
        ),
    ])
}

pub(crate) fn pptx(slide: &str) -> Vec<u8> {
    archive(&[
        (
            "ppt/presentation.xml",
            "<p:presentation><p:sldIdLst><p:sldId id='1' r:id='r2'/><p:sldId id='2' r:id='r1'/></p:sldIdLst></p:presentation>",
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            &relations(&[("r1", "slide", "slides/s1.xml"), ("r2", "slide", "slides/s2.xml")]),
        ),
        ("ppt/slides/s2.xml", slide),
        ("ppt/slides/s1.xml", "<p:sld><p:sp><a:p><a:r><a:t>The last</a:t></a:r></a:p></p:sp></p:sld>"),
        ("ppt/slides/_rels/s2.xml.rels", &relations(&[("r1", "notesSlide", "../notes/n1.xml")])),
        (
            "ppt/notes/n1.xml",
            "<p:notes><p:sp><p:ph type='sldImg'/></p:sp><p:sp><p:ph type='body'/><a:p><a:r><a:t>Say hello</a:t></a:r></a:p>
             </p:sp></p:notes>",
        ),
    ])
}

pub(crate) fn xlsx(sheet: &str) -> Vec<u8> {
    archive(&[
        ("[Content_Types].xml", "<Types/>"),
        ("_rels/.rels", &relations(&[("r1", "officeDocument", "xl/workbook.xml")])),
        (
            "xl/workbook.xml",
            "<workbook xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main' xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/relationships'><sheets><sheet name='People' sheetId='1' r:id='rId1'/></sheets></workbook>",
        ),
        (
            "xl/_rels/workbook.xml.rels",
            "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'><Relationship Id='rId1' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet' Target='worksheets/sheet1.xml'/></Relationships>",
        ),
        (
            "xl/worksheets/sheet1.xml",
            &format!(
                "<worksheet xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'>{sheet}</worksheet>"
            ),
        ),
    ])
}

pub(crate) fn epub() -> Vec<u8> {
    archive(&[
        ("mimetype", "application/epub+zip"),
        (
            "META-INF/container.xml",
            "<container><rootfiles><rootfile full-path='OEBPS/book.opf'/></rootfiles></container>",
        ),
        (
            "OEBPS/book.opf",
            "<package><metadata><dc:title>A book</dc:title><dc:creator>Ada</dc:creator></metadata><manifest>
             <item id='b' href='two.xhtml'/><item id='a' href='one%201.xhtml'/><item id='n' href='nav.xhtml' properties='nav'/>
             </manifest><spine><itemref idref='n'/><itemref idref='a'/><itemref idref='b'/></spine></package>",
        ),
        ("OEBPS/one 1.xhtml", "<html><body><h1>One</h1><p>First text</p></body></html>"),
        ("OEBPS/two.xhtml", "<html><body><h1>Two</h1><p>Second text</p></body></html>"),
        ("OEBPS/nav.xhtml", "<html><body><p>nobody reads this</p></body></html>"),
    ])
}

pub(crate) const MAIL: &str = "From: Ada <ada@example.com>\r\nTo: grace@example.com\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\
    Date: Tue, 02 Jan 2024 03:04:05 +0000\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=xx\r\n\r\n\
    --xx\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nHello Grace.\r\n\r\nSee the table.\r\n--xx\r\n\
    Content-Type: text/csv\r\nContent-Disposition: attachment; filename=\"people.csv\"\r\n\r\nname,age\r\nAda,36\r\n--xx\r\n\
    Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=\"x.bin\"\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nAAECAwQFBgc=\r\n--xx--\r\n";

/// A PDF whose pages have these lines: font size, left edge, height from the bottom, text.
pub(crate) fn pdf(pages: &[Vec<(u32, u32, u32, String)>]) -> Vec<u8> {
    let content = |lines: &Vec<(u32, u32, u32, String)>| {
        lines
            .iter()
            .map(|(size, left, height, text)| format!("BT /F1 {size} Tf {left} {height} Td ({text}) Tj ET\n"))
            .collect()
    };
    pdf_of(&pages.iter().map(content).collect::<Vec<String>>())
}

/// A PDF whose pages are drawn by these commands. The font `F1` is upright, `F2` is bold.
pub(crate) fn pdf_of(pages: &[String]) -> Vec<u8> {
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        String::new(),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>".to_owned(),
    ];
    let mut kids = Vec::new();
    for content in pages {
        let page = objects.len() + 1;
        kids.push(format!("{page} 0 R"));
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {} 0 R /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>",
            page + 1
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{content}endstream", content.len()));
    }
    objects[1] = format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), kids.len());
    written(&objects.into_iter().map(String::into_bytes).collect::<Vec<_>>())
}

/// A PDF with a page that is drawn by these commands, and a form with these fields.
pub(crate) fn pdf_with_form(content: &str, fields: &[&str]) -> Vec<u8> {
    let numbers: Vec<String> = (6..6 + fields.len()).map(|number| format!("{number} 0 R")).collect();
    let numbers = numbers.join(" ");
    let mut objects = vec![
        format!("<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [{numbers}] >> >>"),
        "<< /Type /Pages /Kids [4 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 5 0 R /Annots [{numbers}] /Resources << /Font << /F1 3 0 R >> >> >>"
        ),
        format!("<< /Length {} >>\nstream\n{content}endstream", content.len()),
    ];
    objects.extend(fields.iter().map(|field| format!("<< /Type /Annot /Subtype /Widget {field} >>")));
    written(&objects.into_iter().map(String::into_bytes).collect::<Vec<_>>())
}

/// The objects of a PDF as a file.
pub(crate) fn written(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        places.push(bytes.len());
        bytes.extend_from_slice(format!("{} 0 obj\n", number + 1).as_bytes());
        bytes.extend_from_slice(object);
        bytes.extend_from_slice(b"\nendobj\n");
    }
    let start = bytes.len();
    bytes.extend_from_slice(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).as_bytes());
    for place in &places {
        bytes.extend_from_slice(format!("{place:010} 00000 n \n").as_bytes());
    }
    bytes.extend_from_slice(
        format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1)
            .as_bytes(),
    );
    bytes
}

/// A PDF with pages of 600 by 800 points, each with a line of text unless that is empty, and a full-page JPEG
/// of 850 by 1,100 pixels if there is one.
pub(crate) fn pdf_with_pictures(pages: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
    let pictures = pages.iter().map(|(text, jpeg)| {
        let head = "/Subtype /Image /Width 850 /Height 1100 /BitsPerComponent 8 /ColorSpace /DeviceGray /Filter /DCTDecode";
        (*text, jpeg.map(|jpeg| (head, jpeg)))
    });
    pdf_of_pictures(&pictures.collect::<Vec<_>>())
}

/// The same with pages rotated clockwise.
pub(crate) fn pdf_with_turned_pictures(pages: &[(&str, Option<&[u8]>)], degrees: u32) -> Vec<u8> {
    let upright = pdf_with_pictures(pages);
    // Objects are found by scanning the file, as its cross-reference table is wrong then.
    let (mut turned, mut from) = (Vec::new(), 0);
    let wanted = b"/MediaBox";
    while let Some(at) = upright[from..].windows(wanted.len()).position(|some| some == wanted) {
        turned.extend_from_slice(&upright[from..from + at]);
        turned.extend_from_slice(format!("/Rotate {degrees} /MediaBox").as_bytes());
        from += at + wanted.len();
    }
    turned.extend_from_slice(&upright[from..]);
    turned
}

/// A PDF with a picture that declares more pixels than anybody would read.
pub(crate) fn pdf_with_bomb() -> Vec<u8> {
    let head = "/Subtype /Image /Width 60000 /Height 60000 /BitsPerComponent 8 /ColorSpace /DeviceGray /Filter /FlateDecode";
    pdf_of_pictures(&[("Text beside it", Some((head, b"x\x9c")))])
}

/// A PDF whose pages are pictures: the dictionary of each, with `{shared}` for the object number of their
/// shared data, and its bytes.
pub(crate) fn pdf_with_scans(scans: &[(String, &[u8])], shared: &[u8]) -> Vec<u8> {
    // After three objects of the document and three of each page.
    let number = (4 + 3 * scans.len()).to_string();
    let heads: Vec<String> = scans.iter().map(|(head, _)| head.replace("{shared}", &number)).collect();
    let pages: Vec<PageOfPictures<'_>> =
        heads.iter().zip(scans).map(|(head, (_, bytes))| ("", Some((head.as_str(), *bytes)))).collect();
    let mut objects = objects_of_pictures(&pages);
    objects.push(stream("", shared));
    written(&objects)
}

/// The text of a page, and the filter and bytes of its picture.
type PageOfPictures<'a> = (&'a str, Option<(&'a str, &'a [u8])>);

/// Pages with a text and a picture: its dictionary and its bytes.
fn pdf_of_pictures(pages: &[PageOfPictures<'_>]) -> Vec<u8> {
    written(&objects_of_pictures(pages))
}

fn stream(head: &str, bytes: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {head} /Length {} >>\nstream\n", bytes.len()).into_bytes();
    object.extend_from_slice(bytes);
    object.extend_from_slice(b"\nendstream");
    object
}

fn objects_of_pictures(pages: &[PageOfPictures<'_>]) -> Vec<Vec<u8>> {
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        Vec::new(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
    ];
    let mut kids = Vec::new();
    for (text, picture) in pages {
        let page = objects.len() + 1;
        kids.push(format!("{page} 0 R"));
        let shown = if picture.is_some() { "q 600 0 0 800 0 0 cm /I Do Q\n" } else { "" };
        let said =
            if text.is_empty() { String::new() } else { format!("BT /F1 12 Tf 50 700 Td ({text}) Tj ET\n") };
        let (content, image) = (page + 1, page + 2);
        let images = if picture.is_some() { format!("/XObject << /I {image} 0 R >>") } else { String::new() };
        objects.push(
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {content} 0 R /Resources << /Font << /F1 3 0 R >> {images} >> >>"
            )
            .into_bytes(),
        );
        objects.push(stream("", format!("{said}{shown}").as_bytes()));
        if let Some((head, bytes)) = picture {
            objects.push(stream(head, bytes));
        }
    }
    objects[1] = format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), kids.len()).into_bytes();
    objects
}

/// A file of every format.
pub(crate) fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let lines = vec![(20, 50, 700, "A title".to_owned()), (10, 50, 600, "Some text of a page.".to_owned())];
    vec![
        ("a.pdf", pdf(&[lines])),
        ("a.doc", crate::office::unpacked(include_bytes!("files/report.doc.zip"))),
        ("a.odt", crate::office::opendocument("<office:text><text:h text:outline-level='1'>A</text:h><text:p>b</text:p><table:table><table:table-row><table:table-cell><text:p>c</text:p></table:table-cell></table:table-row></table:table></office:text>")),
        ("a.docx", docx("<w:p><w:pPr><w:pStyle w:val='H1'/></w:pPr><w:r><w:t>A</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>c</w:t></w:r></w:p></w:tc></w:tr></w:tbl>")),
        ("a.pptx", pptx("<p:sld><p:sp><p:ph type='title'/><a:p><a:r><a:t>A</a:t></a:r></a:p></p:sp></p:sld>")),
        ("a.xlsx", xlsx("<sheetData><row r='1'><c r='A1' t='inlineStr'><is><t>name</t></is></c><c r='B1'><v>1</v></c></row></sheetData>")),
        ("a.epub", epub()),
        ("a.rtf", br"{\rtf1{\fonttbl{\f0\fcharset128 A;}}{\stylesheet{\s1 heading 1;}}\pard\s1 A\par\pard\f0\'83\'41{\footnote b}\par\trowd\cellx1\pard\intbl c\cell\row}".to_vec()),
        ("a.eml", MAIL.as_bytes().to_vec()),
        ("a.html", b"<h1>A</h1><ul><li>b<li>c</ul><table><tr><th>x<td rowspan=2>y<tr><td>z</table><pre>p</pre>".to_vec()),
        ("a.xml", b"<?xml version='1.0'?><a><b c='d'>e</b><f>g</f>h</a>".to_vec()),
        ("a.rss", b"<rss><channel><title>A</title><item><title>B</title><description>&lt;p&gt;c</description></item></channel></rss>".to_vec()),
        ("a.ipynb", br##"{"nbformat":4,"metadata":{},"cells":[{"cell_type":"markdown","source":["# A\n","b"]},{"cell_type":"code","source":"1+1","outputs":[{"output_type":"execute_result","data":{"text/plain":["2"]}}]}]}"##.to_vec()),
        ("a.json", br#"{"a": [1, {"b": null}], "c": "d"}"#.to_vec()),
        ("a.md", b"---\ntitle: T\n---\n# A\n\n1. b\n   - c\n\n|x|y|\n|-|-|\n|1|2|\n\n```rust\nfn a() {}\n```\n[l](http://x.example) ![i](j)\n".to_vec()),
        ("a.csv", b"a,b\n1,\"2\n3\"\n".to_vec()),
        ("a.py", b"print('a')\n".to_vec()),
        ("a.txt", b"One.\nTwo.\n\nThree.\n".to_vec()),
    ]
}
