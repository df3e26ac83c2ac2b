//! The blocks of material in a prompt, and their sentences.

use weft_core::seam::chat_model::{Author, ChatRequest};

/// Maximum length of a heading in characters.
const HEADING_CHARS_MAX: usize = 100;
/// Longer text without an end of sentence is split into pieces of this many characters.
const SENTENCE_CHARS_MAX: usize = 400;
/// Maximum number of sentences per block that are considered.
// Each is compared with the question; of a block of megabytes, only the beginning is quoted.
const SENTENCES_MAX: usize = 2000;

/// The text of the last message of the user.
pub(super) fn last_words(request: &ChatRequest) -> &str {
    request.messages.iter().rev().find(|m| m.author == Author::User).map_or("", |m| m.text.as_str())
}

/// A block of material.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MaterialBlock {
    /// The number in its citation mark.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
}

/// One sentence of a block.
#[derive(Debug, PartialEq)]
pub(super) struct Sentence {
    pub id: String,
    pub title: String,
    pub text: String,
}

/// Separates the blocks from the rest of a text. A block ends at a line of dashes or at the next block. Nothing marks
/// the end of the last one: its paragraphs after the first also stay in the rest; those that explain citation marks
/// do not belong to it, and neither does the end of a user's message.
pub(super) fn read(text: &str, author: Author) -> (Vec<MaterialBlock>, String) {
    let lines: Vec<&str> = text.lines().collect();
    let mut starts: Vec<(usize, &str)> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, id(line)?))).collect();
    let mut sources = Vec::new();
    let first = starts.first().map_or(lines.len(), |(at, _)| *at);
    let mut rest: Vec<&str> = lines[..first].to_vec();
    if let Some((at, (lead, id))) = (0..first).find_map(|at| Some((at, id_after_words(&lines[at..])?))) {
        rest.truncate(at);
        rest.push(lead);
        starts.insert(0, (at, id));
    }
    for (nth, (start, id)) in starts.iter().enumerate() {
        let next = starts.get(nth + 1).map(|(at, _)| *at);
        let block = &lines[start + 1..next.unwrap_or(lines.len())];
        let end = block.iter().position(|line| is_rule(line)).unwrap_or(block.len());
        // The line right after the id may be empty without ending the block.
        let skip = block.iter().take_while(|line| line.trim().is_empty()).count();
        let first =
            block[skip..end].iter().position(|line| line.trim().is_empty()).map_or(end, |at| skip + at);
        let sure = if next.is_some() { end } else { first };
        rest.extend(&block[sure..]);
        let mut own = block[skip..sure].to_vec();
        own.extend(likely(&block[sure..end], author));
        sources.push(source(id, &own));
    }
    (sources, rest.join("\n").trim().to_owned())
}

/// The lines after the first paragraph of the last block that probably belong to it.
fn likely<'a>(lines: &[&'a str], author: Author) -> Vec<&'a str> {
    let paragraphs: Vec<&[&str]> =
        lines.split(|line| line.trim().is_empty()).filter(|paragraph| !paragraph.is_empty()).collect();
    let explains = |paragraph: &&[&str]| paragraph.iter().any(|line| line.contains("ID:"));
    let mut count = paragraphs.iter().position(explains).unwrap_or(paragraphs.len());
    if author == Author::User && count == paragraphs.len() {
        count = count.saturating_sub(1);
    }
    // A heading without its text belongs to what follows.
    while count > 0
        && count < paragraphs.len()
        && paragraphs[count - 1].iter().all(|line| line.starts_with('#'))
    {
        count -= 1;
    }
    paragraphs[..count].concat()
}

/// The last paragraph.
pub(super) fn last_paragraph(text: &str) -> &str {
    text.rsplit("\n\n").map(str::trim).find(|paragraph| !paragraph.is_empty()).unwrap_or_default()
}

fn id(line: &str) -> Option<&str> {
    let id = line.trim().strip_prefix("ID:")?.trim();
    (!id.is_empty() && id.chars().all(|c| c.is_ascii_digit())).then_some(id)
}

/// The words and the id in a line where a prompt goes on into the first block: `Answer from {Retrieval:R@content}`.
// Only with a title below, and only before the first block: texts have lines that end in `Order ID: 7`.
fn id_after_words<'a>(lines: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let [line, below, ..] = lines else { return None };
    let (words, _) = line.rsplit_once("ID:")?;
    let id = id(&line[words.len()..])?;
    let is_apart = !words.ends_with(|c: char| c.is_ascii_alphanumeric());
    (is_apart && below.starts_with("Title: ")).then_some((words, id))
}

fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 3 && line.bytes().all(|b| b == b'-')
}

fn source(id: &str, lines: &[&str]) -> MaterialBlock {
    let mut source = MaterialBlock { id: id.to_owned(), ..MaterialBlock::default() };
    let mut head = true;
    for line in lines {
        match line.split_once(": ") {
            Some(("Title", title)) if head => title.trim().clone_into(&mut source.title),
            Some(("URL", _)) if head => {}
            _ => {
                head = false;
                source.text.push_str(line);
                source.text.push('\n');
            }
        }
    }
    source
}

