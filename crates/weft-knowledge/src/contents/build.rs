//! Builds the table of contents of a document.

use weft_core::id::ChunkId;
use weft_core::seam::document_reader::Heading;
use weft_core::seam::knowledge::ContentsEntry;
use weft_core::{Json, Result};

use super::ENTRIES_MAX;
use crate::ask::{Ask, Step, ask_json, passes, unexpected};

const HEADINGS: &str = include_str!("../prompts/contents.md");
const LEVELS: &str = include_str!("../prompts/contents_levels.md");
/// Approximate number of characters of passages in one request.
const PACK_CHARS_MAX: usize = 16_000;
/// Maximum number of characters of one passage that a model is shown.
const SHOWN_MAX: usize = 1_200;
/// Maximum number of characters of a heading.
const TITLE_MAX: usize = 200;
/// The deepest level.
// As deep as headings go in HTML and Markdown.
const LEVEL_MAX: u64 = 6;

/// Builds the table of a file that marks its headings. `chunks` are those of the file's pieces, in order.
pub fn from_headings(headings: &[Heading], chunks: &[ChunkId]) -> Vec<ContentsEntry> {
    let ends = headings.iter().skip(1).map(|next| next.piece).chain([chunks.len()]);
    let entry = |(heading, end): (&Heading, usize)| {
        let below = chunks.get(heading.piece..end.min(chunks.len())).unwrap_or_default();
        ContentsEntry {
            level: heading.level.max(1),
            title: shortened(&heading.title),
            chunks: below.to_vec(),
        }
    };
    headings.iter().zip(ends).take(ENTRIES_MAX).map(entry).collect()
}

/// Builds the table from passages that know the headings they are under, outermost first.
pub fn from_paths<'a>(passages: impl IntoIterator<Item = (&'a ChunkId, &'a [String])>) -> Vec<ContentsEntry> {
    let mut entries: Vec<ContentsEntry> = Vec::new();
    let mut open: &[String] = &[];
    for (chunk, path) in passages {
        let same = open.iter().zip(path).take_while(|(one, other)| one == other).count();
        for (depth, title) in path.iter().enumerate().skip(same) {
            if entries.len() >= ENTRIES_MAX {
                return entries;
            }
            let level = u8::try_from(depth + 1).unwrap_or(u8::MAX);
            entries.push(ContentsEntry { level, title: shortened(title), chunks: Vec::new() });
        }
        // Text follows that belongs to the heading above a deeper one: that heading continues.
        let back = same == path.len() && open.len() > path.len();
        if back && let Some(title) = path.last() {
            let level = u8::try_from(path.len()).unwrap_or(u8::MAX);
            entries.push(ContentsEntry { level, title: shortened(title), chunks: Vec::new() });
        }
        if let Some(entry) = entries.last_mut().filter(|_| !path.is_empty()) {
            entry.chunks.push(chunk.clone());
        }
        open = path;
    }
    entries
}

fn shortened(title: &str) -> String {
    title.trim().chars().take(TITLE_MAX).collect()
}

