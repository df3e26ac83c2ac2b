//! The question in other languages, and further words for it.

use weft_core::{Json, Result};

use crate::ask::{Ask, Step, ask_json, unexpected};

const TRANSLATE: &str = include_str!("../prompts/translate.md");
const KEYWORDS: &str = include_str!("../prompts/keywords.md");
/// Languages that a question is translated into, at most.
pub const LANGUAGES_MAX: usize = 8;
/// Further words for a question, at most.
pub const KEYWORDS_MAX: usize = 5;
/// Characters of a translation or a word that are looked at.
const TEXT_MAX: usize = 2_000;

/// The question, and behind it its translations. Where they cannot be had, that is noted and the question
/// stands alone.
///
/// # Errors
/// When the whole work has ended.
pub(super) async fn questions(
    model: &dyn Ask,
    question: &str,
    languages: &[String],
    notes: &mut Vec<String>,
) -> Result<Vec<String>> {
    // The question stays among them: a translation may miss what it asks for.
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
                notes.push(format!("the model translated the question into {count} of the languages only"));
            }
            for translation in translations {
                if !questions.contains(&translation) {
                    questions.push(translation);
                }
            }
        }
        Err(error) => {
            notes.push(format!("searched in the language of the question alone: {}", error.full()));
        }
    }
    Ok(questions)
}

/// Words that a good passage would hold. Where they cannot be had, that is noted.
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

/// The texts of a list, also of one that stands in an object by itself; none for anything else.
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
    fn only_texts_count() {
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
