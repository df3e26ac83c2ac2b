//! How fast text is counted and cut, in bytes of text a second on one processor.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use serde_json::json;
use weft_core::seam::document_reader::{ChunkMethod, ReadRequest};
use weft_parse::element::{Element, ElementBody, Parsed};

fn main() {
    // The vocabulary is loaded once in a process.
    black_box(weft_parse::tokens("warm"));
    divan::main();
}

#[derive(Clone, Copy, Debug)]
enum Script {
    English,
    Chinese,
    Blob,
}

const SCRIPTS: [Script; 3] = [Script::English, Script::Chinese, Script::Blob];

/// About 2 MB in paragraphs of five to ten sentences below headings; words are as frequent as in real text.
fn parsed(script: Script) -> Parsed {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut elements = Vec::new();
    let mut bytes = 0;
    while bytes < 2_000_000 {
        let mut text = String::new();
        for _ in 0..5 + random(6) {
            sentence(script, &mut text, &mut random);
        }
        bytes += text.len();
        if elements.len().is_multiple_of(12) {
            let body = ElementBody::Heading {
                level: 1 + random(3) as u8,
                text: format!("Heading {}", elements.len()),
            };
            elements.push(Element::new(body, Vec::new()));
        }
        elements.push(Element::new(ElementBody::Paragraph(text), Vec::new()));
    }
    Parsed { elements, ..Parsed::default() }
}

fn sentence(script: Script, text: &mut String, random: &mut impl FnMut(u64) -> u64) {
    const SYLLABLES: [&str; 16] = [
        "re", "tion", "con", "er", "ing", "al", "pro", "ment", "the", "of", "and", "in", "to", "is", "ex",
        "ly",
    ];
    let words = 8 + random(15);
    for word in 0..words {
        match script {
            Script::English => {
                // The product of two numbers is small more often than not, as frequent words are.
                let id = random(200) * random(200);
                text.push_str(SYLLABLES[(id % 16) as usize]);
                text.push_str(SYLLABLES[(id / 16 % 16) as usize]);
                text.push_str(if id.is_multiple_of(3) { SYLLABLES[(id / 256 % 16) as usize] } else { "" });
                text.push_str(if word + 1 == words { ". " } else { " " });
            }
            Script::Chinese => {
                let c = char::from_u32(0x4e00 + (random(60) * random(60)) as u32).unwrap_or('字');
                text.push(c);
                text.push_str(if word + 1 == words { "。" } else { "" });
            }
            Script::Blob => text.push(char::from(b'a' + random(26) as u8)),
        }
    }
}

fn size(parsed: &Parsed) -> usize {
    let text = |element: &Element| match &element.body {
        ElementBody::Heading { text, .. } | ElementBody::Paragraph(text) => text.len(),
        _ => 0,
    };
    parsed.elements.iter().map(text).sum()
}

#[divan::bench(args = SCRIPTS, sample_count = 10, sample_size = 1)]
fn tokens(bencher: Bencher<'_, '_>, script: Script) {
    let parsed = parsed(script);
    let texts: Vec<&str> = parsed
        .elements
        .iter()
        .filter_map(|element| match &element.body {
            ElementBody::Paragraph(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let all = texts.join("\n\n");
    bencher.counter(BytesCount::new(all.len())).bench(|| weft_parse::tokens(black_box(&all)));
}

#[divan::bench(args = SCRIPTS, sample_count = 10, sample_size = 1)]
fn naive(bencher: Bencher<'_, '_>, script: Script) {
    bench_cut(bencher, &parsed(script), &json!({}));
}

#[divan::bench(args = SCRIPTS, sample_count = 10, sample_size = 1)]
fn naive_with_overlap(bencher: Bencher<'_, '_>, script: Script) {
    bench_cut(bencher, &parsed(script), &json!({ "overlapped_percent": 15 }));
}

#[divan::bench(args = SCRIPTS, sample_count = 10, sample_size = 1)]
fn naive_of_one_paragraph(bencher: Bencher<'_, '_>, script: Script) {
    let mut parsed = parsed(script);
    let texts = parsed.elements.iter().filter_map(|element| match &element.body {
        ElementBody::Paragraph(text) => Some(text.as_str()),
        _ => None,
    });
    let body = ElementBody::Paragraph(texts.collect());
    parsed.elements = vec![Element::new(body, Vec::new())];
    bench_cut(bencher, &parsed, &json!({}));
}

fn bench_cut(bencher: Bencher<'_, '_>, parsed: &Parsed, settings: &serde_json::Value) {
    let settings = settings.as_object().cloned().unwrap_or_default();
    let request = ReadRequest { name: "a.md".to_owned(), method: ChunkMethod::Naive, settings };
    bencher
        .counter(BytesCount::new(size(parsed)))
        .bench(|| weft_parse::chunk::cut(black_box(parsed), &request).map(|document| document.pieces.len()));
}
