//! How datasets are searched: shared by the components that search them.

use std::collections::HashMap;

use indexmap::IndexSet;
use weft_core::value::to_text;
use weft_core::{DocumentId, Error, Json, NodeContext, ParamProblem, Reference, Result, Template};
use weft_knowledge::retrieve::weights::Interface;
use weft_knowledge::retrieve::{
    self, Chosen, FilterChoice, LANGUAGES_MAX, Retrieved, filter_choice, retrieve,
};

use super::kept::RecordedDatasets;
use super::model::Helper;
use crate::params::{Choice, Field, Kind, Params, Widget, choice, pointer};

/// Maximum number of chunks that a search returns.
pub(crate) const CHUNKS_MAX: usize = 1_024;

/// Maximum number of candidates that a canvas may name: as many as the editors of stored canvases offer. A search uses
/// no more than [`CHUNKS_MAX`].
const CANDIDATES_NAMED_MAX: usize = 2_048;

/// The entry of `dataset_ids` that stands for all datasets of the tenant.
const ALL: &str = "*";
/// Remedy when no dataset is chosen.
pub(crate) const CHOOSE: &str = "choose a dataset in `dataset_ids`; `\"*\"` means all of them";

/// The datasets to search.
pub(crate) static DATASET_IDS: Field<Vec<String>> =
    Field::texts("dataset_ids", "the datasets: names, ids or references; `*` for all")
        .older(&["kb_ids"])
        .widget(Widget::Datasets);
/// The datasets to search, by reference.
pub(crate) static KB_VARS: Field<Vec<String>> =
    Field::texts("kb_vars", "references to names or ids of further datasets");
/// The documents to search, by id.
pub(crate) static DOC_IDS: Field<Vec<String>> =
    Field::texts("doc_ids", "the documents to search: ids, or references to lists of ids; null means all");
/// The number of passages.
pub(crate) static TOP_N: Field<usize> =
    Field::count("top_n", 8, &(1..=CHUNKS_MAX), "the maximum number of passages");
/// The number of candidates.
pub(crate) static TOP_K: Field<usize> = Field::count(
    "top_k",
    CHUNKS_MAX,
    &(1..=CANDIDATES_NAMED_MAX),
    "the maximum number of candidates each from full-text and vector search; more than 1024 count as 1024",
);
/// The minimum score.
pub(crate) static SIMILARITY_THRESHOLD: Field<f64> =
    Field::number("similarity_threshold", &(0.0..=1.0), "the minimum score of a passage")
        .or(Interface::Component.default_threshold());
/// The weight of words in the score.
pub(crate) static KEYWORDS_SIMILARITY_WEIGHT: Field<Option<f64>> = Field::number(
    "keywords_similarity_weight",
    &(0.0..=1.0),
    "the weight of words in the score; vectors have the rest",
);
/// The reranking model.
pub(crate) static RERANK_ID: Field<String> =
    Field::text("rerank_id", "the model that reranks the results").widget(Widget::Reranker);
/// Further languages of the question.
pub(crate) static CROSS_LANGUAGES: Field<Vec<String>> =
    Field::texts("cross_languages", "languages that the question is also translated into");
/// Whether a model adds search words.
pub(crate) static KEYWORD: Field<bool> = Field::flag("keyword", "whether a model adds search terms");
/// Whether tables of contents are used.
pub(crate) static TOC_ENHANCE: Field<bool> =
    Field::flag("toc_enhance", "whether a model selects sections from the best document's table of contents");
/// Whether the knowledge graph is used.
pub(crate) static USE_KG: Field<bool> =
    Field::flag("use_kg", "whether results from the knowledge graph come first");
