//! Chunking settings of a document, parsed once.

use regex::Regex;
use serde_json::Map;
use weft_core::error::{Error, Result};
use weft_core::pattern;
use weft_core::seam::document_reader::PAGE_RANGES_MAX;
use weft_core::value::Json;

use super::delimiter::Delimiters;

/// Default chunk size, in tokens.
const LIMIT_DEFAULT: u32 = 512;
/// Maximum chunk size, in tokens.
const LIMIT_MAX: u32 = 2_048;
/// Minimum chunk size, in tokens; smaller values are raised to it. Positions, headings and the vector of a chunk take
/// kilobytes, and a single word is useless as a search result.
const LIMIT_LEAST: u32 = 8;
/// Maximum percentage of a chunk that the next one repeats.
const OVERLAP_MAX: u32 = 90;
/// Maximum length of a list of delimiters, in characters.
const DELIMITER_CHARS_MAX: usize = 1_024;
/// Maximum number of heading levels that patterns define.
const LEVELS_MAX: u32 = 32;
/// Maximum number of patterns for one level.
const PATTERNS_MAX: usize = 64;

/// How spreadsheet rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SheetStyle {
    /// One line for each row.
    Lines,
    /// HTML tables of a few rows each.
    Html,
}

/// How a document is cut.
#[derive(Clone, Debug)]
pub(crate) struct ChunkSettings {
    /// Maximum chunk size, in tokens.
    pub(crate) limit: u32,
    /// Where the text may be cut.
    pub(crate) delimiters: Delimiters,
    /// Where chunks are cut into child chunks, if they are.
    pub(crate) children: Option<Delimiters>,
    /// Percentage of a chunk that the next one repeats.
    pub(crate) overlap_percent: u32,
    /// How spreadsheet rows are written.
    pub(crate) sheets: SheetStyle,
    /// Page ranges to read, as first and last page; `None` for all pages.
    pub(crate) pages: Option<Vec<(u32, u32)>>,
    /// Number of tokens of text on each side of a table that its chunk includes.
    pub(crate) table_context: u32,
    /// Patterns of headings by level, outermost first.
    pub(crate) title_levels: Vec<Vec<Regex>>,
    /// Families of heading patterns. A family has one pattern for each level, outermost first, which matches at the
    /// start of a line.
    pub(crate) title_families: Vec<Vec<Regex>>,
    /// The depth to which headings begin a chunk; `None` for all. With `title_levels` this is a level. With families it
    /// counts the levels that occur, and 0 means the most frequent level.
    pub(crate) hierarchy: Option<u32>,
    /// Whether chunks begin with the headings above them. If not, small sections are merged.
    pub(crate) title_paths: bool,
    /// Whether each chunk begins with the text before the first heading of the document.
    pub(crate) title_opening: bool,
    /// Whether the printed table of contents is left out.
    pub(crate) remove_toc: bool,
}

impl ChunkSettings {
    /// Reads the settings of this module by name; others are ignored.
    ///
    /// # Errors
    /// `Invalid`, naming the first setting that is wrong.
    pub(crate) fn read(map: &Map<String, Json>) -> Result<Self> {
        let given = |name: &str| map.get(name).filter(|value| !value.is_null());
        let children = text(given("children_delimiter"), "children_delimiter")?.unwrap_or_default();
        let delimiter = text(given("delimiter"), "delimiter")?.unwrap_or("\n");
        let delimiters = Delimiters::parse(delimiter);
        if delimiters.is_empty() {
            return Err(wrong("delimiter", "is empty", "give at least one character, such as \\n"));
        }
        let children = Delimiters::parse(children);
        Ok(Self {
            limit: number(given("chunk_token_num"), "chunk_token_num", 1, LIMIT_MAX)?
                .unwrap_or(LIMIT_DEFAULT)
                .max(LIMIT_LEAST),
            delimiters,
            children: (!children.is_empty()).then_some(children),
            overlap_percent: number(given("overlapped_percent"), "overlapped_percent", 0, OVERLAP_MAX)?
                .unwrap_or(0),
            sheets: match given("html4excel") {
                None | Some(Json::Bool(false)) => SheetStyle::Lines,
                Some(Json::Bool(true)) => SheetStyle::Html,
                Some(_) => {
                    return Err(wrong("html4excel", "is neither true nor false", "write true or false"));
                }
            },
            pages: given("pages").map(pages).transpose()?.filter(|ranges| !ranges.is_empty()),
            table_context: number(given("table_context_size"), "table_context_size", 0, LIMIT_MAX)?
                .unwrap_or(0),
            title_levels: patterns(given("title_levels"), "title_levels")?,
            title_families: patterns(given("title_families"), "title_families")?,
            hierarchy: number(given("hierarchy"), "hierarchy", 0, LEVELS_MAX)?,
            title_paths: given("title_paths") != Some(&Json::Bool(false)),
            title_opening: given("title_opening") == Some(&Json::Bool(true)),
            remove_toc: given("remove_toc") == Some(&Json::Bool(true)),
        })
    }

