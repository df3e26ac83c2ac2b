//! Documents, and the chunks they are cut into.

use sha2::{Digest as _, Sha256};
use weft_core::citation::Chunk;

/// Words of one chunk, at most; CJK characters count as words.
pub const CHUNK_WORDS_MAX: usize = 200;
/// Bytes of one document that are read, at most; the rest is left out.
pub const DOCUMENT_MAX: usize = 16 * 1024 * 1024;

/// A text with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its file name, such as `returns.md`.
    pub name: String,
    /// Markdown or plain text.
    pub text: String,
}

/// The chunks of several documents, in their order. Reads no file: the caller hands the texts over.
pub fn load_folder(documents: &[Document]) -> Vec<Chunk> {
    documents.iter().flat_map(chunks).collect()
}

/// Cuts a document at its headings and paragraphs into chunks of at most [`CHUNK_WORDS_MAX`] words.
/// Every chunk begins with the headings it stands under. Its id depends on the document's name and
/// on its own text, so an unchanged chunk keeps its id when the document is read again.
pub fn chunks(document: &Document) -> Vec<Chunk> {
    let mut cutter = Cutter::default();
    let end =
        (0..=document.text.len().min(DOCUMENT_MAX)).rev().find(|end| document.text.is_char_boundary(*end));
    let mut fenced = false;
    for line in document.text[..end.unwrap_or(0)].lines() {
        fenced ^= line.trim_start().starts_with("```");
        match heading(line).filter(|_| !fenced) {
            Some((level, title)) => cutter.heading(level, title),
            None if line.trim().is_empty() && !fenced => cutter.end_paragraph(),
            None => cutter.line(line),
        }
    }
    cutter.end_section();
    let document_id = digest(&[&document.name]);
    let mut seen = std::collections::HashMap::<String, usize>::new();
    let chunk = |content: String| {
        let repeated = seen.entry(content.clone()).or_default();
        let id = digest(&[&document.name, &content, &repeated.to_string()]);
        *repeated += 1;
        Chunk {
            id,
            content,
            document_id: document_id.clone(),
            document_name: document.name.clone(),
            ..Chunk::default()
        }
    };
    cutter.chunks.into_iter().map(chunk).collect()
}

fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line[level..].strip_prefix(' ')?.trim().trim_end_matches('#').trim_end();
    ((1..=6).contains(&level) && !title.is_empty()).then_some((level, title))
}

/// How many words a text has, for its size: runs without spaces, and every CJK character.
fn size(text: &str) -> usize {
    let wide = text.chars().filter(|c| u32::from(*c) >= 0x2e80).count();
    wide + text.split_whitespace().filter(|word| word.chars().any(|c| u32::from(c) < 0x2e80)).count()
}

#[derive(Debug, Default)]
struct Cutter {
    headings: Vec<(usize, String)>,
    paragraph: String,
    section: String,
    chunks: Vec<String>,
}

impl Cutter {
    fn heading(&mut self, level: usize, title: &str) {
        self.end_section();
        self.headings.retain(|(above, _)| *above < level);
        self.headings.push((level, title.to_owned()));
    }

    fn line(&mut self, line: &str) {
        if !self.paragraph.is_empty() {
            self.paragraph.push('\n');
        }
        self.paragraph.push_str(line.trim_end());
    }

    /// Adds the paragraph to the chunk, or begins the next chunk with it when there is no room.
    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        if paragraph.trim().is_empty() {
            return;
        }
        for piece in pieces(&paragraph) {
            if !self.section.is_empty() && size(&self.section) + size(&piece) > CHUNK_WORDS_MAX {
                self.end_chunk();
            }
            if !self.section.is_empty() {
                self.section.push_str("\n\n");
            }
            self.section.push_str(&piece);
        }
    }

    fn end_section(&mut self) {
        self.end_paragraph();
        self.end_chunk();
    }

    fn end_chunk(&mut self) {
        let section = std::mem::take(&mut self.section);
        if section.is_empty() {
            return;
        }
        let titles: Vec<&str> = self.headings.iter().map(|(_, title)| title.as_str()).collect();
        self.chunks.push(match titles.is_empty() {
            true => section,
            false => format!("{}\n\n{section}", titles.join(" › ")),
        });
    }
}

