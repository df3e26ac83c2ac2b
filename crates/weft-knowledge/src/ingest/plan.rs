//! Decides what comes next in the work on a document, without waiting for anything.

use weft_core::Error;
use weft_core::seam::dataset_store::{IngestStage, Settings};
use weft_core::seam::ingest_queue::{IngestOutcome, TakenDocument};
use weft_core::value::Json;

use crate::ask::passes;

/// How often work on a document is started before it is abandoned. The document itself may be what ends its worker.
pub(super) const ATTEMPTS_MAX: u32 = 6;

// The bounds and defaults of these settings are those of the API that existing clients use.
pub(super) const KEYWORDS_MAX: u64 = 32;
pub(super) const QUESTIONS_MAX: u64 = 10;
/// Default maximum number of tags per chunk.
const TAGS: usize = 3;
const TAGS_MAX: u64 = 10;
/// Maximum number of tag sets of a document.
const TAG_SETS_MAX: usize = 16;

/// Default share of the file's name in a chunk's vector.
const NAME_SHARE: f64 = 0.1;

/// What the settings of a document ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IngestPlan {
    /// Number of keywords per chunk.
    pub(super) keywords: u64,
    /// Number of questions per chunk.
    pub(super) questions: u64,
    /// The keys for which a model is to find metadata, each with its description.
    pub(super) metadata: Vec<(String, String)>,
    /// Tag sets from which chunks get their tags.
    pub(super) tag_sets: Vec<String>,
    /// Maximum number of tags per chunk.
    pub(super) tags_max: usize,
    /// Whether anything else is derived from the document.
    pub(super) additions: bool,
    /// Whether related chunks are summarized, for which there must be vectors.
    pub(super) summaries: bool,
    /// Whether there is an embedder.
    pub(super) vectors: bool,
    /// The share of the file's name in vectors.
    pub(super) name_share: f64,
    /// The language model; empty for the default one.
    pub(super) model: String,
}

impl IngestPlan {
    pub(super) fn new(settings: &Settings) -> Self {
        let count = |key: &str, most: u64| settings.get(key).and_then(Json::as_u64).unwrap_or(0).min(most);
        let share = settings.get("filename_embd_weight").and_then(Json::as_f64).unwrap_or(NAME_SHARE);
        Self {
            keywords: count("auto_keywords", KEYWORDS_MAX),
            questions: count("auto_questions", QUESTIONS_MAX),
            metadata: if is_true(settings, "enable_metadata") {
                wanted_metadata(settings.get("metadata"))
            } else {
                Vec::new()
            },
            tag_sets: tag_sets(settings),
            tags_max: match usize::try_from(count("topn_tags", TAGS_MAX)) {
                Ok(most @ 1..) => most,
                _ => TAGS,
            },
            additions: false,
            summaries: false,
            vectors: false,
            name_share: share.clamp(0.0, 1.0),
            model: settings.get("llm_id").and_then(Json::as_str).unwrap_or_default().to_owned(),
        }
    }

    fn enriches(&self) -> bool {
        self.keywords > 0
            || self.questions > 0
            || !self.metadata.is_empty()
            || self.additions
            || !self.tag_sets.is_empty()
    }

    fn wants(&self, stage: IngestStage) -> bool {
        match stage {
            IngestStage::Reading | IngestStage::Indexing => true,
            IngestStage::Enriching | IngestStage::EnrichingWords => self.enriches(),
            IngestStage::Embedding => self.vectors,
            IngestStage::Summarizing => self.vectors && self.summaries,
        }
    }

    /// Returns the stage to do now: this one, or the first one after it that is requested.
    pub(super) fn stage_from(&self, stage: IngestStage) -> IngestStage {
        if self.wants(stage) { stage } else { after(stage).map_or(stage, |next| self.stage_from(next)) }
    }

    /// Returns the stage after this one; `None` after the last.
    pub(super) fn next(&self, stage: IngestStage) -> Option<IngestStage> {
        after(stage).map(|next| self.stage_from(next))
    }

    /// Returns the stage after reading for a document that is to be found by words alone.
    pub(super) fn next_without_vectors(&self) -> IngestStage {
        self.stage_from(IngestStage::EnrichingWords)
    }