/// Builds the table of a document without marked headings, using a model: first the headings, pack by pack,
/// then their levels. Also returns what could not be read in its answers. Packs with unusable answers are
/// left out as long as others are usable. The inner error is a model that cannot do it, or a temporary
/// failure.
///
/// # Errors
/// When the whole work has ended.
pub async fn by_model(
    model: &dyn Ask,
    passages: &[(ChunkId, String)],
) -> Result<Result<(Vec<ContentsEntry>, Vec<String>)>> {
    let (mut found, notes) = match headings(model, passages).await? {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    // A model may name the headings of different passages in any order.
    found.sort_by_key(|(_, number)| *number);
    found.truncate(ENTRIES_MAX);
    if found.is_empty() {
        return Ok(Ok((Vec::new(), notes)));
    }
    let listed: String =
        found.iter().enumerate().map(|(number, (title, _))| format!("{number}. {title}\n")).collect();
    let levels = match ask_json(model, Step::Contents, LEVELS, &listed).await? {
        Ok(answer) => levels(&answer).unwrap_or_default(),
        Err(error) if passes(error.kind) => return Ok(Err(error)),
        // Without levels it is still a table, but a flat one.
        Err(_) => Vec::new(),
    };
    let headings: Vec<Heading> = found
        .into_iter()
        .enumerate()
        .map(|(number, (title, piece))| Heading {
            level: levels.get(number).copied().unwrap_or(1),
            title,
            piece,
        })
        .collect();
    let chunks: Vec<ChunkId> = passages.iter().map(|(id, _)| id.clone()).collect();
    Ok(Ok((from_headings(&headings, &chunks), notes)))
}

/// Titles, each with the number of its passage, and notes on what could not be read.
type Found = (Vec<(String, usize)>, Vec<String>);

async fn headings(model: &dyn Ask, passages: &[(ChunkId, String)]) -> Result<Result<Found>> {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    let (mut usable, mut last) = (false, None);
    for (part, pack) in packs(passages).into_iter().enumerate() {
        let text: String = pack
            .clone()
            .map(|number| {
                let shown: String = passages[number].1.chars().take(SHOWN_MAX).collect();
                format!("[{number}]\n{shown}\n\n")
            })
            .collect();
        let answer = ask_json(model, Step::Contents, HEADINGS, &text).await?;
        match answer.and_then(|json| titles(&json).ok_or_else(|| unexpected("a list of headings"))) {
            Ok(titles) => {
                usable = true;
                // A number that belongs to another part was made up by the model.
                found.extend(titles.into_iter().filter(|(_, number)| pack.contains(number)));
            }
            Err(error) if passes(error.kind) => return Ok(Err(error)),
            Err(error) => {
                notes.push(format!("cannot extract headings from part {}: {}", part + 1, error.full()));
                last = Some(error);
            }
        }
    }
    Ok(match last {
        Some(error) if !usable => Err(error),
        _ => Ok((found, notes)),
    })
}

/// Groups the passages into requests.
fn packs(passages: &[(ChunkId, String)]) -> Vec<std::ops::Range<usize>> {
    let mut packs = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (number, (_, text)) in passages.iter().enumerate() {
        let more = text.chars().take(SHOWN_MAX).count();
        if size + more > PACK_CHARS_MAX && number > start {
            packs.push(start..number);
            (start, size) = (number, 0);
        }
        size += more;
    }
    if start < passages.len() {
        packs.push(start..passages.len());
    }
    packs
}

fn titles(json: &Json) -> Option<Vec<(String, usize)>> {
    let title = |item: &Json| {
        let title = shortened(item.get("title")?.as_str()?);
        let number = item.get("passage")?;
        // Some models write the number in brackets, as it was shown.
        let number =
            number.as_u64().or_else(|| number.as_str()?.trim_matches(['[', ']', ' ']).parse().ok())?;
        (!title.is_empty()).then_some((title, usize::try_from(number).ok()?))
    };
    // One heading that cannot be placed does not make the others useless.
    Some(json.as_array()?.iter().filter_map(title).collect())
}

fn levels(json: &Json) -> Option<Vec<u8>> {
    let level = |item: &Json| u8::try_from(item.as_u64()?.clamp(1, LEVEL_MAX)).ok();
    json.as_array()?.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(entries: &[ContentsEntry]) -> Vec<String> {
        let line = |entry: &ContentsEntry| {
            let chunks: Vec<&str> = entry.chunks.iter().map(ChunkId::as_str).collect();
            format!("{} {} {}", entry.level, entry.title, chunks.join(","))
        };
        entries.iter().map(line).collect()
    }

    #[test]
    fn an_entry_covers_the_text_up_to_the_next() {
        let heading = |level, title: &str, piece| Heading { level, title: title.to_owned(), piece };
        let chunks: Vec<ChunkId> = ["a", "b", "c"].map(ChunkId::from).into();
        let headings =
            [heading(1, "One", 0), heading(2, "Two", 0), heading(1, "Three", 2), heading(1, "End", 9)];
        assert_eq!(lines(&from_headings(&headings, &chunks)), ["1 One ", "2 Two a,b", "1 Three c", "1 End "]);
        assert!(from_headings(&[], &chunks).is_empty());
    }

    #[test]
    fn heading_paths_give_the_same_contents() {
        let ids: Vec<ChunkId> = ["0", "a", "b", "c", "d"].map(ChunkId::from).into();
        let path = |titles: &[&str]| titles.iter().map(|title| (*title).to_owned()).collect::<Vec<_>>();
        let paths = [path(&[]), path(&["One"]), path(&["One", "Two"]), path(&["One"]), path(&["Three"])];
        let entries = from_paths(ids.iter().zip(paths.iter().map(Vec::as_slice)));
        assert_eq!(lines(&entries), ["1 One a", "2 Two b", "1 One c", "1 Three d"]);
    }

    #[test]
    fn model_answers_are_parsed_leniently() {
        let found = titles(
            &json!([{"title": " A ", "passage": 3}, {"title": "B", "passage": "[4]"}, {"title": "C"}, 7]),
        );
        assert_eq!(found, Some(vec![("A".to_owned(), 3), ("B".to_owned(), 4)]));
        assert_eq!(titles(&json!({"a": 1})), None);
        assert_eq!(levels(&json!([1, 99, 0])), Some(vec![1, 6, 1]));
        assert_eq!(levels(&json!(["x"])), None);
    }

    #[test]
    fn long_documents_are_sent_in_batches() {
        let passages: Vec<(ChunkId, String)> =
            (0..40).map(|number| (ChunkId::from(number.to_string()), "x".repeat(5_000))).collect();
        let packs = packs(&passages);
        assert_eq!((packs.len(), packs[0].clone(), packs[3].end), (4, 0..13, 40));
        assert!(super::packs(&[]).is_empty());
    }
}
