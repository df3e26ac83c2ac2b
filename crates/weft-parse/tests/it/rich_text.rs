//! RTF, under its own extension and others.

use crate::build::{read, reason, shown};

const RULES: &str = r#"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Times;}{\f1\fcharset204 Cyr;}}
{\stylesheet{\ql Normal;}{\s1\outlinelevel0{\*\keycode x}heading 1;}{\s2 heading 2;}}
{\info{\title The rules}{\author Ada}{\creatim\yr2024}}{\header Page head\par}
\pard\plain\s1 Harbour\par
\pard\plain The quay \b closes\b0  at \u8364?5 \'e4\line next{\footnote\pard\plain {\chftn} A note.} on.\par
\pard\plain\s2{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}\par
\pard{\listtext\pard\plain 1.\tab}\ls1\ilvl0 First\par
{\pntext\'b7\tab}Second\par
\pard {\field{\*\fldinst{HYPERLINK "https://example.com/a"}}{\fldrslt{here}}} and {\v hidden}{\*\unknown gone}{\upr{old}{\*\ud{new \u-10179?\u-8704?}}}\par
\trowd\cellx1\cellx2\pard\intbl Name\cell Age\cell\row
\trowd\clvmgf\cellx1\cellx2\pard\intbl Ada\cell 36\par months\cell\row
\trowd\clvmrg\cellx1\cellx2\pard\intbl\cell 37\cell\row
\pard After{\*\atnauthor Bob}{\*\annotation Why?}\par} behind the end"#;

#[test]
fn rich_text_is_read_with_its_control_words() {
    // Word saves it under a document extension, too.
    for name in ["a.rtf", "a.doc"] {
        let parsed = read(name, RULES.as_bytes());
        let expected = [
            "# Harbour",
            "The quay closes at €5 ä\nnext on.",
            "A note.",
            "## Привет",
            "* 1. First",
            "* Second",
            "here (https://example.com/a) and new 😀",
            "table(1) Name|Age / Ada|36 months / Ada|37",
            "After",
            "Comment (Bob): Why?",
        ];
        assert_eq!(shown(&parsed), expected);
        assert_eq!(
            (&parsed.metadata["title"], &parsed.metadata["author"]),
            (&"The rules".into(), &"Ada".into())
        );
    }
}

#[test]
fn broken_rich_text_is_read_as_far_as_possible() {
    assert_eq!(shown(&read("a.rtf", b"{\\rtf1 whole\\par {\\b half")), ["whole", "half"]);
    assert_eq!(shown(&read("a.rtf", b"{\\rtf1 text{\\footnote a note")), ["text", "a note"]);
    let deep = [b"{\\rtf1 ".to_vec(), b"{".repeat(100_000)].concat();
    assert!(reason("a.rtf", &deep).contains("groups are nested more than 1000 levels"));
    for end in 0..RULES.len() {
        if let Some(part) = RULES.get(..end).filter(|part| part.starts_with("{\\rtf")) {
            drop(weft_parse::parse("a.rtf", part.as_bytes(), &weft_parse::DocumentSettings::new()));
        }
    }
}
