//! Appends links to the files that tools created to the answer of their agent.

use weft_agent::calls::Used;
use weft_agent::driver::{Answer, End};
use weft_core::id::FileId;
use weft_core::seam::file_store::download_path;
use weft_core::stream::{Piece, TextWriter};
use weft_core::{Json, Result};

use crate::artifact;

/// The outputs in which components describe the files they created.
const OUTPUTS: [&str; 3] = ["artifacts", "download", "attachment"];

/// Appends links to the files that tools created to an answer that does not contain them. Models are given the links,
/// but mostly only mention the files, and the user would have no other way to find them.
pub(super) fn shown(mut end: Result<End>, writer: Option<&TextWriter>) -> Result<End> {
    if let Ok(End::Answered(answer)) = &mut end
        && answer.structured.is_none()
    {
        let links = links(answer);
        if !links.is_empty() {
            let below = format!("\n\n{}", links.join("\n"));
            answer.text.push_str(&below);
            if let Some(writer) = writer {
                writer.push(Piece::Text(below.into()));
            }
        }
    }
    end
}

/// Returns links to files that an answer does not show; of files with the same name only the last, which replaced the
/// others.
fn links(answer: &Answer) -> Vec<String> {
    let mut links: Vec<(String, String)> = Vec::new();
    for file in answer.used.iter().flat_map(made) {
        let said = |key: &str| file.get(key).and_then(Json::as_str).unwrap_or_default();
        let (name, id) = (said("filename"), FileId::from(said("doc_id")));
        let path = download_path(&id);
        // Any tool may return an object of this form; only these are files stored by Weft.
        if said("url") != path {
            continue;
        }
        links.retain(|(other, _)| other != name);
        if !answer.text.contains(&path) {
            links.push((name.to_owned(), artifact::link(name, said("mime_type"), &id)));
        }
    }
    links.into_iter().map(|(_, link)| link).collect()
}

/// Returns the files that a call created.
fn made(used: &Used) -> Vec<Json> {
    let outputs = OUTPUTS.iter().filter_map(|name| used.results.get(*name));
    std::iter::once(&used.results).chain(outputs).filter_map(artifact::downloads).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file(id: &str, name: &str, mime_type: &str) -> Json {
        json!({"doc_id": id, "filename": name, "mime_type": mime_type, "size": 1, "url": download_path(&id.into())})
    }

    fn answered(text: &str, results: &[Json]) -> Answer {
        let used = |results: &Json| Used {
            name: "t_0".to_owned(),
            arguments: json!({}),
            results: results.clone(),
            file: None,
        };
        Answer { text: text.to_owned(), used: results.iter().map(used).collect(), ..Answer::default() }
    }

    #[test]
    fn only_stored_files_not_shown_yet_are_linked() {
        let check = |text: &str, results: &[Json], expected: &str| {
            let Ok(End::Answered(answer)) = shown(Ok(End::Answered(answered(text, results))), None) else {
                panic!("it has answered");
            };
            assert_eq!(answer.text, expected);
        };
        let picture = json!({"result": 3, "artifacts": [file("a", "x[1].png", "image/png"), file("b", "t.csv", "text/csv")]});
        let link = |id: &str| format!("(/api/v1/agents/attachments/{id}/download)");
        let both = format!("So.\n\n![x1.png]{}\n[t.csv]{}", link("a"), link("b"));
        check("So.", &[picture.clone(), json!("text"), json!({"artifacts": "none"})], &both);
        // A file shown by the model is not shown again, and of two with one name the later counts.
        let shows = format!("![it]{}", link("a"));
        let again = json!({"artifacts": [file("c", "t.csv", "text/csv")]});
        check(&shows, &[picture, again], &format!("{shows}\n\n[t.csv]{}", link("c")));
        // Some return the file as text.
        let document = json!(file("d", "r.pdf", "application/pdf").to_string());
        check("So.", std::slice::from_ref(&document), &format!("So.\n\n[r.pdf]{}", link("d")));
        check("So.", &[json!({"download": document})], &format!("So.\n\n[r.pdf]{}", link("d")));
        let elsewhere =
            json!({"doc_id": "e", "filename": "x", "mime_type": "y", "url": "https://e.example/x"});
        check("So.", &[json!({"artifacts": [elsewhere]})], "So.");
    }

    #[test]
    fn a_structured_answer_is_unchanged() {
        let made = json!({"artifacts": [file("a", "x.png", "image/png")]});
        let answer = Answer { structured: Some(json!({})), ..answered("{}", &[made]) };
        let end = shown(Ok(End::Answered(answer.clone())), None).unwrap();
        assert_eq!(end, End::Answered(answer));
    }
}