/// A paragraph, cut at its sentences when it is too long, and a sentence anywhere when it is.
fn pieces(paragraph: &str) -> Vec<String> {
    if size(paragraph) <= CHUNK_WORDS_MAX {
        return vec![paragraph.to_owned()];
    }
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut words = 0;
    for sentence in paragraph.split_inclusive(['.', '!', '?', '。', '！', '？', '\n']) {
        for part in short_parts(sentence) {
            let more = size(&part);
            if words + more > CHUNK_WORDS_MAX && !piece.is_empty() {
                pieces.push(std::mem::take(&mut piece).trim().to_owned());
                words = 0;
            }
            piece.push_str(&part);
            words += more;
        }
    }
    pieces.push(piece.trim().to_owned());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn short_parts(sentence: &str) -> Vec<String> {
    if size(sentence) <= CHUNK_WORDS_MAX {
        return vec![sentence.to_owned()];
    }
    let mut parts = vec![String::new()];
    let mut words = 0;
    let mut in_word = false;
    for c in sentence.chars() {
        let wide = u32::from(c) >= 0x2e80;
        let begins = wide || (!in_word && !c.is_whitespace());
        in_word = !wide && !c.is_whitespace();
        words += usize::from(begins);
        if words > CHUNK_WORDS_MAX {
            parts.push(String::new());
            words = 1;
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(text: &str) -> Vec<String> {
        let document = Document { name: "d.md".to_owned(), text: text.to_owned() };
        chunks(&document).into_iter().map(|chunk| chunk.content).collect()
    }

    #[test]
    fn headings_and_paragraphs_are_the_borders() {
        let check = |text: &str, expected: &[&str]| assert_eq!(contents(text), expected, "{text}");
        check("", &[]);
        check("# Only a title", &[]);
        check("one\ntwo\n\nthree", &["one\ntwo\n\nthree"]);
        check("# A\na\n## B ##\nb\n# C\nc", &["A\n\na", "A › B\n\nb", "C\n\nc"]);
        check("#nothing\n```\n# code\n\nx\n```", &["#nothing\n```\n# code\n\nx\n```"]);
    }

    #[test]
    fn no_chunk_is_too_long() {
        let sentence = "word ".repeat(60) + "end. ";
        for text in [
            sentence.repeat(20),
            "word ".repeat(1_000),
            "汉".repeat(1_000),
            format!("{sentence}\n\n").repeat(9),
            "汉字。".repeat(300),
        ] {
            let found = contents(&text);
            assert!(found.len() > 1);
            assert!(found.iter().all(|chunk| size(chunk) <= CHUNK_WORDS_MAX));
            let kept: String = found.concat().split_whitespace().collect();
            assert_eq!(kept, text.split_whitespace().collect::<String>());
        }
    }

    #[test]
    fn ids_are_stable_and_distinct() {
        let document = |text: &str| Document { name: "d.md".to_owned(), text: text.to_owned() };
        let before = chunks(&document("# A\nsame\n# B\nold\n# A\nsame"));
        let after = chunks(&document("# A\nsame\n# B\nnew\n# A\nsame"));
        assert_eq!(before[0].id, after[0].id);
        assert_ne!(before[1].id, after[1].id);
        assert_ne!(before[0].id, before[2].id);
        let other = Document { name: "e.md".to_owned(), ..document("# A\nsame") };
        let all = load_folder(&[document("# A\nsame"), other]);
        assert_ne!(all[0].id, all[1].id);
        assert_eq!(
            (all[1].document_name.as_str(), all[0].document_id == all[1].document_id),
            ("e.md", false)
        );
    }
}
