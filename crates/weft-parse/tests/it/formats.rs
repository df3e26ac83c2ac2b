//! The parsed contents of each format.

use weft_parse::DocumentSettings;

use crate::build::{MAIL, archive, docx, epub, pdf, pptx, read, samples, shown, text, xlsx};

fn check(name: &str, bytes: impl AsRef<[u8]>, expected: &[&str]) {
    assert_eq!(shown(&read(name, bytes.as_ref())), expected, "{name}");
}

#[test]
fn text_and_code() {
    check("a.txt", "One.\r\nTwo.\r\n\r\nThree.", &["One.\nTwo.", "Three."]);
    check("a.txt", "What is tea?\tA  drink\t\nsee\tthis", &["What is tea?\tA drink\nsee\tthis"]);
    check("a.rs", "fn a() {\n    b();\n}\n", &["`rust` fn a() {\n    b();\n}"]);
    check("a.csv", "name;age\nAda;36\n\nGrace;45\n", &["table(1) name|age / Ada|36 / Grace|45"]);
    check("a.tsv", "Ada\t36\nGrace\t45\n", &["table(0) Ada|36 / Grace|45"]);
    let (japanese, ..) = encoding_rs::SHIFT_JIS.encode("名前,年齢\n佐藤太郎,30\n");
    check("a.csv", japanese, &["table(1) 名前|年齢 / 佐藤太郎|30"]);
    check("a.csv", "sep=;\r\nname;age\r\nAda;36,5\r\n", &["table(1) name|age / Ada|36,5"]);
    check("a.csv", "\u{feff}sep=;\nname;age\nAda;36\n", &["table(1) name|age / Ada|36"]);
    // An unclosed quote affects only its row.
    let torn = "name,note\nAda,\"open\nBob,\"a, b\"\nCy,\"two\nlines\"\nDan,\"\nEve,end\n";
    let rows = "table(1) name|note / Ada|\"open / Bob|a, b / Cy|two lines / Dan|\" / Eve|end";
    check("a.csv", torn, &[rows]);
    assert!(read("a.csv", torn.as_bytes()).warnings[0].ends_with("read as text (2)"));
    check("a.csv", "# People\nname,age\nAda,36\n", &["table(1) # People: name|age / Ada|36"]);
    check("a.csv", "name,\na,1\nb,2\n", &["table(0) name / a|1 / b|2"]);
}

#[test]
fn markdown() {
    let source = "---\ntitle: \"The title\"\ndate: 2024-01-02\n---\n# One\nwrapped\nline\\\nbroken\n\n1. first\n2. second\n   - inner\n\n\
        | a | b |\n|---|---|\n| 1 | `2` |\n\n```python title=x\nprint()\n```\n\nSee [the site](https://example.com/x) and [this](#one).\n\n\
        ![A chart](x.png)\n\n<div><p>from <b>HTML</b></div>\n\nText[^n] and $x^2$.\n\n[^n]: The note.\n\n> quoted\n";
    check("a.md", "A PDF begins with `%PDF-1.7`.", &["A PDF begins with %PDF-1.7."]);
    check("a.md", "10<sup>3</sup> m<sup>2</sup>, the 1<sup>st</sup> 2", &["10^3 m2, the 1st 2"]);
    check("a.md", "# One\r\rfirst\rline\r\r## Two\r\rlast\r", &["# One", "first line", "## Two", "last"]);
    let parsed = read("a.md", source.as_bytes());
    assert_eq!(parsed.metadata["title"], "The title");
    assert_eq!(parsed.metadata["date"], "2024-01-02");
    check(
        "a.md",
        source,
        &[
            "# One",
            "wrapped line\nbroken",
            "* 1. first",
            "* 2. second",
            "  * inner",
            "table(1) a|b / 1|2",
            "`python` print()",
            "See the site (https://example.com/x) and this.",
            "image A chart",
            "from HTML",
            "Text[n] and x^2.",
            "[n] The note.",
            "quoted",
        ],
    );
}