    /// Returns the share of the whole work that is done when `part` of a stage is.
    pub(super) fn share(&self, stage: IngestStage, part: f64) -> f64 {
        let stage = match stage {
            IngestStage::EnrichingWords => IngestStage::Enriching,
            stage => stage,
        };
        let weight = |stage: IngestStage| match stage {
            _ if !self.wants(stage) => 0.0,
            IngestStage::Reading => 3.0,
            IngestStage::Enriching
            | IngestStage::EnrichingWords
            | IngestStage::Embedding
            | IngestStage::Summarizing => 6.0,
            IngestStage::Indexing => 1.0,
        };
        let all = [
            IngestStage::Reading,
            IngestStage::Enriching,
            IngestStage::Embedding,
            IngestStage::Summarizing,
            IngestStage::Indexing,
        ];
        let before: f64 = all.into_iter().filter(|one| *one < stage).map(weight).sum();
        let whole: f64 = all.into_iter().map(weight).sum();
        // The work is complete only when its outcome is stored.
        ((before + weight(stage) * part.clamp(0.0, 1.0)) / whole).min(0.99)
    }
}

fn after(stage: IngestStage) -> Option<IngestStage> {
    match stage {
        IngestStage::Reading => Some(IngestStage::Enriching),
        IngestStage::Enriching => Some(IngestStage::Embedding),
        IngestStage::Embedding => Some(IngestStage::Summarizing),
        IngestStage::EnrichingWords | IngestStage::Summarizing => Some(IngestStage::Indexing),
        IngestStage::Indexing => None,
    }
}

fn is_true(settings: &Settings, key: &str) -> bool {
    settings.get(key).and_then(Json::as_bool).unwrap_or_default()
}

/// Returns the ids of tag sets.
fn tag_sets(settings: &Settings) -> Vec<String> {
    let ids = settings.get("tag_kb_ids").and_then(Json::as_array).into_iter().flatten();
    ids.filter_map(Json::as_str).map(str::to_owned).take(TAG_SETS_MAX).collect()
}

/// Returns the keys of a metadata schema, each with its description. The schema is a list of names, or of
/// objects with `key` and `description`, or an object with `properties`.
pub fn wanted_metadata(schema: Option<&Json>) -> Vec<(String, String)> {
    let text = |json: Option<&Json>| json.and_then(Json::as_str).unwrap_or_default().to_owned();
    let said = |of: &Json| {
        let values = of.get("enum").filter(|values| values.is_array());
        let values = values.map(|values| format!(" One of {values}.")).unwrap_or_default();
        text(of.get("description")) + &values
    };
    let mut keys: Vec<(String, String)> = match schema {
        Some(Json::Array(list)) => list
            .iter()
            .map(|one| match one {
                Json::String(key) => (key.clone(), String::new()),
                one => (text(one.get("key").or_else(|| one.get("name"))), said(one)),
            })
            .collect(),
        Some(Json::Object(schema)) => {
            let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(schema);
            properties.iter().map(|(key, of)| (key.clone(), said(of))).collect()
        }
        _ => Vec::new(),
    };
    keys.retain(|(key, _)| !key.is_empty());
    keys
}

/// Returns the text shown for a stage.
pub(super) fn doing(stage: IngestStage) -> &'static str {
    match stage {
        IngestStage::Reading => "Reading the file",
        IngestStage::Enriching | IngestStage::EnrichingWords => "Querying the model",
        IngestStage::Embedding => "Computing vectors",
        IngestStage::Summarizing => "Summarizing",
        IngestStage::Indexing => "Indexing",
    }
}

/// The note for a document in a dataset that has no vectors.
pub const WORDS_ALONE: &str = "The dataset has no embedder: it is searched by words alone";

/// Returns the outcome of a document that is complete.
pub(super) fn done(plan: &IngestPlan, warnings: &[String]) -> IngestOutcome {
    let mut message = "Task done".to_owned();
    if !plan.vectors {
        message.push_str(". ");
        message.push_str(WORDS_ALONE);
    }
    for warning in warnings {
        message.push_str(". ");
        message.push_str(warning.trim_end_matches('.'));
    }
    IngestOutcome::Done { message }
}

/// Returns the outcome for a document that was started too often.
pub(super) fn given_up(taken: &TakenDocument) -> Option<IngestOutcome> {
    if taken.attempts <= ATTEMPTS_MAX {
        return None;
    }
    Some(IngestOutcome::Failed { reason: begun_too_often(&taken.document.message) })
}

/// Returns the message for work that was started too often, the last time with this message.
pub(super) fn begun_too_often(message: &str) -> String {
    let last = if message.is_empty() { "its worker terminated each time" } else { message };
    format!("it was started {ATTEMPTS_MAX} times without success: {last}")
}

