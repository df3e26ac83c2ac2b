//! Real files, if they exist: `../shared/data/docs`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use weft_parse::element::ElementBody;
use weft_parse::{DocumentSettings, parse};

use crate::build::{read, reason, shown, text};

fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/docs");
    if !folder.is_dir() {
        weft_testkit::skipped(format_args!("there is no folder {}", folder.display()));
        return None;
    }
    Some(folder)
}

fn file(name: &str) -> Option<Vec<u8>> {
    Some(std::fs::read(folder()?.join(name)).unwrap())
}

#[test]
fn every_document_is_read_or_refused_with_a_reason() {
    let Some(folder) = folder() else { return };
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let name = entry.file_name().into_string().unwrap();
        // It has a test of its own, and 251 pages.
        if name.starts_with("debian") {
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap();
        if name.contains("_scan") {
            assert!(reason(&name, &bytes).contains("OCR is needed to read it"), "{}", reason(&name, &bytes));
        } else {
            let parsed = read(&name, &bytes);
            assert!(parsed.warnings.is_empty(), "{name}: {:?}", parsed.warnings);
            assert!(text(&parsed).len() > 20, "{name}");
        }
        count += 1;
    }
    assert_eq!(count, 22);
}

/// The expected contents.
#[test]
fn documents_contain_their_expected_texts() {
    let check = |name: &str, parts: &[&str]| {
        let Some(bytes) = file(name) else { return };
        let shown = shown(&read(name, &bytes));
        for part in parts {
            assert!(shown.iter().any(|line| line.contains(part)), "{name}: {part} in {shown:#?}");
        }
    };
    check("equations.docx", &["a/λ=m/(sin", "The angle is θ="]);
    check("rlink.docx", &["image A red and blue square"]);
    check(
        "test.docx",
        &["# AutoGen: Enabling", "# Abstract", "## d666f1f7", "|49e168b7-d2ae-407f-a055-2167576f39a1|"],
    );
    check("test_with_comment.docx", &["Comment (Unknown Author): This is a test comment. 12df-321a"]);
    check(
        "test.pptx",
        &[
            "--- 6",
            "# 2cdda5c8",
            "|1b92870d-e3b5-4e65-8153-919f4ff45592|",
            "a3f6004b-6f4f-4ea8-bee3",
            "This phrase of the caption",
        ],
    );
    check(
        "test.xlsx",
        &[
            "--- 2 09060124-b5e7-4717-9d07-3c046eb",
            "Alpha|Beta|Gamma|Delta",
            "affc7dad-52dc-4b98-9b5d-51e65d8a8ad0",
        ],
    );
    check(
        "test.xls",
        &[
            "--- 2 09060124-b5e7-4717-9d07-3c046eb",
            "Alpha|Beta|Gamma|Delta",
            "affc7dad-52dc-4b98-9b5d-51e65d8a8ad0",
        ],
    );
    check("test_mskanji.csv", &["table(1) 名前|年齢|住所 / 佐藤太郎|30|東京"]);
    check(
        "test_outlook_msg.msg",
        &["# Test Email Message", "From: M. C. Kurtuluş <test.sender@example.com>", "This is the body"],
    );
    check("test.epub", &["# Chapter 2: More Content", "* A bullet point"]);
    check("test.json", &["5b64c88c-b3c3-4510-bcb8-da0b200602d8: uuid_key"]);
    check("test_notebook.ipynb", &["# Test Notebook", "`python` print(\"markitdown\")", "`` 42"]);
    check(
        "test_rss.xml",
        &["# The Official Microsoft Blog", "## Ignite 2024: Why nearly 70%", "### Copilot momentum"],
    );
    check(
        "test_blog.html",
        &[
            "# Does Model and Inference Parameter Matter",
            "## Experiment Setup",
            "* gpt-4, the state of the art",
        ],
    );
    check(
        "test_wikipedia.html",
        &["# Microsoft", "## History", "Microsoft entered the operating system", "image "],
    );
}

#[test]
fn encyclopedia_pages_are_read_without_menus() {
    let Some(bytes) = file("test_wikipedia.html") else { return };
    let shown = shown(&read("test_wikipedia.html", &bytes));
    for menu in ["* Afrikaans", "* Main page", "* Random article"] {
        assert!(!shown.iter().any(|line| line == menu), "{menu}");
    }
}

/// The share of the words found by another program that are found here, too.
fn share(expected: &str, found: &str) -> f64 {
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (expected, found) = (words(expected), words(found));
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let share = expected.intersection(&found).count() as f64 / expected.len() as f64;
    share
}

#[test]
fn pdfs_have_the_words_that_other_readers_find() {
    let check = |name: &str, least: f64| {
        let (Some(bytes), Some(expected)) =
            (file(&format!("{name}.pdf")), file(&format!("expected/{name}.md")))
        else {
            return;
        };
        let share = share(&String::from_utf8(expected).unwrap(), &text(&read("a.pdf", &bytes)));
        println!("{name}: {share:.3}");
        assert!(share >= least, "{name}: {share}");
    };
    check("RECEIPT-2024-TXN-98765_retail_purchase", 0.95);
    check("REPAIR-2022-INV-001_multipage", 0.95);
    check("SPARSE-2024-INV-1234_borderless_table", 0.95);
    check("movie-theater-booking-2024", 0.95);
    check("test", 0.92);
}

#[test]
fn chinese_is_read_with_positions_and_titles() {
    let Some(bytes) = file("debian-reference.zh-cn.pdf") else { return };
    let settings: DocumentSettings = serde_json::from_str(r#"{"pages": [[1, 2], [29, 32]]}"#).unwrap();
    let parsed = parse("debian-reference.zh-cn.pdf", &bytes, &settings).unwrap();
    assert_eq!((parsed.pages, &parsed.metadata["title"]), (251, &"Debian 参考手册".into()));
    assert!(parsed.warnings[0].contains("no text layer on the pages 1;"), "{:?}", parsed.warnings);
    let unspaced = |text: &str| text.chars().filter(|c| ('\u{4e00}'..='\u{9fff}').contains(c)).count();
    assert!(unspaced(&text(&parsed)) > 1_500, "{}", unspaced(&text(&parsed)));
    let places = |page: u32| {
        let of_page = parsed
            .elements
            .iter()
            .flat_map(|element| &element.positions)
            .filter(move |place| place.page == page);
        of_page.filter(|place| place.top >= 0.0 && place.bottom <= 800.0 && place.right > place.left).count()
    };
    assert!((29..=32).all(|page| places(page) > 3));
    let headings: Vec<(u8, &str)> = parsed
        .elements
        .iter()
        .filter_map(|element| match &element.body {
            ElementBody::Heading { level, text } => Some((*level, text.as_str())),
            _ => None,
        })
        .collect();
    println!("{headings:?}");
    assert!(headings.iter().any(|(level, text)| *level == 2 && text.contains("控制台基础")), "{headings:?}");
    // A repeated page header is not part of the text.
    assert!(
        !shown(&parsed).iter().any(|line| line.starts_with("Debian 参考手册") && line.ends_with("/ 235"))
    );
}