/// The documents to search, by metadata.
pub(crate) static META_DATA_FILTER: Field = Field::raw(
    "meta_data_filter",
    Kind::Object(&[
        Field::raw("method", Kind::Choice(&FILTER_METHODS), "who sets the filter"),
        Field::raw("manual", Kind::List, "conditions `{key, op, value}`"),
        Field::raw("semi_auto", Kind::List, "the keys that a model may use"),
        Field::raw(
            "logic",
            Kind::Choice(&[choice("and", ""), choice("or", "")]),
            "how conditions are combined",
        ),
    ]),
    "which documents to search, by their metadata",
);
const FILTER_METHODS: [Choice; 4] = [
    choice("disabled", "no filter"),
    choice("manual", "the canvas"),
    choice("auto", "a model"),
    choice("semi_auto", "a model, by given keys"),
];
/// The model that helps with the search.
pub(crate) static LLM_ID: Field<String> =
    Field::text("llm_id", "the model that translates and selects; the default model if absent")
        .widget(Widget::ChatModel);
/// Returns the search settings, as far as the parameters alone determine them.
fn asked(params: &mut Params<'_>) -> retrieve::Retrieval {
    retrieve::Retrieval {
        limit: params.take(&TOP_N),
        candidates_max: params.take(&TOP_K),
        similarity_min: params.take(&SIMILARITY_THRESHOLD),
        vector_weight: Interface::Component.vector_weight(params.take(&KEYWORDS_SIMILARITY_WEIGHT)),
        reranker: params.take(&RERANK_ID).trim().to_owned(),
        languages: params.take(&CROSS_LANGUAGES).into_iter().filter(|l| !l.trim().is_empty()).collect(),
        keywords: params.take(&KEYWORD),
        contents: params.take(&TOC_ENHANCE),
        graph: params.take(&USE_KG),
        ..retrieve::Retrieval::default()
    }
}

enum ChosenDataset {
    All,
    /// A name or an id, and its pointer.
    Named(String, String),
    From(Reference),
}

fn datasets(params: &mut Params<'_>) -> Vec<ChosenDataset> {
    let mut datasets = Vec::new();
    for (field, only_references) in [(&DATASET_IDS, false), (&KB_VARS, true)] {
        let at = params.pointer(field);
        for (place, text) in params.take(field).into_iter().enumerate() {
            if text.contains('@') || text.trim_start().starts_with('{') || only_references {
                let reference = params.reference_at(format!("{at}/{place}"), &text);
                datasets.extend(reference.map(ChosenDataset::From));
            } else if text.trim() == ALL {
                datasets.push(ChosenDataset::All);
            } else if !text.trim().is_empty() {
                datasets.push(ChosenDataset::Named(text, format!("{at}/{place}")));
            }
        }
    }
    datasets
}

enum DocumentChoice {
    Named(String),
    From(Reference),
}

fn documents(params: &mut Params<'_>) -> Vec<DocumentChoice> {
    let at = params.pointer(&DOC_IDS);
    let mut documents = Vec::new();
    for (place, text) in params.take(&DOC_IDS).into_iter().enumerate() {
        if text.contains('@') || text.trim_start().starts_with('{') {
            let reference = params.reference_at(format!("{at}/{place}"), &text);
            documents.extend(reference.map(DocumentChoice::From));
        } else if !text.trim().is_empty() {
            documents.push(DocumentChoice::Named(text.trim().to_owned()));
        }
    }
    documents
}

/// `meta_data_filter`, with the references in its values.
struct FilterSetting {
    setting: Json,
    values: HashMap<String, Template>,
}

impl FilterSetting {
    fn of(params: &mut Params<'_>) -> Self {
        let setting = params.get(&META_DATA_FILTER).cloned().unwrap_or_default();
        if let Err((place, what)) = filter_choice(&setting, Json::clone) {
            params.problem(ParamProblem::new(format!("/meta_data_filter{place}"), what));
        }
        let conditions = setting.get("manual").and_then(Json::as_array).into_iter().flatten();
        let values = conditions.filter_map(|condition| condition.get("value")?.as_str());
        let names = params.source.names();
        let values = values.map(|text| (text.to_owned(), Template::parse_value(text, names))).collect();
        Self { setting, values }
    }

    /// Whether `method` is this one, in any spelling that the search accepts.
    fn is_by(&self, method: &str) -> bool {
        let given = self.setting.get("method").and_then(Json::as_str);
        given.is_some_and(|given| given.trim().eq_ignore_ascii_case(method))
    }

    fn by_hand(&self) -> bool {
        self.is_by("manual")
    }