#[test]
fn html() {
    let source = "<!doctype html><html><head><title>T</title><meta name=author content=Ada><style>x</style></head><body>
        <nav>menu</nav><h2>Two <i>words</i></h2><p>A<br>b  c <a href=x>link</a> <img alt=pic src=x></p>
        <ul><li>one<ol start=3><li>inner</ol><li><p>two</ul><img alt='A chart'>
        <table><caption>Cap<tr><th>h<th>i<tr><td rowspan=2>1<td>2<tr><td>3</table>
        <table><tr><td>layout only</table>
        <pre class=language-sh>a\n  b</pre><script>no()</script><div style='display: none'>hidden</div>text<footer>foot</footer>";
    let parsed = read("a.html", source.as_bytes());
    assert_eq!(parsed.metadata["title"], "T");
    assert_eq!(parsed.metadata["author"], "Ada");
    check(
        "a.html",
        source,
        &[
            "## Two words",
            "A\nb c link pic",
            "* one",
            "  * 3. inner",
            "* two",
            "image A chart",
            "table(1) Cap: h|i / 1|2 / 1|3",
            "layout only",
            "`sh` a\n  b",
            "text",
        ],
    );
    check(
        "a.html",
        "<table><tr><td>menu<td><h1>Title</h1><p>Text</p><table><tr><th>a<th>b<tr><td>1<td>2</table>end</table>",
        &["menu", "# Title", "Text", "table(1) a|b / 1|2", "end"],
    );
    // The main content is what the page declares, unless that is almost nothing.
    check("a.html", "<body><p>menu</p><main><p>the text of the page</p></main>", &["the text of the page"]);
    check(
        "a.html",
        "<body><p>the text of the page, all of it</p><main>x</main>",
        &["the text of the page, all of it", "x"],
    );
    check("a.html", b"<meta charset=iso-8859-1><p>caf\xe9", &["café"]);
    let list = "<ol type=a start=3><li>x<li value=7>y<li>z</ol><ol type=I><li>one</ol>";
    check("a.html", list, &["* c. x", "* g. y", "* h. z", "* I. one"]);
    let formula = "<p>Let <math><mfrac><mrow><mi>a</mi>\n<mo>+</mo>\n<mi>b</mi></mrow><mn>2</mn></mfrac> <mo>=</mo>\n<msup><mi>x</mi>
        <mn>2</mn></msup></math> be <math><semantics><mrow><mn>1</mn>\n<mo>,</mo>\n<mn>000</mn></mrow>
        <annotation encoding='application/x-tex'>1{,}000</annotation></semantics></math>.</p>";
    check("a.html", formula, &["Let (a+b)/2=x^2 be 1,000."]);
    let raised = "<p>10<sup>3</sup> m<sup>2</sup>, the 1<sup>st</sup> of 5,000<sup> <a href='#n'>1</a></sup>";
    check("a.html", raised, &["10^3 m2, the 1st of 5,000^ 1"]);
}