    /// Number of tokens of a chunk of `limit` tokens that the next one repeats.
    pub(crate) fn overlap(&self, limit: u32) -> u32 {
        limit * self.overlap_percent / 100
    }

    /// Whether a page is to be read.
    pub(crate) fn wants_page(&self, page: u32) -> bool {
        self.pages
            .as_ref()
            .is_none_or(|ranges| ranges.iter().any(|(first, last)| (*first..=*last).contains(&page)))
    }
}

fn wrong(name: &str, what: &str, help: &str) -> Error {
    Error::invalid(format!("the setting `{name}` {what}")).help(help)
}

fn text<'a>(value: Option<&'a Json>, name: &str) -> Result<Option<&'a str>> {
    match value {
        None => Ok(None),
        Some(Json::String(text)) if text.chars().count() <= DELIMITER_CHARS_MAX => Ok(Some(text)),
        Some(Json::String(_)) => Err(wrong(name, "is too long", "give at most 1,024 characters")),
        Some(_) => Err(wrong(name, "is not a string", "write it in quotes")),
    }
}

/// Parses an integer. A percentage written as a fraction, such as 0.1, is a mistake and does not mean a tenth of a
/// percent.
fn number(value: Option<&Json>, name: &str, min: u32, max: u32) -> Result<Option<u32>> {
    let Some(value) = value else { return Ok(None) };
    let whole = value.as_f64().filter(|number| number.fract() == 0.0);
    match whole.filter(|number| (f64::from(min)..=f64::from(max)).contains(number)) {
        Some(number) => Ok(Some(number as u32)),
        None => Err(wrong(name, &format!("is {value}"), &format!("give a whole number from {min} to {max}"))),
    }
}

/// Parses lists of regular expressions.
fn patterns(value: Option<&Json>, name: &str) -> Result<Vec<Vec<Regex>>> {
    let bad = |what: &str| wrong(name, what, "give a list of lists of regular expressions");
    let pattern = |text: &Json| {
        let text = text.as_str().ok_or_else(|| bad("has a pattern that is not a string"))?;
        pattern::compile(text).map_err(|_| bad(&format!("has an invalid pattern, `{text}`")))
    };
    let list = |list: &Json| match list {
        Json::Array(patterns) if patterns.len() <= PATTERNS_MAX => patterns.iter().map(pattern).collect(),
        _ => Err(bad("is not a list of lists of patterns")),
    };
    match value {
        None => Ok(Vec::new()),
        Some(Json::Array(lists)) if lists.len() <= LEVELS_MAX as usize => lists.iter().map(list).collect(),
        Some(_) => Err(bad("is not a list of lists of patterns")),
    }
}