/// Returns the outcome of a failure. After a temporary one the work is tried again, after growing pauses
/// unless it makes progress in between, and finally abandoned; after any other the document has failed.
pub(super) fn failed(error: &Error, attempts: u32, now_ms: i64) -> IngestOutcome {
    const PAUSE_MIN_MS: i64 = 5_000;
    const PAUSE_MAX_MS: i64 = 600_000;
    // No provider may ask for a longer wait than this.
    const ASKED_MAX_MS: i64 = 6 * 3_600_000;
    let reason = error.full();
    if !passes(error.kind) {
        return IngestOutcome::Failed { reason };
    }
    if attempts >= ATTEMPTS_MAX {
        return IngestOutcome::Abandoned { reason };
    }
    let asked = error.retry_after.map_or(0, |wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
    // Four times as long each time, without overflowing the shift.
    let pause = PAUSE_MIN_MS << (2 * attempts.saturating_sub(1)).min(16);
    // A provider that says when to retry knows better than the computed pause.
    let pause = pause.min(PAUSE_MAX_MS).max(asked.min(ASKED_MAX_MS));
    IngestOutcome::RetryAt { from_ms: now_ms.saturating_add(pause), reason }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::ErrorKind;

    use super::*;

    fn settings(json: &Json) -> Settings {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn settings_are_clamped_to_their_limits() {
        let plan = IngestPlan::new(&settings(&json!({
            "auto_keywords": 99, "auto_questions": 3, "enable_metadata": true, "filename_embd_weight": 7,
            "metadata": [{"key": "author", "description": "Who", "enum": ["a"]}, "year", {"x": 1}], "llm_id": "m@P"
        })));
        assert_eq!((plan.keywords, plan.questions, plan.name_share), (32, 3, 1.0));
        let keys =
            [("author".to_owned(), "Who One of [\"a\"].".to_owned()), ("year".to_owned(), String::new())];
        assert_eq!((plan.metadata.as_slice(), plan.model.as_str()), (keys.as_slice(), "m@P"));
        let schema = settings(
            &json!({"enable_metadata": true, "metadata": {"type": "object", "properties": {"k": {}}}}),
        );
        assert_eq!(IngestPlan::new(&schema).metadata, [("k".to_owned(), String::new())]);
        let odd = IngestPlan::new(&settings(
            &json!({"auto_keywords": "x", "enable_metadata": false, "metadata": ["k"]}),
        ));
        assert_eq!(odd, IngestPlan { name_share: NAME_SHARE, tags_max: TAGS, ..IngestPlan::default() });
    }

    #[test]
    fn transient_failures_are_retried_after_the_requested_delay() {
        let busy = |seconds: u64| Error {
            retry_after: Some(std::time::Duration::from_secs(seconds)),
            ..Error::new(ErrorKind::RateLimited, "429")
        };
        let from_ms = |error: &Error, attempts: u32| match failed(error, attempts, 1_000) {
            IngestOutcome::RetryAt { from_ms, .. } => from_ms - 1_000,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (1..6).map(|n| from_ms(&busy(0), n)).collect::<Vec<_>>(),
            [5_000, 20_000, 80_000, 320_000, 600_000]
        );
        assert_eq!(from_ms(&busy(3_600), 1), 3_600_000);
        assert_eq!(from_ms(&busy(u64::MAX), 1), 6 * 3_600_000);
        assert_eq!(failed(&busy(0), 6, 0), IngestOutcome::Abandoned { reason: "429".into() });
        let broken = Error::invalid("broken");
        assert_eq!(failed(&broken, 1, 0), IngestOutcome::Failed { reason: "broken".into() });
    }

    #[test]
    fn unrequested_stages_are_skipped() {
        let all = IngestPlan { keywords: 1, vectors: true, ..IngestPlan::default() };
        let none = IngestPlan::default();
        let way = |plan: &IngestPlan| {
            std::iter::successors(Some(IngestStage::Reading), |stage| plan.next(*stage)).collect::<Vec<_>>()
        };
        assert_eq!(
            way(&all),
            [IngestStage::Reading, IngestStage::Enriching, IngestStage::Embedding, IngestStage::Indexing]
        );
        assert_eq!(way(&none), [IngestStage::Reading, IngestStage::Indexing]);
        let after = |plan: &IngestPlan| {
            let first = Some(plan.next_without_vectors());
            std::iter::successors(first, |stage| plan.next(*stage)).collect::<Vec<_>>()
        };
        assert_eq!(after(&all), [IngestStage::EnrichingWords, IngestStage::Indexing]);
        assert_eq!(after(&none), [IngestStage::Indexing]);
        assert!(all.share(IngestStage::EnrichingWords, 0.5) > all.share(IngestStage::Reading, 1.0));
        // Settings that were changed during a pause.
        assert_eq!(none.stage_from(IngestStage::Embedding), IngestStage::Indexing);
        for plan in [all, none] {
            let shares: Vec<f64> = way(&plan)
                .into_iter()
                .flat_map(|stage| [plan.share(stage, 0.0), plan.share(stage, 1.0)])
                .collect();
            assert!(shares.is_sorted() && shares[0] == 0.0 && shares.ends_with(&[0.99]), "{shares:?}");
        }
    }
}