/// The sentences of a block: up to a full stop of either script, or the end of the line. Headings are skipped.
pub(super) fn sentences(source: &MaterialBlock) -> Vec<Sentence> {
    let mut found = Vec::new();
    // Up to the last line with text: a heading has text below it, and searching for that from each of a million empty
    // lines would take quadratic time.
    let lines: Vec<&str> = source.text.trim_end().lines().collect();
    let spoken = lines.iter().enumerate().filter(|(at, line)| !is_heading(line, &lines[at + 1..]));
    for (_, line) in spoken {
        let mut sentence = String::new();
        let mut length = 0;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            sentence.push(c);
            length += 1;
            let ends = match c {
                '。' | '！' | '？' | '；' => true,
                '.' | '!' | '?' => {
                    chars.peek().is_none_or(|next| next.is_whitespace()) && !is_abbreviated(&sentence)
                }
                _ => length >= SENTENCE_CHARS_MAX,
            };
            if ends {
                keep(source, &mut sentence, &mut found);
                length = 0;
            }
        }
        keep(source, &mut sentence, &mut found);
    }
    found.truncate(SENTENCES_MAX);
    found
}

/// Whether a line stands alone above other text, whose last line is not empty, and does not end like a sentence.
fn is_heading(line: &str, below: &[&str]) -> bool {
    let line = line.trim();
    let ends = ['.', '!', '?', '。', '！', '？', '；'];
    let is_blank = |line: &&str| line.trim().is_empty();
    !line.ends_with(ends) && below.first().is_some_and(is_blank) && line.chars().count() <= HEADING_CHARS_MAX
}

fn keep(source: &MaterialBlock, sentence: &mut String, found: &mut Vec<Sentence>) {
    let text = std::mem::take(sentence).trim().to_owned();
    if text.chars().any(char::is_alphanumeric) && !text.ends_with([':', '：']) {
        found.push(Sentence { id: source.id.clone(), title: source.title.clone(), text });
    }
}

/// Whether the dot at the end belongs to `Dr.`, `e.g.` or an initial.
fn is_abbreviated(sentence: &str) -> bool {
    let word = sentence.trim_end_matches('.').rsplit(char::is_whitespace).next().unwrap_or_default();
    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    let dotted = word.contains('.') && word.chars().all(|c| c.is_alphabetic() || c == '.');
    initial || dotted || matches!(word, "Dr" | "Mr" | "Mrs" | "Ms" | "St" | "No" | "vs" | "etc" | "ca")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, author: Author, blocks: &[(&str, &str, &str)], rest: &str) {
        let (sources, left) = read(text, author);
        let found: Vec<_> =
            sources.iter().map(|s| (s.id.as_str(), s.title.as_str(), s.text.as_str())).collect();
        assert_eq!((found.as_slice(), left.as_str()), (blocks, rest));
    }

    #[test]
    fn blocks_are_extracted() {
        let text = "Hello.\nID: 1\nTitle: T\nURL: u\na\nURL: is text\n\nb\n------\nID: 22\n\nc\nID: x";
        let blocks = [("1", "T", "a\nURL: is text\n\nb\n"), ("22", "", "c\nID: x\n")];
        check(text, Author::System, &blocks, "Hello.\n------");
        check("Nothing here.", Author::System, &[], "Nothing here.");
    }

    #[test]
    fn the_first_block_may_begin_within_a_line() {
        let one = "Be brief.\nAnswer from ID: 0\nTitle: T\na";
        check(one, Author::System, &[("0", "T", "a\n")], "Be brief.\nAnswer from");
        let two = "从ID: 0\nTitle: T\na\nStaff ID: 7\nTitle: Cook\n------\nID: 1\nTitle: U\nb";
        let blocks = [("0", "T", "a\nStaff ID: 7\nTitle: Cook\n"), ("1", "U", "b\n")];
        check(two, Author::System, &blocks, "从\n------");
        for none in ["My UUID: 0\nTitle: T\na", "Cite ID: 0\na", "Cite ID: 0", "Cite [ID:0]\nTitle: T"] {
            check(none, Author::System, &[], none);
        }
    }

    #[test]
    fn the_last_block_ends_at_instructions_or_the_question() {
        let guided = "ID: 1\n# Head\n\nText.\n\nMore.\n\n## Citing\n\nWrite [ID:n].\n\nDone.";
        let rest = "Text.\n\nMore.\n\n## Citing\n\nWrite [ID:n].\n\nDone.";
        check(guided, Author::System, &[("1", "", "# Head\nText.\nMore.\n")], rest);
        let asked = "ID: 1\nText.\n\nMore.\n\nWhat?";
        check(asked, Author::User, &[("1", "", "Text.\nMore.\n")], "More.\n\nWhat?");
    }

    #[test]
    fn sentences_end_at_western_and_chinese_stops() {
        let check = |text: &str, expected: &[&str]| {
            let source = MaterialBlock { text: text.into(), ..MaterialBlock::default() };
            let found: Vec<String> = sentences(&source).into_iter().map(|s| s.text).collect();
            assert_eq!(found, expected);
        };
        check(
            "Pi is 3.14. Dr. A. Smith, e.g. he, knows! \nNew line",
            &["Pi is 3.14.", "Dr. A. Smith, e.g. he, knows!", "New line"],
        );
        check("今天下雨。明天呢？不知道", &["今天下雨。", "明天呢？", "不知道"]);
        check("--- \n ", &[]);
        check("Prices\n\nIt costs a euro.\n\nNo stop", &["It costs a euro.", "No stop"]);
        check(&"x".repeat(900), &[&"x".repeat(400), &"x".repeat(400), &"x".repeat(100)]);
    }

    #[test]
    fn a_block_of_empty_lines_is_read_quickly() {
        let text = format!("Heading\n\nOne.{}Two.{}", "\n".repeat(300_000), "\n".repeat(300_000));
        let begun = std::time::Instant::now();
        let found = sentences(&MaterialBlock { text, ..MaterialBlock::default() });
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
        assert_eq!(found.iter().map(|one| one.text.as_str()).collect::<Vec<_>>(), ["One.", "Two."]);
    }
}
