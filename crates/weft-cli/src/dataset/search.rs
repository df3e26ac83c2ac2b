//! `weft dataset search`: searches passages for a question.

use serde_json::json;
use weft_app::App;
use weft_core::filter::{Condition, Filter, FilterOperator};
use weft_core::seam::knowledge::Passage;
use weft_core::value::{Json, shortened};
use weft_knowledge::retrieve::{Chosen, FilterChoice, Retrieval};

use crate::args::DatasetSearchArgs;
use crate::chosen_tenant::tenant;
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes};
use crate::sources;
use crate::words::quoted;

/// Maximum number of characters of a passage that are shown.
const EXCERPT_CHARS: usize = 240;

/// Prints the best passages.
///
/// # Errors
/// When the question is empty, there is no such dataset, a condition cannot be read, or the search fails.
pub(super) async fn run(args: &DatasetSearchArgs, app: &App) -> Outcome {
    if args.question.trim().is_empty() {
        return Err(Failure::usage("the question is empty").help("write the words to search for"));
    }
    let conditions = args.conditions.iter().map(|text| condition(text)).collect::<Outcome<Vec<_>>>()?;
    let unit = |flag: &str, value: f64| {
        if (0.0..=1.0).contains(&value) {
            Ok(value)
        } else {
            Err(Failure::usage(format!("{flag} must be between 0 and 1, but is {value}")))
        }
    };
    let usual = Retrieval::default();
    let asked = Retrieval {
        datasets: if args.datasets.is_empty() { Chosen::All } else { Chosen::Named(args.datasets.clone()) },
        question: args.question.clone(),
        filter: if conditions.is_empty() {
            FilterChoice::All
        } else {
            FilterChoice::Given(Filter { conditions, ..Filter::default() })
        },
        similarity_min: unit("--threshold", args.threshold)?,
        vector_weight: unit("--vector-weight", args.vector_weight.unwrap_or(usual.vector_weight))?,
        reranker: args.reranker.clone().unwrap_or_default(),
        limit: args.top as usize,
        ..usual
    };
    let found = app.retrieve(&tenant(), &asked).await?;
    found.notes.iter().for_each(|note| Notes::line(format!("note: {note}")));
    if found.passages.is_empty() {
        Notes::line("nothing found");
    }
    let mut data = Data::stdout();
    for (place, passage) in (1..).zip(&found.passages) {
        if args.json {
            data.line(&passage_json(passage).to_string())?;
        } else {
            data.text(&passage_text(place, passage))?;
        }
    }
    data.flush()?;
    Ok(Exit::Done)
}

fn passage_json(passage: &Passage) -> Json {
    json!(passage)
}

fn passage_text(place: usize, passage: &Passage) -> String {
    let chunk = &passage.chunk;
    let words = chunk.content.split_whitespace().collect::<Vec<_>>().join(" ");
    let excerpt = shortened(&words, EXCERPT_CHARS);
    let (similarity, at) = (chunk.similarity.unwrap_or_default(), sources::place(chunk));
    format!("{place:>2}. {similarity:.3}  {at}  ({})\n    {excerpt}\n", chunk.id)
}

/// Operators in a condition, each before those that are its prefixes.
const WRITTEN: [&str; 22] = [
    "not contains",
    "not is",
    "is not",
    "<>",
    "start with",
    "end with",
    "not empty",
    "not in",
    "contains",
    "empty",
    "in",
    "is",
    "≠",
    "!=",
    "≥",
    ">=",
    "≤",
    "<=",
    "==",
    "=",
    ">",
    "<",
];

/// Finds an operator in a condition, after a key. An operator of letters must be a separate word.
fn place(text: &str, written: &str) -> Option<usize> {
    let place = if written.starts_with(|c: char| c.is_ascii_alphabetic()) {
        // With a space at its end, so that an operator without a value is found, too.
        format!("{text} ").find(&format!(" {written} "))? + 1
    } else {
        text.find(written)?
    };
    (place > 0).then_some(place)
}

/// Parses a condition such as `year>=2020`, `author contains ada`, `tags in a,b`, `draft empty`.
fn condition(text: &str) -> Outcome<Condition> {
    let found = WRITTEN.iter().filter_map(|written| Some((place(text, written)?, *written)));
    // Some operators begin with another one, such as `>=` with `>`: the longest is meant.
    let found = found.min_by_key(|(place, written)| (*place, usize::MAX - written.len()));
    let read = found.and_then(|(place, written)| {
        let key = text[..place].trim();
        let value = text.get(place + written.len()..).unwrap_or_default().trim();
        let operator = FilterOperator::parse(written)?;
        // These two take no value and all others take one, which does not start like an operator.
        let is_alone = matches!(operator, FilterOperator::Empty | FilterOperator::NotEmpty);
        let fits = value.is_empty() == is_alone && !value.starts_with(['<', '>', '=', '!', '≠', '≤', '≥']);
        let value = serde_json::from_str(value).unwrap_or_else(|_| Json::from(value));
        (fits && !key.is_empty()).then(|| Condition { key: key.to_owned(), operator, value })
    });
    read.ok_or_else(|| {
        Failure::usage(format!("--where {} is not a condition", quoted(text)))
            .help("write, for example, --where 'year>=2020' or --where 'author contains Ada'")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_parsed() {
        let check = |text: &str, key: &str, operator: FilterOperator, value: Json| {
            let read = condition(text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(read, Condition { key: key.to_owned(), operator, value }, "{text}");
        };
        check("year>=2020", "year", FilterOperator::AtLeast, json!(2020));
        check("year = 2020", "year", FilterOperator::Equal, json!(2020));
        check("a!=b", "a", FilterOperator::NotEqual, json!("b"));
        check("author contains Ada L", "author", FilterOperator::Contains, json!("Ada L"));
        check("author not contains Ada", "author", FilterOperator::NotContains, json!("Ada"));
        check("tags in [\"a\",\"b\"]", "tags", FilterOperator::In, json!(["a", "b"]));
        check("tags not in a,b", "tags", FilterOperator::NotIn, json!("a,b"));
        check("draft empty", "draft", FilterOperator::Empty, json!(""));
        check("draft not empty", "draft", FilterOperator::NotEmpty, json!(""));
        check("title start with The", "title", FilterOperator::StartsWith, json!("The"));
        check("origin is here", "origin", FilterOperator::Equal, json!("here"));
        check("year <> 2005", "year", FilterOperator::NotEqual, json!(2005));
        check("author is not Ada", "author", FilterOperator::NotEqual, json!("Ada"));
        for wrong in
            ["", "year", "=5", "> 3", "year >=", "year = ", "year >> 3", "year =< 3", "draft empty now"]
        {
            assert!(condition(wrong).is_err(), "{wrong}");
        }
    }
}