#[test]
fn json_and_xml() {
    check("a.jsonl", "{\"q\": 1}\n{\"q\": 2}\n", &["q: 1", "q: 2"]);
    check("a.json5", "{\"q\": 1}", &["q: 1"]);
    check("a.json5", "// Ports\n{web: 80, 'api': 0x50,}\n", &["`` // Ports\n{web: 80, 'api': 0x50,}"]);
    check(
        "a.xml",
        "<?xml version='1.0'?><people xmlns='x'><person id='1'><name>Ada</name><age>36</age></person></people>",
        &["id: 1\nname: Ada\nage: 36"],
    );
    check(
        "a.rss",
        "<rss><channel><title>News</title><image><title>no</title></image><item><title>One &amp;amp; two</title>
         <dc:creator>Ada</dc:creator><link>http://x.example/1</link><description><![CDATA[<p>Short]]></description>
         <content:encoded><![CDATA[<p>The <b>text</b></p><ul><li>i</ul>]]></content:encoded></item></channel></rss>",
        &["# News", "## One & two", "Ada · http://x.example/1", "The text", "* i"],
    );
    check(
        "a.atom",
        "<feed><title>Blog</title><entry><title>E</title><author><name>Ada</name></author><link href='http://x.example/2'/>
         <updated>2024-01-02</updated><summary>Text</summary></entry></feed>",
        &["# Blog", "## E", "Ada · 2024-01-02 · http://x.example/2", "Text"],
    );
    check(
        "a.atom",
        "<feed><title>Blog</title><entry><title>E</title><category term='law'/><category term='law'/><category term='tax'/>
         <content type='xhtml'><div><h3>Why</h3><p>a &lt; b, and <b>so</b> on</p></div></content></entry></feed>",
        &["# Blog", "## E", "### Why", "a < b, and so on", "law, tax"],
    );
    // Elements unknown to feed formats are kept.
    check("a.rss", "<rss><channel><docs>See the manual</docs></channel></rss>", &["docs: See the manual"]);
    let notebook = samples().into_iter().find(|(name, _)| *name == "a.ipynb").unwrap().1;
    check("a.ipynb", notebook, &["# A", "b", "`` 1+1", "`` 2"]);
    check(
        "a.ipynb",
        r#"{"nbformat":3,"metadata":{},"worksheets":[{"cells":[{"cell_type":"heading","level":2,"source":["A"]},
         {"cell_type":"code","input":["1+1"],"outputs":[{"output_type":"pyout","text":["2"]}]}]}]}"#,
        &["## A", "`` 1+1", "`` 2"],
    );
    // Content displayed in other ways than plain text.
    check(
        "a.ipynb",
        r##"{"nbformat":4,"metadata":{},"cells":[{"cell_type":"code","source":"show()","outputs":[
         {"output_type":"display_data","data":{"text/plain":["<IPython.core.display.Markdown object>"],"text/markdown":["# B\n","**c**"]}},
         {"output_type":"display_data","data":{"text/plain":"<IPython.core.display.HTML object>","text/html":"<p>d <b>e</b></p>"}},
         {"output_type":"display_data","data":{"text/latex":"$f$"}},
         {"output_type":"display_data","data":{"text/plain":"<Figure size 1x1>","image/png":"AAAA"}},
         {"output_type":"display_data","data":{"image/png":"AAAA"}}]}]}"##,
        &["`` show()", "# B", "c", "d e", "$f$", "`` <Figure size 1x1>"],
    );
}

#[test]
fn word_documents() {
    let run = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
    let paragraph = |properties: &str, inner: &str| format!("<w:p><w:pPr>{properties}</w:pPr>{inner}</w:p>");
    let item = |level: u8, text: &str| {
        paragraph(&format!("<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='7'/></w:numPr>"), &run(text))
    };
    let cell = |properties: &str, text: &str| {
        format!("<w:tc><w:tcPr>{properties}</w:tcPr><w:p>{}</w:p></w:tc>", run(text))
    };
    let body = [
        paragraph("<w:pStyle w:val='T1'/>", &run("One … 1")),
        paragraph("<w:pStyle w:val='H1'/>", &run("One")),
        paragraph("<w:pStyle w:val='Own'/>", &run("Three")),
        item(0, "first"),
        item(1, "inner"),
        item(0, "second"),
        paragraph(
            "",
            &format!(
                "{}<w:r><w:footnoteReference w:id='2'/></w:r><w:r><w:commentReference w:id='0'/></w:r>",
                run("said")
            ),
        ),
        paragraph(
            "",
            &format!("<w:hyperlink r:id='r5'>{}</w:hyperlink><w:del>{}</w:del>", run("site"), run("gone")),
        ),
        paragraph("", "<w:r><w:drawing><wp:docPr descr='A chart'/></w:drawing></w:r>"),
        paragraph(
            "",
            "<m:oMath><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f></m:oMath>",
        ),
        format!(
            "<w:tbl><w:tr>{}{}</w:tr><w:tr>{}{}</w:tr><w:tr>{}{}</w:tr></w:tbl>",
            cell("", "h"),
            cell("", "i"),
            cell("<w:vMerge w:val='restart'/>", "x"),
            cell("", "1"),
            cell("<w:vMerge/>", ""),
            cell("", "2")
        ),
        paragraph(
            "",
            "<mc:AlternateContent><mc:Choice><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></mc:Choice><mc:Fallback><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent><w:r><w:t>around</w:t></w:r>",
        ),
    ];
    let bytes = docx(&body.concat());
    check(
        "a.docx",
        &bytes,
        &[
            "# One",
            "### Three",
            "* 1. first",
            "  * inner",
            "* 2. second",
            "said[2]",
            "[2] the note",
            "Comment (Ada): really?",
            "site (https://example.com/a)",
            "image A chart",
            "a/b",
            "table(1) h|i / x|1 / x|2",
            "box",
            "around",
        ],
    );
    let metadata = read("a.docx", &bytes).metadata;
    assert_eq!((&metadata["title"], &metadata["author"]), (&"The title".into(), &"Grace".into()));
    assert_eq!(metadata["date"], "2024-01-02T03:04:05Z");
}

