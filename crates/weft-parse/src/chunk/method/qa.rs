//! Chunking of questions and answers: one chunk for each pair.

use weft_core::error::{Error, Result};

use crate::chunk::delimited::{self, DelimitedRow};
use crate::chunk::delimiter::Delimiters;
use crate::chunk::draft::{Cutting, PieceDraft};
use crate::chunk::flow::{Flow, SpanRole, TablePlacement};
use crate::chunk::numbering::{NumberMarker, marker};
use crate::chunk::pack::{HeadingBreaks, Packing, pack_string};
use crate::chunk::sections::sections;
use crate::chunk::sheet;
use crate::chunk::source::{ChunkSource, WHOLE_TOKENS_MAX};
use crate::tokens::tokens;

/// Labels of questions and answers, which are stripped.
const PREFIXES: [&str; 12] =
    ["question", "answer", "user", "assistant", "q", "a", "问题", "答案", "回答", "问", "答", "解答"];
/// Minimum number of numbered lines that are taken for questions.
const NUMBERED_MIN: usize = 2;

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    question: String,
    answer: String,
    first: usize,
    last: usize,
}

/// The pairs that one strategy found, and warnings about what it left out.
type Found = (Vec<Pair>, Vec<String>);

/// Looks for questions with the strategy that suits the file, and then with the others.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let ways: [fn(&ChunkSource<'_>) -> Found; 4] = match source.ending.as_str() {
        _ if sheet::is_sheet(source) => [of_tables, of_lines, of_numbers, of_headings],
        "pdf" => [of_numbers, of_headings, of_tables, of_lines],
        "txt" | "csv" | "tsv" => [of_lines, of_tables, of_numbers, of_headings],
        _ => [of_headings, of_tables, of_lines, of_numbers],
    };
    let found = ways.into_iter().map(|way| way(source)).find(|(pairs, _)| !pairs.is_empty());
    let Some((pairs, warnings)) = found else {
        return Err(Error::invalid("the file contains no question with an answer").help(
            "give a table of two columns, lines with a tab between question and answer, or headings that are questions",
        ));
    };
    let mut cutting = Cutting { warnings, ..Cutting::default() };
    let language = language(&pairs);
    for pair in &pairs {
        push(source, pair, language, &mut cutting);
    }
    Ok(cutting)
}

/// Pairs from rows of two cells; further cells are part of the answer.
fn of_tables(source: &ChunkSource<'_>) -> Found {
    extend(delimited::of_tables(source))
}

fn of_lines(source: &ChunkSource<'_>) -> Found {
    extend(delimited::of_lines(source))
}

/// Builds pairs from rows. Rows that are not a pair extend the answer before them.
fn extend(rows: Vec<DelimitedRow>) -> Found {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut lost = 0;
    for DelimitedRow { element, cells, line } in rows {
        match (cells.split_first(), pairs.last_mut()) {
            (Some((question, answer)), _) if !answer.is_empty() => {
                // A row of labels only is the table header.
                if !(is_label(question) && answer.iter().all(|cell| is_label(cell))) {
                    let (question, answer) = (question.clone(), answer.join(", "));
                    pairs.push(Pair { question, answer, first: element, last: element });
                }
            }
            (_, Some(last)) => {
                last.answer.push('\n');
                last.answer.push_str(&line);
                last.last = element;
            }
            (_, None) => lost += 1,
        }
    }
    (pairs, left_out(lost, "line", "before the first question"))
}

/// Pairs of the headings above a text, as the question, and the text.
fn of_headings(source: &ChunkSource<'_>) -> Found {
    let flow = Flow::new(&source.placed, TablePlacement::Inside(WHOLE_TOKENS_MAX));
    let mut pairs = Vec::new();
    let (mut before, mut bare) = (0, 0);
    for section in sections(&flow) {
        let spans = &flow.spans[section.spans];
        let Some(text) = spans.iter().position(|span| span.role != SpanRole::Heading) else {
            bare += 1;
            continue;
        };
        let (first, last) = (&spans[0], &spans[spans.len() - 1]);
        let question = flow.path(last.title).join("\n");
        if question.is_empty() {
            before += 1;
            continue;
        }
        let answer = flow.text[spans[text].start..last.end].to_owned();
        pairs.push(Pair { question, answer, first: first.element, last: last.element });
    }
    let mut warnings = left_out(before, "part", "before the first heading");
    warnings.extend(left_out(bare, "heading", "without text"));
    (pairs, warnings)
}

