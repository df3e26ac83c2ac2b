//! Translations of the question, and additional keywords for it.

use weft_core::{Json, Result};

use crate::ask::{Ask, Step, ask_json, unexpected};

const TRANSLATE: &str = include_str!("../prompts/translate.md");
const KEYWORDS: &str = include_str!("../prompts/keywords.md");
/// Maximum number of languages that a question is translated into.
pub const LANGUAGES_MAX: usize = 8;
/// Maximum number of additional keywords for a question.
pub const KEYWORDS_MAX: usize = 5;
/// Maximum number of characters of a translation or keyword.
const TEXT_MAX: usize = 2_000;

/// Returns the question, followed by its translations. If these cannot be obtained, that is noted and the
/// question is returned alone.
///
/// # Errors
/// When the whole work has ended.
pub(super) async fn questions(
    model: &dyn Ask,
    question: &str,
    languages: &[String],
    notes: &mut Vec<String>,
) -> Result<Vec<String>> {
    // The original question is kept: a translation may miss what it asks for.
    let mut questions = vec![question.to_owned()];
    let languages = &languages[..languages.len().min(LANGUAGES_MAX)];
    if languages.is_empty() {
        return Ok(questions);
    }
    let text = format!("Question: {question}\n\nLanguages: {}", languages.join(", "));
    let answer = ask_json(model, Step::Translate, TRANSLATE, &text).await?;
    match answer.and_then(|json| texts(&json, languages.len()).ok_or_else(|| unexpected("a list of texts"))) {
        Ok(translations) => {
            if translations.len() < languages.len() {
                let count = translations.len();
                notes.push(format!("the model translated the question into only {count} of the languages"));
            }
            for translation in translations {
                if !questions.contains(&translation) {
                    questions.push(translation);
                }
            }
        }
        Err(error) => {
            notes.push(format!("searched only in the language of the question: {}", error.full()));
        }
    }
    Ok(questions)
}

/// Returns keywords that a good passage would contain. If they cannot be obtained, that is noted.
///
/// # Errors
/// When the whole work has ended.
pub(super) async fn keywords(
    model: &dyn Ask,
    question: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<String>> {
    let answer = ask_json(model, Step::Keywords, KEYWORDS, &format!("Question: {question}")).await?;
    let words =
        answer.and_then(|json| texts(&json, KEYWORDS_MAX).ok_or_else(|| unexpected("a list of words")));
    Ok(words.unwrap_or_else(|error| {
        notes.push(format!("searched without further keywords: {}", error.full()));
        Vec::new()
    }))
}

/// Returns the texts of a list, or of a list that is the only member of an object; `None` for anything else.
fn texts(json: &Json, count_max: usize) -> Option<Vec<String>> {
    let list = match json {
        Json::Array(list) => list,
        Json::Object(map) if map.len() == 1 => map.values().next()?.as_array()?,
        _ => return None,
    };
    let texts: Option<Vec<&str>> = list.iter().take(count_max).map(Json::as_str).collect();
    let texts = texts?.into_iter().map(|text| text.trim().chars().take(TEXT_MAX).collect::<String>());
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_texts_are_read() {
        let check = |json: Json, expected: Option<&[&str]>| {
            let expected = expected.map(|texts| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
            assert_eq!(texts(&json, 2), expected, "{json}");
        };
        check(json!(["a", " b ", "c"]), Some(&["a", "b"]));
        check(json!({"translations": ["a"]}), Some(&["a"]));
        check(json!(["a", 1]), None);
        check(json!([" "]), None);
        check(json!("a"), None);
        check(json!({"English": "a", "German": "b"}), None);
    }
}