    fn by_model(&self) -> bool {
        self.is_by("auto") || self.is_by("semi_auto")
    }

    fn references(&self) -> impl Iterator<Item = &Reference> {
        // Values left behind by another method are not read, so that they need not be available.
        self.values.values().filter(|_| self.by_hand()).flat_map(Template::references)
    }

    fn choice(&self, ctx: &NodeContext) -> Result<FilterChoice> {
        let mut values = HashMap::new();
        for (written, template) in self.values.iter().filter(|_| self.by_hand()) {
            values.insert(written.as_str(), template.value(&ctx.inputs)?);
        }
        // A value is looked up by its source text: `filter_choice` does not say which condition it reads.
        let value = |value: &Json| match value.as_str().and_then(|text| values.get(text)) {
            Some(found) => Json::clone(found),
            None => value.clone(),
        };
        filter_choice(&self.setting, value)
            .map_err(|(place, what)| Error::invalid(format!("/meta_data_filter{place} {what}")))
    }
}

/// A search in datasets.
pub(crate) struct DatasetSearch {
    datasets: Vec<ChosenDataset>,
    documents: Vec<DocumentChoice>,
    filter: FilterSetting,
    asked: retrieve::Retrieval,
    llm_id: String,
}

impl DatasetSearch {
    /// Reads the parameters.
    pub(crate) fn of(params: &mut Params<'_>) -> Self {
        Self {
            datasets: datasets(params),
            documents: documents(params),
            filter: FilterSetting::of(params),
            asked: asked(params),
            llm_id: params.take(&LLM_ID),
        }
    }

    /// Whether no dataset is chosen.
    pub(crate) fn chooses_nothing(&self) -> bool {
        self.datasets.is_empty()
    }

    /// Warns about settings that are not followed entirely.
    pub(crate) fn warnings(&self) -> Vec<ParamProblem> {
        let count = self.asked.languages.len();
        if count <= LANGUAGES_MAX {
            return Vec::new();
        }
        let message = format!("names {count} languages, and only the first {LANGUAGES_MAX} are used");
        vec![ParamProblem::new(pointer(&[CROSS_LANGUAGES.name()]), message).help("remove the others")]
    }

    /// Returns its search settings.
    pub(crate) fn how(&self) -> &retrieve::Retrieval {
        &self.asked
    }