/// Pairs from lines that begin with the number of a question, in the style that most such lines have.
fn of_numbers(source: &ChunkSource<'_>) -> Found {
    let lines = delimited::lines(source);
    let kinds: Vec<Option<NumberMarker>> = lines.iter().map(|(_, line)| question_marker(line)).collect();
    // There are few styles, but there may be very many lines.
    let mut counts: Vec<(NumberMarker, usize)> = Vec::new();
    for kind in kinds.iter().flatten() {
        match counts.iter_mut().find(|(known, _)| known == kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((*kind, 1)),
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count >= NUMBERED_MIN);
    let Some((most, _)) = most else { return (Vec::new(), Vec::new()) };
    let mut pairs: Vec<Pair> = Vec::new();
    let mut lost = 0;
    for ((element, line), kind) in lines.into_iter().zip(kinds) {
        if kind == Some(most) {
            let question = line.trim().to_owned();
            pairs.push(Pair { question, answer: String::new(), first: element, last: element });
        } else if let Some(last) = pairs.last_mut() {
            if !last.answer.is_empty() {
                last.answer.push('\n');
            }
            last.answer.push_str(&line);
            last.last = element;
        } else {
            lost += 1;
        }
    }
    (pairs, left_out(lost, "line", "before the first question"))
}

/// Classifies the number of a question. `Q1:`, `Question 2.`, `问题3：` and `第四问` are a style of their own; other numbers
/// are classified as those of headings.
fn question_marker(line: &str) -> Option<NumberMarker> {
    let line = line.trim_start();
    // Only the beginning is needed for the label, and a line may be a whole chapter.
    let lower: String = line.chars().take(12).flat_map(char::to_lowercase).collect();
    let named = ["question", "问题", "q", "问"].iter().find_map(|name| lower.strip_prefix(name)).is_some_and(
        |rest| {
            let rest = rest.trim_start();
            let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            after.starts_with([':', '.', '：', '、', ')', '）'])
                || (after.len() < rest.len() && after.starts_with(' '))
        },
    );
    // 12 bytes are four Chinese characters.
    let ordinal = line.strip_prefix('第').and_then(|rest| rest.find(['问', '题'])).is_some_and(|at| at <= 12);
    // All labelled questions share the marker of articles.
    if named || ordinal { Some(NumberMarker::Article) } else { marker(line) }
}

/// Returns a warning about parts of the file that are in no pair, unless there are none.
fn left_out(count: usize, what: &str, place: &str) -> Vec<String> {
    let parts = weft_core::value::plural(count, what);
    if count == 0 { Vec::new() } else { vec![format!("left out: {parts} {place}")] }
}

/// Language of the labels of questions and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelLanguage {
    Chinese,
    Other,
}

fn language(pairs: &[Pair]) -> LabelLanguage {
    let (mut chinese, mut latin) = (0, 0);
    // An answer may be a whole chapter, and its beginning is enough to tell the language.
    for c in pairs.iter().flat_map(|pair| pair.question.chars().chain(pair.answer.chars().take(1_000))) {
        chinese += usize::from(('\u{4e00}'..='\u{9fff}').contains(&c));
        latin += usize::from(c.is_alphabetic() && c < '\u{2e80}');
    }
    // One Chinese character carries as much as several letters.
    if chinese * 2 > latin { LabelLanguage::Chinese } else { LabelLanguage::Other }
}

fn is_label(text: &str) -> bool {
    // Columns may also be called `Questions` and `Answers`.
    let text = text.trim().trim_end_matches('s').to_lowercase();
    PREFIXES.contains(&text.as_str())
}

/// Strips the label of a text, such as `Q: `.
fn bare(text: &str) -> &str {
    let text = text.trim();
    let end = text.find([':', '：', '\t', ' ']).unwrap_or(text.len());
    let rest = &text[end..];
    let is_named = PREFIXES.contains(&text[..end].to_lowercase().as_str());
    // If only a space follows, the word may be part of the sentence.
    let is_parted = rest.starts_with([':', '：', '\t']) || rest.trim_start().starts_with([':', '：']);
    if is_named && is_parted { rest.trim_start_matches([':', '：', '\t', ' ']) } else { text }
}