#[test]
fn word_numbering_is_as_displayed() {
    let run = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
    let item = |properties: &str, inner: &str| {
        let list = "<w:numPr><w:ilvl w:val='0'/><w:numId w:val='7'/></w:numPr>";
        format!("<w:p><w:pPr>{list}{properties}</w:pPr>{inner}</w:p>")
    };
    let cell = |inner: &str| format!("<w:tc>{inner}</w:tc>");
    let row = |text: &str| {
        format!("<w:tr>{}{}</w:tr>", cell(&item("", "")), cell(&format!("<w:p>{}</w:p>", run(text))))
    };
    let deleted = "<w:rPr><w:del w:id='1'/></w:rPr>";
    let gone = format!("<w:del w:id='2'>{}</w:del>", run("gone"));
    let body = [
        item("", &run("one")),
        item(deleted, &gone),
        item("", ""),
        item("", &run("three")),
        format!("<w:tbl>{}{}</w:tbl>", row("red"), row("blue")),
    ];
    check("a.docx", docx(&body.concat()), &["* 1. one", "* 3. three", "table(0) 4.|red / 5.|blue"]);
    let raised = "<w:r><w:rPr><w:vertAlign w:val='superscript'/></w:rPr><w:t>3</w:t></w:r>";
    let powers = format!("<w:p>{}{raised}{}{raised}</w:p>", run("10"), run(" m"));
    check("a.docx", docx(&powers), &["10^3 m3"]);
    let sign = |font: &str, code: &str| format!("<w:r><w:sym w:font='{font}' w:char='{code}'/></w:r>");
    let form = format!(
        "<w:p>{}{}{}{}{}</w:p>",
        sign("Wingdings", "F0FE"),
        run(" yes "),
        sign("Wingdings", "F06F"),
        run(" no "),
        sign("Symbol", "F061")
    );
    check("a.docx", docx(&form), &["☑ yes ☐ no α"]);
}

#[test]
fn a_table_of_contents_is_recognised_by_its_container() {
    let paragraph =
        |style: &str, text: &str| format!("<w:p><w:pPr>{style}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>");
    let held = |kind: &str, inner: &str| {
        let kind = format!("<w:docPartObj><w:docPartGallery w:val='{kind}'/></w:docPartObj>");
        format!("<w:sdt><w:sdtPr>{kind}</w:sdtPr><w:sdtContent>{inner}</w:sdtContent></w:sdt>")
    };
    let field =
        "<w:sdt><w:sdtPr/><w:sdtContent><w:p><w:r><w:t>Two 2</w:t></w:r></w:p></w:sdtContent></w:sdt>";
    let lines = [paragraph("<w:pStyle w:val='H1'/>", "Contents"), paragraph("", "One 1"), field.to_owned()];
    let body = [
        held("Table of Contents", &lines.concat()),
        held("Cover Pages", &paragraph("", "A report")),
        paragraph("", "Text"),
    ];
    check("a.docx", docx(&body.concat()), &["# Contents", "A report", "Text"]);
}

#[test]
fn word_properties_are_those_after_tracked_changes() {
    let before = "<w:pPrChange w:id='1'><w:pPr><w:pStyle w:val='T1'/><w:numPr><w:numId w:val='7'/></w:numPr></w:pPr></w:pPrChange>";
    let hidden = "<w:rPr><w:rPrChange w:id='2'><w:rPr><w:vanish/></w:rPr></w:rPrChange></w:rPr>";
    let body =
        format!("<w:p><w:pPr><w:pStyle w:val='H1'/>{before}</w:pPr><w:r>{hidden}<w:t>One</w:t></w:r></w:p>");
    check("a.docx", docx(&body), &["# One"]);
}

