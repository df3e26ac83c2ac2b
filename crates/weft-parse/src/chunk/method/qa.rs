//! One piece for each question with its answer.

use weft_core::error::{Error, Result};

use crate::chunk::delimited::{self, DelimitedRow};
use crate::chunk::delimiter::Delimiters;
use crate::chunk::draft::{Cutting, PieceDraft};
use crate::chunk::flow::{Flow, SpanRole, TablePlacement};
use crate::chunk::numbering::{NumberMarker, marker};
use crate::chunk::pack::{HeadingBreaks, Packing};
use crate::chunk::sections::sections;
use crate::chunk::writer::pack_string;
use crate::chunk::{ChunkSource, WHOLE_TOKENS_MAX, sheet};
use crate::tokens::tokens;

/// Names of questions and answers, which are taken off.
const PREFIXES: [&str; 12] =
    ["question", "answer", "user", "assistant", "q", "a", "问题", "答案", "回答", "问", "答", "解答"];
/// Numbered lines that are questions, at least.
const NUMBERED_MIN: usize = 2;

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    question: String,
    answer: String,
    first: usize,
    last: usize,
}

/// What a way of reading has found, and what it has left out.
type Found = (Vec<Pair>, Vec<String>);

/// Looks for questions in the way that fits the file, and then in the others.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let ways: [fn(&ChunkSource<'_>) -> Found; 4] = match source.ending.as_str() {
        _ if sheet::is_sheet(source) => [of_tables, of_lines, of_numbers, of_headings],
        "pdf" => [of_numbers, of_headings, of_tables, of_lines],
        "txt" | "csv" | "tsv" => [of_lines, of_tables, of_numbers, of_headings],
        _ => [of_headings, of_tables, of_lines, of_numbers],
    };
    let found = ways.into_iter().map(|way| way(source)).find(|(pairs, _)| !pairs.is_empty());
    let Some((pairs, warnings)) = found else {
        return Err(Error::invalid("the file has no question with an answer").help(
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

/// Rows of two cells; a third one and those after it belong to the answer.
fn of_tables(source: &ChunkSource<'_>) -> Found {
    extend(delimited::of_tables(source))
}

fn of_lines(source: &ChunkSource<'_>) -> Found {
    extend(delimited::of_lines(source))
}

/// Rows that are no pair extend the answer before.
fn extend(rows: Vec<DelimitedRow>) -> Found {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut lost = 0;
    for DelimitedRow { element, cells, line } in rows {
        match (cells.split_first(), pairs.last_mut()) {
            (Some((question, answer)), _) if !answer.is_empty() => {
                // A row of labels only is the head of the table.
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
    (pairs, left_out(lost, "lines before the first question"))
}

/// The headings above a text are its question.
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
    let mut warnings = left_out(before, "parts before the first heading");
    warnings.extend(left_out(bare, "headings without text"));
    (pairs, warnings)
}

/// Lines with the number of a question, of the kind that most lines have.
fn of_numbers(source: &ChunkSource<'_>) -> Found {
    let lines = delimited::lines(source);
    let kinds: Vec<Option<NumberMarker>> = lines.iter().map(|(_, line)| question_marker(line)).collect();
    // There are few kinds, and there may be very many lines.
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
    (pairs, left_out(lost, "lines before the first question"))
}

/// `Q1:`, `Question 2.`, `问题3：` and `第四问` stand for themselves; other numbers are what they are for headings.
fn question_marker(line: &str) -> Option<NumberMarker> {
    let line = line.trim_start();
    // The name stands at the beginning, and a line may be a whole chapter.
    let lower: String = line.chars().take(12).flat_map(char::to_lowercase).collect();
    let named = ["question", "问题", "q", "问"].iter().find_map(|name| lower.strip_prefix(name)).is_some_and(
        |rest| {
            let rest = rest.trim_start();
            let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            after.starts_with([':', '.', '：', '、', ')', '）'])
                || (after.len() < rest.len() && after.starts_with(' '))
        },
    );
    let ordinal = line.strip_prefix('第').and_then(|rest| rest.find(['问', '题'])).is_some_and(|at| at <= 12);
    // The marker of an article is used for all that are named.
    if named || ordinal { Some(NumberMarker::Article) } else { marker(line) }
}

fn left_out(count: usize, what: &str) -> Vec<String> {
    if count == 0 { Vec::new() } else { vec![format!("{count} {what} were left out")] }
}

/// In which language the names of question and answer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelLanguage {
    Chinese,
    Other,
}

fn language(pairs: &[Pair]) -> LabelLanguage {
    let (mut chinese, mut latin) = (0, 0);
    // An answer may be a whole chapter, and its beginning tells the language.
    for c in pairs.iter().flat_map(|pair| pair.question.chars().chain(pair.answer.chars().take(1_000))) {
        chinese += usize::from(('\u{4e00}'..='\u{9fff}').contains(&c));
        latin += usize::from(c.is_alphabetic() && c < '\u{2e80}');
    }
    // A Chinese character says as much as several letters.
    if chinese * 2 > latin { LabelLanguage::Chinese } else { LabelLanguage::Other }
}

fn is_label(text: &str) -> bool {
    // Columns are called `Questions` and `Answers`, too.
    let text = text.trim().trim_end_matches('s').to_lowercase();
    PREFIXES.contains(&text.as_str())
}

/// A text without the name of what it is, such as `Q: `.
fn bare(text: &str) -> &str {
    let text = text.trim();
    let end = text.find([':', '：', '\t', ' ']).unwrap_or(text.len());
    let rest = &text[end..];
    let is_named = PREFIXES.contains(&text[..end].to_lowercase().as_str());
    // A blank alone comes after a word that may be part of the sentence.
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
    // So long a question would fill every part of its answer: both are cut as one text.
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
    fn a_file_of_very_many_questions_is_cut_in_moments() {
        let text: String = (0..40_000).map(|at| format!("Q{at}: why?\nso\nand\nso\non\n")).collect();
        let begun = std::time::Instant::now();
        let document = cut(&text, "a.pdf", QA, json!({}));
        assert_eq!(document.pieces.len(), 40_000);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn rows_are_pairs() {
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
    fn lines_have_a_tab_or_a_comma() {
        let document = cut("intro\nwhat, then?\tthis\nmore, of it\nwho\tme", "a.txt", QA, json!({}));
        assert_eq!(
            contents(&document),
            ["Question: what, then?\tAnswer: this\nmore, of it", "Question: who\tAnswer: me"]
        );
        assert_eq!(document.warnings, ["1 lines before the first question were left out"]);
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
    fn numbers_mark_questions_of_a_pdf() {
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
    fn a_file_without_questions_is_refused_and_a_huge_answer_is_cut() {
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