fn push(source: &ChunkSource<'_>, pair: &Pair, language: LabelLanguage, cutting: &mut Cutting) {
    let (question, answer) = (bare(&pair.question), bare(&pair.answer));
    let (before, between) = match language {
        LabelLanguage::Chinese => ("问题：", "\t回答："),
        LabelLanguage::Other => ("Question: ", "\tAnswer: "),
    };
    let lead = format!("{before}{question}{between}");
    let whole = format!("{lead}{answer}");
    let used = tokens(&lead);
    let none = Delimiters::default();
    let packing =
        |limit: u32| Packing { limit, overlap: 0, delimiters: &none, headings: HeadingBreaks::Never };
    // A question this long would fill every part of its answer, so both are cut as one text.
    let contents: Vec<String> = if used > WHOLE_TOKENS_MAX / 2 {
        pack_string(&whole, &packing(WHOLE_TOKENS_MAX)).into_iter().map(|(content, _)| content).collect()
    } else if used + tokens(answer) <= WHOLE_TOKENS_MAX {
        vec![whole]
    } else {
        let parts = pack_string(answer, &packing(WHOLE_TOKENS_MAX - used));
        parts.into_iter().map(|(part, _)| format!("{lead}{part}")).collect()
    };
    if contents.len() > 1 {
        cutting.warnings.push(format!("a pair has more than {WHOLE_TOKENS_MAX} tokens and was cut"));
    }
    for content in contents {
        let mut draft = PieceDraft::of(source, pair.first, content);
        for element in pair.first + 1..=pair.last {
            let more = source.placed.get(element).map(|placed| placed.positions()).unwrap_or_default();
            crate::chunk::place::add(&mut draft.piece.positions, &more);
        }
        draft.elements = pair.first..pair.last + 1;
        draft.piece.searched =
            (!question.is_empty() && used <= WHOLE_TOKENS_MAX / 2).then(|| question.to_owned());
        cutting.drafts.push(draft);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut, parsed, request};

    const QA: ChunkMethod = ChunkMethod::Qa;

    #[test]
    fn a_file_of_very_many_questions_is_split_quickly() {
        let text: String = (0..40_000).map(|at| format!("Q{at}: why?\nso\nand\nso\non\n")).collect();
        let begun = std::time::Instant::now();
        let document = cut(&text, "a.pdf", QA, json!({}));
        assert_eq!(document.pieces.len(), 40_000);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn rows_are_question_answer_pairs() {
        let text = "|Question|Answer|\n|Q: Why?|A: Because, of it.|\n|and more||\n|How long?|two|days|";
        let document = cut(text, "a.xlsx", QA, json!({ "chunk_token_num": 3, "children_delimiter": "," }));
        assert_eq!(
            contents(&document),
            ["Question: Why?\tAnswer: Because, of it.\nand more", "Question: How long?\tAnswer: two, days"]
        );
        assert_eq!(document.pieces[0].searched.as_deref(), Some("Why?"));
        assert!(document.parents.is_empty());
    }

    #[test]
    fn lines_are_split_at_a_tab_or_comma() {
        let document = cut("intro\nwhat, then?\tthis\nmore, of it\nwho\tme", "a.txt", QA, json!({}));
        assert_eq!(
            contents(&document),
            ["Question: what, then?\tAnswer: this\nmore, of it", "Question: who\tAnswer: me"]
        );
        assert_eq!(document.warnings, ["left out: 1 line before the first question"]);
        let document = cut("问题：多久？,回答：三天\n多少,五元\n还有\t一个", "a.csv", QA, json!({}));
        assert_eq!(contents(&document)[0], "问题：多久？\t回答：三天");
        assert_eq!(document.pieces.len(), 2);
    }

    #[test]
    fn headings_are_questions() {
        let text = "before\n\n# Returns\n\n## How?\n\nBy post.\n\n- a\n\n## When?\n\n|a|\n|1|\n\n# Empty";
        let document = cut(text, "a.md", QA, json!({}));
        assert_eq!(
            contents(&document),
            [
                "Question: Returns\nHow?\tAnswer: By post.\n\n- a",
                "Question: Returns\nWhen?\tAnswer: <table>\n<tr><th>a</th></tr>\n<tr><td>1</td></tr>\n</table>"
            ]
        );
        assert_eq!(document.warnings.len(), 2);
    }

    #[test]
    fn numbers_mark_questions_in_a_pdf() {
        let text = "FAQ\n\nQ1: Why so?\n\nBecause.\n1. a\n\nQ2: Who?\n\nWe.";
        let document = cut(text, "a.pdf", QA, json!({}));
        assert_eq!(
            contents(&document),
            ["Question: Q1: Why so?\tAnswer: Because.\n1. a", "Question: Q2: Who?\tAnswer: We."]
        );
        let document = cut("1. Why?\n\nSo.\n\n2. How?\n\nThus.", "a.pdf", QA, json!({}));
        assert_eq!(
            contents(&document),
            ["Question: 1. Why?\tAnswer: So.", "Question: 2. How?\tAnswer: Thus."]
        );
    }

    #[test]
    fn a_file_without_questions_is_refused_and_a_huge_answer_is_truncated() {
        let error = crate::chunk::cut(&parsed("just text"), &request("a.docx", QA, json!({}))).unwrap_err();
        assert!(error.message.contains("no question"));
        let text = format!("# Why?\n\n{}", "word ".repeat(40_000));
        let document = cut(&text, "a.md", QA, json!({}));
        assert_eq!((document.pieces.len(), document.warnings.len()), (2, 1));
        assert!(
            document.pieces.iter().all(|piece| piece.content.starts_with("Question: Why?\tAnswer: word"))
        );
        assert!(document.pieces.iter().all(|piece| piece.tokens <= crate::chunk::WHOLE_TOKENS_MAX));
    }
}