#[test]
fn presentations() {
    let slide = "<p:sld><p:sp><p:ph type='title'/><a:p><a:r><a:t>Title</a:t></a:r></a:p></p:sp>
        <p:sp><p:ph idx='1'/><a:p><a:r><a:t>one</a:t></a:r></a:p><a:p><a:pPr lvl='1'/><a:r><a:t>two</a:t></a:r></a:p></p:sp>
        <p:sp><p:ph type='sldNum'/><a:p><a:r><a:t>7</a:t></a:r></a:p></p:sp>
        <p:pic><p:cNvPr descr='A chart'/></p:pic>
        <p:graphicFrame><a:tbl><a:tr><a:tc><a:p><a:r><a:t>a</a:t></a:r></a:p></a:tc><a:tc><a:p><a:r><a:t>b</a:t></a:r></a:p></a:tc></a:tr></a:tbl></p:graphicFrame></p:sld>";
    let parsed = read("a.pptx", &pptx(slide));
    assert_eq!(
        shown(&parsed),
        [
            "--- 1 ",
            "# Title",
            "* one",
            "  * two",
            "image A chart",
            "table(0) a|b",
            "Notes: Say hello",
            "--- 2 ",
            "The last"
        ]
    );
    assert_eq!((parsed.pages, parsed.elements[8].positions[0].page), (2, 2));
}

#[test]
fn slide_list_items_have_their_numbers() {
    let point = |properties: &str, text: &str| {
        format!("<a:p><a:pPr {properties}</a:pPr><a:r><a:t>{text}</a:t></a:r></a:p>")
    };
    let counted = "><a:buAutoNum type='arabicPeriod' startAt='3'/>";
    let below = "lvl='1'><a:buAutoNum type='alphaLcParenR'/>";
    let points = [
        point(counted, "third"),
        point(below, "inner"),
        point(below, "next"),
        point(counted, ""),
        point(counted, "fourth"),
        point(below, "anew"),
        point(">", "without"),
        point(counted, "begins again"),
    ];
    let shape = format!("<p:sp><p:ph idx='1'/>{}</p:sp>", points.concat());
    let other = format!("<p:sp>{}</p:sp>", point("><a:buAutoNum type='romanUcParenBoth'/>", "box"));
    let found = shown(&read("a.pptx", &pptx(&format!("<p:sld>{shape}{other}</p:sld>"))));
    let expected = [
        "* 3. third",
        "  * a) inner",
        "  * b) next",
        "* 4. fourth",
        "  * a) anew",
        "* without",
        "* 3. begins again",
        "* (I) box",
    ];
    assert_eq!(found[1..9], expected);
}

#[test]
fn spreadsheets() {
    let sheet = "<sheetData><row r='2'><c r='B2' t='inlineStr'><is><t>name</t></is></c><c r='C2' t='inlineStr'><is><t>age</t></is></c></row>
        <row r='3'><c r='B3' t='inlineStr'><is><t>Ada</t></is></c><c r='C3'><v>36</v></c></row>
        <row r='4'><c r='C4'><v>36.5</v></c></row></sheetData><mergeCells count='1'><mergeCell ref='B3:B4'/></mergeCells>";
    check("a.xlsx", xlsx(sheet), &["--- 1 People", "table(1) name|age / Ada|36 / Ada|36.5"]);
}

