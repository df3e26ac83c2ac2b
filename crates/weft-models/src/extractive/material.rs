//! The blocks of material in a prompt, and their sentences.

/// A longer run without an end of sentence is cut into pieces of this many characters.
const SENTENCE_CHARS_MAX: usize = 400;
/// Sentences of one block that are looked at.
const SENTENCES_MAX: usize = 2000;

/// A block of material.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Source {
    /// The number in its citation mark.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// What it says.
    pub text: String,
}

/// One sentence of a block.
#[derive(Debug, PartialEq)]
pub(super) struct Sentence {
    pub id: String,
    pub title: String,
    pub text: String,
}

/// Takes the blocks out of a text: the blocks, and what is left. A block ends at a line of dashes, at
/// the next one, or, being the last, at an empty line.
pub(super) fn read(text: &str) -> (Vec<Source>, String) {
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|at| id(lines[*at]).is_some()).collect();
    let mut sources = Vec::new();
    let mut rest: Vec<&str> = lines[..starts.first().copied().unwrap_or(lines.len())].to_vec();
    for (nth, start) in starts.iter().enumerate() {
        let next = starts.get(nth + 1).copied();
        let block = &lines[start + 1..next.unwrap_or(lines.len())];
        let ends = |line: &&str| is_rule(line) || (next.is_none() && line.trim().is_empty());
        // The line right below the id may be empty without ending anything.
        let skip = block.iter().take_while(|line| line.trim().is_empty()).count();
        let end = block[skip..].iter().position(ends).map_or(block.len(), |at| skip + at);
        sources.push(source(id(lines[*start]).unwrap_or_default(), &block[skip..end]));
        rest.extend(&block[end..]);
    }
    (sources, rest.join("\n").trim().to_owned())
}

fn id(line: &str) -> Option<&str> {
    let id = line.trim().strip_prefix("ID:")?.trim();
    (!id.is_empty() && id.chars().all(|c| c.is_ascii_digit())).then_some(id)
}

fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 3 && line.bytes().all(|b| b == b'-')
}

fn source(id: &str, lines: &[&str]) -> Source {
    let mut source = Source { id: id.to_owned(), ..Source::default() };
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

/// The sentences of a block: up to a full stop of either script, or the end of the line.
pub(super) fn sentences(source: &Source) -> Vec<Sentence> {
    let mut found = Vec::new();
    for line in source.text.lines() {
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

fn keep(source: &Source, sentence: &mut String, found: &mut Vec<Sentence>) {
    let text = std::mem::take(sentence).trim().to_owned();
    if text.chars().any(char::is_alphanumeric) {
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

    #[test]
    fn blocks_are_read_and_taken_out() {
        let (sources, rest) =
            read("Hello.\nID: 1\nTitle: T\nURL: u\nURL: is text\na\n\nb\nID: 22\n\nc\n\nBye.\nID: x");
        let source = |id: &str, title: &str, text: &str| Source {
            id: id.into(),
            title: title.into(),
            text: text.into(),
        };
        assert_eq!(
            sources,
            [source("1", "T", "URL: is text\na\n\nb\n").without_second_url(), source("22", "", "c\n")]
        );
        assert_eq!(rest, "Hello.\n\nBye.\nID: x");
    }

    impl Source {
        // Both lines stand in the head of the block, so neither is text.
        fn without_second_url(mut self) -> Self {
            self.text = self.text.replace("URL: is text\n", "");
            self
        }
    }

    #[test]
    fn sentences_end_at_the_stops_of_both_scripts() {
        let check = |text: &str, expected: &[&str]| {
            let source = Source { text: text.into(), ..Source::default() };
            let found: Vec<String> = sentences(&source).into_iter().map(|s| s.text).collect();
            assert_eq!(found, expected);
        };
        check(
            "Pi is 3.14. Dr. A. Smith, e.g. he, knows! \nNew line",
            &["Pi is 3.14.", "Dr. A. Smith, e.g. he, knows!", "New line"],
        );
        check("今天下雨。明天呢？不知道", &["今天下雨。", "明天呢？", "不知道"]);
        check("--- \n ", &[]);
        check(&"x".repeat(900), &[&"x".repeat(400), &"x".repeat(400), &"x".repeat(100)]);
    }
}