fn pages(value: &Json) -> Result<Vec<(u32, u32)>> {
    let help = "give a list of first and last pages, such as [[1, 10], [15, 15]]";
    let bad = || wrong("pages", "is not a list of page ranges", help);
    let page = |number: &Json| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0 && *number >= 1.0)?;
        Some(number as u32)
    };
    let range = |range: &Json| match range.as_array().map(Vec::as_slice) {
        Some([first, last]) => {
            let (first, last) = (page(first).ok_or_else(bad)?, page(last).ok_or_else(bad)?);
            (first <= last).then_some((first, last)).ok_or_else(bad)
        }
        _ => Err(bad()),
    };
    let ranges = value.as_array().ok_or_else(bad)?;
    if ranges.len() > PAGE_RANGES_MAX {
        let help = format!("give at most {PAGE_RANGES_MAX}; consecutive pages are one range");
        return Err(wrong("pages", &format!("has {} page ranges", ranges.len()), &help));
    }
    ranges.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Json) -> Result<ChunkSettings> {
        ChunkSettings::read(value.as_object().unwrap())
    }

    #[test]
    fn settings_have_defaults() {
        let settings = read(&json!({ "chunk_token_num": null, "raptor": { "use_raptor": true } })).unwrap();
        assert_eq!((settings.limit, settings.overlap(512), settings.table_context), (512, 0, 0));
        assert!(settings.children.is_none() && settings.wants_page(7));
        let settings = read(&json!({
            "chunk_token_num": 100.0, "overlapped_percent": 15, "pages": [[2, 3], [9, 9]],
            "html4excel": true, "children_delimiter": "`;`"
        }))
        .unwrap();
        assert_eq!((settings.limit, settings.overlap(100), settings.sheets), (100, 15, SheetStyle::Html));
        assert_eq!([1, 2, 3, 4, 9].map(|page| settings.wants_page(page)), [false, true, true, false, true]);
    }

    #[test]
    fn delimiters_are_as_long_as_the_api_accepts_them() {
        let length = |count: usize| read(&json!({ "delimiter": "。".repeat(count) })).is_ok();
        assert!(length(DELIMITER_CHARS_MAX) && !length(DELIMITER_CHARS_MAX + 1));
    }

    #[test]
    fn the_maximum_number_of_page_ranges_is_read() {
        let settings = read(&json!({ "pages": vec![[1, 2]; PAGE_RANGES_MAX] })).unwrap();
        assert!(settings.wants_page(2) && !settings.wants_page(3));
        let error = read(&json!({ "pages": vec![[1, 2]; PAGE_RANGES_MAX + 1] })).unwrap_err();
        assert_eq!(error.message, "the setting `pages` has 1001 page ranges");
    }

    #[test]
    fn a_bad_setting_is_named() {
        for bad in [
            json!({ "chunk_token_num": 0 }),
            json!({ "chunk_token_num": 2049 }),
            json!({ "chunk_token_num": "512" }),
            json!({ "overlapped_percent": 91 }),
            json!({ "overlapped_percent": 0.1 }),
            json!({ "overlapped_percent": -1 }),
            json!({ "delimiter": "" }),
            json!({ "delimiter": 5 }),
            json!({ "delimiter": "x".repeat(2_000) }),
            json!({ "children_delimiter": [] }),
            json!({ "html4excel": "yes" }),
            json!({ "pages": [[3, 2]] }),
            json!({ "pages": [[0, 2]] }),
            json!({ "pages": 7 }),
            json!({ "pages": vec![[1, 2]; PAGE_RANGES_MAX + 1] }),
            json!({ "table_context_size": 4096 }),
            json!({ "title_levels": "^#" }),
            json!({ "title_levels": [["("]] }),
            json!({ "title_levels": [["a{9999}{9999}"]] }),
            json!({ "title_families": [["a)(b"]] }),
            json!({ "hierarchy": 33 }),
        ] {
            let name = bad.as_object().unwrap().keys().next().unwrap().clone();
            let error = read(&bad).unwrap_err();
            assert_eq!(error.kind, weft_core::error::ErrorKind::Invalid);
            assert!(error.message.contains(&name) && error.help.is_some(), "{error:?}");
        }
    }
}