    /// Returns the references it reads, besides the question.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Reference> {
        let datasets = self.datasets.iter().filter_map(|dataset| match dataset {
            ChosenDataset::All | ChosenDataset::Named(..) => None,
            ChosenDataset::From(reference) => Some(reference),
        });
        let documents = self.documents.iter().filter_map(|document| match document {
            DocumentChoice::Named(_) => None,
            DocumentChoice::From(reference) => Some(reference),
        });
        datasets.chain(documents).chain(self.filter.references())
    }

    /// Returns the datasets that are named literally, each with its pointer.
    pub(crate) fn named(&self) -> Vec<(String, String)> {
        let named = self.datasets.iter().filter_map(|dataset| match dataset {
            ChosenDataset::Named(name, at) => Some((at.clone(), name.clone())),
            ChosenDataset::All | ChosenDataset::From(_) => None,
        });
        named.collect()
    }

    /// Returns the model that helps, if one is needed.
    pub(crate) fn models(&self) -> Vec<(String, String)> {
        let models = self.asks_a_model().then(|| ("/llm_id".to_owned(), self.llm_id.clone()));
        models.into_iter().collect()
    }

    /// Returns the reranking model, if one is set.
    pub(crate) fn rerankers(&self) -> Vec<(String, String)> {
        let named = !self.asked.reranker.is_empty();
        named.then(|| ("/rerank_id".to_owned(), self.asked.reranker.clone())).into_iter().collect()
    }

    fn asks_a_model(&self) -> bool {
        let asked = &self.asked;
        !asked.languages.is_empty()
            || asked.keywords
            || asked.contents
            || asked.graph
            || self.filter.by_model()
    }

    /// Returns the datasets to search. Only the canvas can select all of them: the value of a reference may come from a
    /// chat user.
    fn chosen(&self, ctx: &NodeContext) -> Result<Chosen> {
        if self.datasets.is_empty() {
            return Err(Error::invalid("no dataset is chosen").help(CHOOSE));
        }
        if self.datasets.iter().any(|dataset| matches!(dataset, ChosenDataset::All)) {
            Ok(Chosen::All)
        } else {
            self.names(ctx).map(Chosen::Named)
        }
    }

    fn names(&self, ctx: &NodeContext) -> Result<Vec<String>> {
        // In their order, without duplicates; a reference may hold a long list.
        let mut names: IndexSet<String> = IndexSet::new();
        for dataset in &self.datasets {
            let more = match dataset {
                // Never reached: `chosen` has handled it.
                ChosenDataset::All => Vec::new(),
                ChosenDataset::Named(name, _) => vec![name.clone()],
                ChosenDataset::From(reference) => match &*ctx.inputs.json(reference) {
                    Json::Array(items) => items.iter().map(to_text).collect(),
                    value => vec![to_text(value)],
                },
            };
            // A form field that was left empty holds an empty text, which names nothing.
            names.extend(more.into_iter().filter(|name| !name.trim().is_empty()));
        }
        if names.is_empty() {
            let message = "no dataset is selected: what `dataset_ids` refers to is empty";
            return Err(Error::invalid(message).help(CHOOSE));
        }
        Ok(names.into_iter().collect())
    }

    /// Returns the documents to search. An empty list of chosen documents is not the same as no choice.
    fn documents(&self, ctx: &NodeContext) -> Option<Vec<DocumentId>> {
        let mut chosen: Option<Vec<DocumentId>> = None;
        let mut choose = |ids: &mut dyn Iterator<Item = String>| {
            chosen.get_or_insert_default().extend(ids.map(DocumentId::from));
        };
        for document in &self.documents {
            match document {
                DocumentChoice::Named(id) => choose(&mut std::iter::once(id.clone())),
                DocumentChoice::From(reference) => match &*ctx.inputs.json(reference) {
                    Json::Null => {}
                    Json::Array(items) => choose(&mut items.iter().map(to_text)),
                    value if to_text(value).trim().is_empty() => {}
                    value => choose(&mut std::iter::once(to_text(value))),
                },
            }
        }
        chosen
    }

    /// Searches for passages that answer a question.
    ///
    /// # Errors
    /// Those of [`retrieve`]; `Invalid` when no dataset is chosen.
    pub(crate) async fn retrieved(&self, ctx: &NodeContext, question: String) -> Result<Retrieved> {
        self.retrieved_as(ctx, question, self.asked.clone()).await
    }

    /// Searches with other settings.
    ///
    /// # Errors
    /// As [`DatasetSearch::retrieved`].
    pub(crate) async fn retrieved_as(
        &self,
        ctx: &NodeContext,
        question: String,
        how: retrieve::Retrieval,
    ) -> Result<Retrieved> {
        // With an empty question, no model is asked and nothing is charged.
        if retrieve::stripped(&question).is_empty() {
            return Ok(Retrieved::default());
        }
        let asked = retrieve::Retrieval {
            datasets: self.chosen(ctx)?,
            documents: self.documents(ctx),
            question,
            filter: self.filter.choice(ctx)?,
            ..how
        };
        let (asked, notice) = with_what_ranks(ctx, asked)?;
        let model = Helper { ctx, llm_id: &self.llm_id };
        let mut retrieved = retrieve(&RecordedDatasets(ctx), &model, &ctx.run.tenant, &asked).await?;
        retrieved.notes.extend(notice);
        Ok(retrieved)
    }
}

/// Drops a reranker that is not available, with a notice: canvases of other products name rerankers like models, and
/// the search continues without it.
fn with_what_ranks(
    ctx: &NodeContext,
    mut asked: retrieve::Retrieval,
) -> Result<(retrieve::Retrieval, Option<String>)> {
    if asked.reranker.is_empty() {
        return Ok((asked, None));
    }
    let notice = ctx.run.seams.models.reranker_notice(&ctx.run.tenant, &asked.reranker)?;
    if notice.is_some() {
        asked.reranker.clear();
    }
    Ok((asked, notice))
}