#[test]
fn formulas_without_values_are_reported() {
    let cell = |place: &str, inner: &str| format!("<c r='{place}'>{inner}</c>");
    let shared = "<f t='shared' ref='B3:B4' si='4000000000'>A3*2</f>";
    let sheet = [
        "<sheetData><row r='1'><c r='A1' t='inlineStr'><is><t>price</t></is></c><c r='B1' t='inlineStr'><is><t>double</t></is></c></row>",
        &format!("<row r='2'>{}{}</row>", cell("A2", "<v>2</v>"), cell("B2", "<f>A2*2</f><v>4</v>")),
        &format!("<row r='3'>{}{}</row>", cell("A3", "<v>3</v>"), cell("B3", shared)),
        &format!(
            "<row r='4'>{}{}</row>",
            cell("A4", "<v>5</v>"),
            cell("B4", "<f t='shared' si='4000000000'/>")
        ),
        "<row r='5'><c r='A5'><f>SUM(A2:A4)</f><v/></c><c r='B5' t='str'><f>IF(A2>1,\"\",1)</f><v></v></c></row></sheetData>",
    ];
    let parsed = read("a.xlsx", &xlsx(&sheet.concat()));
    assert_eq!(shown(&parsed)[1], "table(1) price|double / 2|4 / 3|=A3*2 / 5 / =SUM(A2:A4)");
    assert_eq!(parsed.warnings.len(), 1);
    assert!(parsed.warnings[0].contains("not in the file (3)"), "{:?}", parsed.warnings);
    let content = "<office:document-content><office:body><office:spreadsheet><table:table table:name='S'><table:table-row>
        <table:table-cell table:formula='of:=SUM([.A2:.A3])'/>
        <table:table-cell table:formula='of:=[.A2]*2' office:value-type='float' office:value='4'/>
        <table:table-cell table:formula='of:=T([.A2])' office:value-type='string'/>
        </table:table-row></table:table></office:spreadsheet></office:body></office:document-content>";
    let parts = [("mimetype", "application/vnd.oasis.opendocument.spreadsheet"), ("content.xml", content)];
    let parsed = read("a.ods", &archive(&parts));
    assert_eq!(shown(&parsed)[1], "table(0) =SUM([.A2:.A3])|4");
    assert!(parsed.warnings[0].contains("not in the file (1)"), "{:?}", parsed.warnings);
}

#[test]
fn values_are_read_even_if_formulas_are_broken() {
    let with = |formula: &str| {
        let sheet = format!(
            "<sheetData><row r='1'><c r='A1' t='inlineStr'><is><t>price</t></is></c><c r='B1' t='inlineStr'><is><t>double</t></is></c></row>
             <row r='2'><c r='A2'><v>2</v></c><c r='B2'><f>A2*2</f><v>4</v></c></row>
             <row r='3'><c r='A3'><v>3</v></c><c r='B3'><f>A3*2</f></c></row>
             <row r='4'><c r='A4'><v>5</v></c><c r='B4'>{formula}<v>10</v></c></row>
             <row r='5'><c r='A5'><v>7</v></c><c r='B5'><f>A5*2</f><v>14</v></c></row></sheetData>"
        );
        let parsed = read("a.xlsx", &xlsx(&sheet));
        // Everything before the broken one is read as usual.
        assert_eq!(shown(&parsed)[1], "table(1) price|double / 2|4 / 3|=A3*2 / 5|10 / 7|14", "{formula}");
        let unread = "the formulas of the sheet `People` were not read completely";
        parsed.warnings.iter().any(|warning| warning.contains(unread))
    };
    assert!(with("<f t='shared' ref='B4:B5'>A4*2</f>"));
    assert!(with("<f t='shared'/>"));
    assert!(with("<f t='shared' si='x'>A4*2</f>"));
    assert!(!with("<f t='shared' ref='B4:B5' si='0'>A4*2</f>"));
}

#[test]
fn phonetic_guides_and_hidden_text_are_not_read() {
    let html = "<p><ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp></ruby>字</p>";
    check("a.html", html, &["漢字"]);
    let said = "<w:r><w:ruby><w:rt><w:r><w:t>かん</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>漢</w:t></w:r></w:rubyBase></w:ruby></w:r>";
    let hidden = "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>";
    let shown = "<w:r><w:rPr><w:vanish w:val='0'/></w:rPr><w:t>字</w:t></w:r>";
    let mark = "<w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>";
    check("a.docx", docx(&format!("<w:p>{mark}{said}{hidden}{shown}</w:p>")), &["漢字"]);
    let cell = |text: &str| format!("<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>");
    let before = "<w:trPr><w:gridBefore w:val='1'/></w:trPr>";
    let table =
        format!("<w:tbl><w:tr>{}{}</w:tr><w:tr>{before}{}</w:tr></w:tbl>", cell("a"), cell("b"), cell("1"));
    check("a.docx", docx(&table), &["table(1) a|b / |1"]);
}

