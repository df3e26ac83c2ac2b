//! The text of DOCX.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    weft_fuzz::read_part(
    "a.docx",
    "word/document.xml",
    bytes,
    &[
        (
            "word/_rels/document.xml.rels",
            "<R><R Id='s' Type='x/styles' Target='styles.xml'/><R Id='n' Type='x/numbering' Target='numbering.xml'/>
             <R Id='f' Type='x/footnotes' Target='footnotes.xml'/>
             <R Id='l' Type='x/hyperlink' Target='https://example.com' TargetMode='External'/></R>",
        ),
        ("word/styles.xml", "<style styleId='a'><name val='heading 1'/><numId val='1'/></style>"),
        (
            "word/numbering.xml",
            "<abstractNum abstractNumId='0'><lvl ilvl='0'><numFmt val='upperRoman'/><lvlText val='%1.'/></lvl>
             <lvl ilvl='1'><numFmt val='chinese'/><lvlText val='%1.%2'/></lvl></abstractNum>
             <num numId='1'><abstractNumId val='0'/><lvlOverride ilvl='0'><startOverride val='3'/></lvlOverride></num>",
        ),
        ("word/footnotes.xml", "<footnote id='1'><p><t>note</t></p></footnote>"),
    ],
)
});
