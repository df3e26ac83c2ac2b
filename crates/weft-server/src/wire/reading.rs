//! Ingestion logs of documents in the format of the API.

use serde_json::{Value as Json, json};
use weft_core::media_type::ending;
use weft_core::seam::dataset_store::DocumentState;
use weft_core::seam::reading_log::{Reading, ReadingFilter};
use weft_knowledge::ingest::PIPELINE;

use super::document::run;
use super::method;
use super::time::{self, http_date};
use crate::body::Params;
use crate::error::ApiError;

/// Outcomes of ingestions, as words and as the digits of older clients.
const ENDINGS: [(DocumentState, &str, &str); 3] = [
    (DocumentState::Cancelled, "CANCEL", "2"),
    (DocumentState::Done, "DONE", "3"),
    (DocumentState::Failed, "FAIL", "4"),
];

/// Reads the filter of a list of ingestions.
///
/// # Errors
/// 101 for an unknown outcome, and for a date that is not valid.
pub fn filter(params: &Params, page_max: u64) -> Result<ReadingFilter, ApiError> {
    let mut states = Vec::new();
    for word in params.all("operation_status").chain(params.all("run")) {
        let known = ENDINGS.iter().find(|(_, name, digit)| name.eq_ignore_ascii_case(word) || *digit == word);
        let (state, ..) = known.ok_or_else(|| {
            ApiError::argument(format!(
                "`{word}` is not a final state of a reading: use DONE, FAIL or CANCEL"
            ))
        })?;
        // Each once: an address has room for more repetitions than a database should compare with.
        if !states.contains(state) {
            states.push(*state);
        }
    }
    let dated = |key: &str, read: fn(&str) -> Option<i64>| {
        let wrong = || {
            ApiError::argument(format!("`{key}` must be a date, such as 2024-10-11 or 2024-10-11 08:46:43"))
        };
        params.get(key).map(|text| read(text.trim()).ok_or_else(wrong)).transpose()
    };
    let page = params.page(page_max);
    Ok(ReadingFilter {
        document: params.get("document_id").map(Into::into),
        states,
        keywords: params.get("keywords").unwrap_or_default().to_owned(),
        from_ms: dated("create_date_from", time::read)?,
        to_ms: dated("create_date_to", time::read_end)?,
        ascending: params.ascending(),
        offset: page.offset,
        limit: page.limit,
    })
}

/// The log of an ingestion.
pub fn view(reading: &Reading) -> Json {
    let seconds = std::time::Duration::from_millis(reading.duration_ms.try_into().unwrap_or(0)).as_secs_f64();
    let digit = ENDINGS.iter().find(|(state, ..)| *state == reading.state).map_or("", |(.., digit)| digit);
    let failed = reading.state == DocumentState::Failed;
    let dataset = &reading.document.dataset;
    json!({
        "id": reading.id,
        "dataset_id": dataset.id,
        "kb_id": dataset.id,
        "tenant_id": dataset.tenant,
        "document_id": reading.document.id,
        "document_name": reading.name,
        "document_suffix": ending(&reading.name),
        "source_from": "local",
        "task_type": "Parse",
        "parser_id": method::method_name(reading.method),
        "pipeline_id": reading.settings.get(PIPELINE),
        "run": run(reading.state),
        "operation_status": digit,
        "progress": if failed { -1.0 } else { 1.0 },
        "progress_msg": reading.message,
        "error": failed.then_some(&reading.message),
        "process_begin_at": reading.begun_ms.map(http_date),
        "process_duration": seconds,
        "chunk_count": reading.chunk_count,
        "token_count": reading.token_count,
        "create_time": reading.ended_ms,
        "create_date": http_date(reading.ended_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_can_be_filtered_by_name_and_number() {
        let read = |query: &str| filter(&Params::parse(query), 100);
        let states = |query: &str| read(query).unwrap().states;
        assert_eq!(states("operation_status=fail,3"), [DocumentState::Failed, DocumentState::Done]);
        assert_eq!(states("run=CANCEL"), [DocumentState::Cancelled]);
        assert_eq!(states("run=3,DONE,3&operation_status=done"), [DocumentState::Done]);
        assert!(format!("{:?}", read("run=1").unwrap_err()).contains("DONE, FAIL or CANCEL"));
        let dated = read("create_date_from=2024-10-11&create_date_to=2024-10-11").unwrap();
        assert_eq!((dated.from_ms, dated.to_ms), (Some(1_728_604_800_000), Some(1_728_691_199_999)));
        assert!(
            format!("{:?}", read("create_date_to=soon").unwrap_err())
                .contains("`create_date_to` must be a date")
        );
        let all = read("document_id=d&keywords=K&desc=false&page=3&page_size=10").unwrap();
        assert_eq!((all.document, all.keywords.as_str()), (Some("d".into()), "K"));
        assert_eq!((all.ascending, all.offset, all.limit), (true, 20, 10));
    }
}