#[test]
fn sheets_with_several_tables_and_groups_of_columns() {
    let text = |place: &str, text: &str| format!("<c r='{place}' t='inlineStr'><is><t>{text}</t></is></c>");
    let number = |place: &str, number: u32| format!("<c r='{place}'><v>{number}</v></c>");
    let row = |row: u32, cells: &[String]| format!("<row r='{row}'>{}</row>", cells.concat());
    let rows = [
        row(1, &[text("B1", "Q1"), text("D1", "Q2")]),
        row(2, &[text("A2", "Item"), text("B2", "Plan"), text("C2", "Real"), text("D2", "Plan")]),
        row(3, &[text("A3", "Pens"), number("B3", 1), number("C3", 2), number("D3", 3)]),
        row(5, &[text("A5", "City"), text("B5", "People")]),
        row(6, &[text("A6", "Rome"), number("B6", 3)]),
    ];
    let merged = "<mergeCells count='2'><mergeCell ref='B1:C1'/><mergeCell ref='D1:E1'/></mergeCells>";
    let sheet = format!("<sheetData>{}</sheetData>{merged}", rows.concat());
    let quarters = "table(2) |Q1|Q1|Q2 / Item|Plan|Real|Plan / Pens|1|2|3";
    check("a.xlsx", xlsx(&sheet), &["--- 1 People", quarters, "table(1) City|People / Rome|3"]);
}

#[test]
fn mail_text_without_a_charset_is_decoded() {
    let mail = |kind: &str| {
        let text =
            format!("From: Jürgen <j@example.com>\nSubject: Grüße aus Köln\n{kind}\nÄpfel für Österreich.\n");
        encoding_rs::WINDOWS_1252.encode(&text).0.into_owned()
    };
    for kind in ["", "Content-Type: text/plain\n", "Content-Type: text/plain; charset=us-ascii\n"] {
        let expected = ["# Grüße aus Köln", "From: Jürgen <j@example.com>", "Äpfel für Österreich."];
        check("a.eml", mail(kind), &expected);
    }
}

#[test]
fn flowed_mail_lines_are_joined_to_paragraphs() {
    let text = "A line that \ngoes on \nhere.\nAnother.\n> said \n> before\n-- \nAda";
    let mail =
        |kind: &str| format!("From: a@example.com\nSubject: Hi\nContent-Type: text/plain; {kind}\n\n{text}");
    let found = shown(&read("a.eml", mail("format=flowed").as_bytes()));
    assert_eq!(found[2], "A line that goes on here.\nAnother.\n> said before\n--\nAda");
    let found = shown(&read("a.eml", mail("format=flowed; delsp=yes").as_bytes()));
    assert!(found[2].starts_with("A line thatgoes onhere.\n"), "{found:?}");
    let found = shown(&read("a.eml", mail("charset=utf-8").as_bytes()));
    assert!(found[2].starts_with("A line that\ngoes on\nhere.\n"), "{found:?}");
}

#[test]
fn books_and_mails() {
    let book = read("a.epub", &epub());
    assert_eq!(shown(&book), ["--- 1 ", "# One", "First text", "--- 2 ", "# Two", "Second text"]);
    assert_eq!((&book.metadata["title"], &book.metadata["author"]), (&"A book".into(), &"Ada".into()));
    let mail = read("a.eml", MAIL.as_bytes());
    assert_eq!(
        shown(&mail),
        [
            "# Grüße",
            "From: Ada <ada@example.com>\nTo: grace@example.com\nDate: 2024-01-02T03:04:05Z",
            "Hello Grace.",
            "See the table.",
            "## Attachment: people.csv",
            "table(1) name|age / Ada|36",
            "## Attachment: x.bin",
        ]
    );
    assert!(mail.warnings[0].starts_with("cannot read the attachment `x.bin`"), "{:?}", mail.warnings);
}

#[test]
fn a_multipart_mail_is_read_completely_without_duplicates() {
    let plain = "--xx\r\nContent-Type: text/plain\r\n\r\nHello Grace.\r\n";
    let html = |text: &str| format!("--xx\r\nContent-Type: text/html\r\n\r\n<p>{text}</p>\r\n");
    let mail = |kind: &str, parts: &str| {
        let head = "From: a@example.com\r\nSubject: Hi\r\nMIME-Version: 1.0\r\n";
        format!("{head}Content-Type: multipart/{kind}; boundary=xx\r\n\r\n{parts}--xx--\r\n")
    };
    let check = |kind: &str, parts: String, expected: &[&str]| {
        let found = shown(&read("a.eml", mail(kind, &parts).as_bytes()));
        assert_eq!(found, [&["# Hi", "From: a@example.com"], expected].concat(), "{kind}");
    };
    check("mixed", format!("{plain}{}", html("The list's rules.")), &["Hello Grace.", "The list's rules."]);
    check("alternative", format!("{plain}{}", html("Hello <b>Grace</b>.")), &["Hello Grace."]);
    check("mixed", html("Hello"), &["Hello"]);
}

fn line(size: u32, left: u32, height: u32, text: &str) -> (u32, u32, u32, String) {
    (size, left, height, text.to_owned())
}

#[test]
fn pdfs() {
    let page = |number: u32| {
        vec![
            line(8, 50, 780, "Annual report"),
            line(20, 50, 700, &format!("Chapter {number}")),
            line(10, 50, 660, "The first line of a paragraph that goes on in the next line, with a divi-"),
            line(10, 50, 648, "ded word, and ends there."),
            line(10, 50, 610, "- a point"),
            line(10, 50, 560, "Name"),
            line(10, 300, 560, &format!("Ada {number}")),
            line(10, 50, 548, "Age"),
            line(10, 300, 548, "36"),
            line(8, 290, 20, &format!("{number} of 3")),
        ]
    };
    let bytes = pdf(&[page(1), page(2), page(3)]);
    let parsed = read("a.pdf", &bytes);
    let text =
        "The first line of a paragraph that goes on in the next line, with a divided word, and ends there.";
    assert_eq!(shown(&parsed)[..5], ["--- 1 ", "# Chapter 1", text, "* a point", "Name Ada 1\nAge 36"]);
    assert_eq!(shown(&parsed)[5..7], ["--- 2 ", "# Chapter 2"]);
    assert_eq!(parsed.pages, 3);
    let place = parsed.elements[2].positions[0];
    assert_eq!(place.page, 1);
    assert!((place.left - 50.0).abs() < 2.0 && place.right > 300.0, "{place:?}");
    assert!((125.0..142.0).contains(&place.top) && (145.0..160.0).contains(&place.bottom), "{place:?}");

    let settings: DocumentSettings = serde_json::from_str(r#"{"pages": [[2, 2]]}"#).unwrap();
    let some = weft_parse::parse("a.pdf", &bytes, &settings).unwrap();
    assert!(text_of_pages(&some).iter().all(|page| *page == 2));
}

fn text_of_pages(parsed: &weft_parse::element::Parsed) -> Vec<u32> {
    parsed
        .elements
        .iter()
        .flat_map(|element| element.positions.iter().map(|position| position.page))
        .collect()
}

#[test]
fn sentences_continue_on_the_next_page() {
    let bytes = pdf(&[
        vec![line(10, 50, 100, "A sentence that is so long that it does not end on this page and")],
        vec![line(10, 50, 700, "goes on here."), line(10, 50, 600, "Another one.")],
    ]);
    let parsed = read("a.pdf", &bytes);
    let whole = "A sentence that is so long that it does not end on this page and goes on here.";
    assert_eq!(shown(&parsed), ["--- 1 ", whole, "--- 2 ", "Another one."]);
    assert_eq!(parsed.elements[1].positions.iter().map(|one| one.page).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_pdf_that_was_cut_off_is_no_scan() {
    let whole = pdf(&[vec![line(10, 50, 100, "text")]]);
    let place = |wanted: &[u8]| whole.windows(wanted.len()).position(|some| some == wanted).unwrap();
    // Without pages, and with a page whose content is missing.
    for end in [place(b"2 0 obj"), place(b"stream")] {
        let reason = crate::build::reason("a.pdf", &whole[..end]);
        assert!(reason.contains("damaged or incomplete"), "{reason}");
    }
}

#[test]
fn scans_need_ocr() {
    assert!(crate::build::reason("a.pdf", &pdf(&[vec![]])).contains("OCR is needed"));
    assert!(!text(&read("a.pdf", &pdf(&[vec![line(10, 50, 100, "text")], vec![]]))).is_empty());
}
