//! Datasets and chat assistants, under the names that clients of RAGFlow's own server know.

use serde_json::{Map, Value as Json, json};
use weft_core::access::Permission;
use weft_core::seam::chat_store::{ChatFilter, ChatKind, ChatOrder};
use weft_core::seam::dataset_store::{Counting, DatasetFilter};
use weft_knowledge::retrieve::weights::Interface;
use weft_mcp::serving::{Call, RpcError};

use super::arguments::Arguments;
use super::tool::{BuiltIn, Changes, Done, arguments, done};
use super::{Offering, results};
use crate::body::Body;
use crate::routes::retrieval::searched;
use crate::wire::retrieval::{RetrievalRequest, answer};

/// Maximum number of hits on a page.
const HITS_MAX: u64 = 100;
/// Maximum page number.
const PAGES_MAX: u64 = 1_000_000;
/// Maximum number of datasets that are searched when none is named.
const DATASETS_MAX: u64 = 1_000;

pub(super) static TOOLS: &[BuiltIn] = &[
    BuiltIn {
        name: "ragflow_list_chats",
        title: "List chat assistants",
        description: "Lists chat assistants, one JSON object per line with id, name and description.",
        changes: Changes::Nothing,
        needs: Permission::Read,
        arguments: || paging(100),
        run: |offering, call| done(offering.list_chats(call)),
    },
    BuiltIn {
        name: "ragflow_list_datasets",
        title: "List datasets",
        description: "Lists datasets, one JSON object per line with id, name and description.",
        changes: Changes::Nothing,
        needs: Permission::Read,
        arguments: || paging(1_000),
        run: |offering, call| done(offering.list_datasets(call)),
    },
    BuiltIn {
        name: "ragflow_retrieval",
        title: "Search datasets",
        description: "Finds the passages of documents that answer a question. Without `dataset_ids` all datasets are \
            searched; `ragflow_list_datasets` lists them.",
        changes: Changes::Nothing,
        needs: Permission::Read,
        arguments: retrieval,
        run: |offering, call| done(offering.retrieval(call)),
    },
];

fn paging(max: u64) -> Json {
    let page = json!({"type": "integer", "minimum": 1, "maximum": PAGES_MAX, "default": 1});
    let size = json!({"type": "integer", "minimum": 1, "maximum": max});
    arguments(&json!({"page": page, "page_size": size}), &[])
}

fn retrieval() -> Json {
    let texts = |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
    let share = |what: &str, default: f64| json!({"type": "number", "minimum": 0, "maximum": 1, "default": default, "description": what});
    let whole = |what: &str, default: u64, max: u64| json!({"type": "integer", "minimum": 1, "maximum": max, "default": default, "description": what});
    // The search itself has the same default.
    let weight = Interface::Http.default_vector_weight();
    let properties = json!({
        "question": {"type": "string", "description": "The search query."},
        "dataset_ids": texts("Ids of the datasets to search; default: all."),
        "document_ids": texts("Ids of documents; only these are searched."),
        "page": whole("Page number, starting at 1.", 1, PAGES_MAX),
        "page_size": whole("Hits per page.", 10, HITS_MAX),
        "similarity_threshold": share("Minimum score of a hit.", 0.2),
        "vector_similarity_weight": share("Weight of vector similarity in the score.", weight),
        "keyword": {"type": "boolean", "default": false, "description": "Whether a model adds search keywords."},
        "top_k": whole("Number of candidates to rank.", 1_024, 1_024),
        "rerank_id": {"type": "string", "description": "The reranking model."},
        "force_refresh": {"type": "boolean", "default": false, "description": "Has no effect: nothing is cached."},
    });
    arguments(&properties, &["question"])
}

impl Offering {
    async fn list_chats(&self, call: &Call) -> Done {
        let arguments = Arguments(&call.arguments);
        let (page, size) = (arguments.count("page", 1, PAGES_MAX)?, arguments.count("page_size", 30, 100)?);
        let filter = ChatFilter {
            kind: Some(ChatKind::Assistant),
            order: ChatOrder::Created,
            offset: (page - 1).saturating_mul(size),
            limit: size,
            ..ChatFilter::default()
        };
        let (chats, _) = self.app().chats.list(self.tenant(), &filter).await?;
        Ok(lines(chats.iter().map(|chat| json!({"id": chat.key.id, "name": chat.name, "description": ""}))))
    }

    async fn list_datasets(&self, call: &Call) -> Done {
        let arguments = Arguments(&call.arguments);
        let (page, size) =
            (arguments.count("page", 1, PAGES_MAX)?, arguments.count("page_size", 100, 1_000)?);
        let filter = DatasetFilter {
            counting: Counting::Without,
            offset: (page - 1).saturating_mul(size),
            limit: size,
            ..DatasetFilter::default()
        };
        let (datasets, _) = self.app().datasets.datasets(self.tenant(), &filter).await?;
        let line = |one: &weft_core::seam::dataset_store::Dataset| json!({"id": one.key.id, "name": one.name, "description": one.description});
        Ok(lines(datasets.iter().map(line)))
    }

    async fn retrieval(&self, call: &Call) -> Done {
        let arguments = Arguments(&call.arguments);
        let size = arguments.count("page_size", 10, HITS_MAX)?;
        let page = arguments.count("page", 1, PAGES_MAX)?;
        if arguments.text("question")?.is_none() {
            return Err(RpcError::params("`question` is missing"));
        }
        let mut asked = call.arguments.clone();
        // As they are read here: null is the default, which the search itself refuses.
        asked.insert("page_size".to_owned(), size.into());
        asked.insert("page".to_owned(), page.into());
        if asked.get("dataset_ids").and_then(Json::as_array).is_none_or(Vec::is_empty) {
            let all = self.all_datasets().await?;
            if all.is_empty() {
                return Ok(results::failed("there is no dataset that could be searched"));
            }
            asked.insert("dataset_ids".to_owned(), all.into());
        }
        let page_max = usize::try_from(HITS_MAX).unwrap_or(usize::MAX);
        let request = RetrievalRequest::read(&Body(asked), page_max);
        let found = match request {
            Ok(request) => {
                searched(&self.state, &self.caller, &request).await.map(|(found, _)| (found, request))
            }
            Err(error) => Err(error),
        };
        // Returned as a result, which the model reads; only the client sees an error of the protocol.
        let (found, request) = match found {
            Ok(found) => found,
            Err(error) => return Ok(results::failed(error.message())),
        };
        let mut shown = answer(&found, &vec![None; found.passages.len()], Some(&[]));
        name_datasets(&mut shown, &found.datasets);
        let total = found.total as u64;
        let data = json!({
            "chunks": shown["chunks"].take(),
            "pagination": {"page": page, "page_size": size, "total_chunks": total,
                "total_pages": total.div_ceil(size)},
            "query_info": {"question": request.question, "similarity_threshold": request.similarity_min,
                "vector_weight": request.vector_weight, "keyword_search": request.keyword,
                "dataset_count": request.datasets.len()},
        });
        Ok(results::data(data))
    }

    async fn all_datasets(&self) -> Result<Vec<Json>, RpcError> {
        let filter =
            DatasetFilter { counting: Counting::Without, limit: DATASETS_MAX, ..DatasetFilter::default() };
        let (datasets, _) = self.app().datasets.datasets(self.tenant(), &filter).await?;
        Ok(datasets.iter().map(|dataset| json!(dataset.key.id)).collect())
    }
}

/// Adds the name of the dataset to each passage.
fn name_datasets(shown: &mut Json, datasets: &[weft_core::seam::knowledge::DatasetBrief]) {
    for chunk in shown["chunks"].as_array_mut().into_iter().flatten() {
        let dataset = datasets.iter().find(|dataset| chunk["dataset_id"] == dataset.id.as_str());
        chunk["dataset_name"] = dataset.map(|dataset| dataset.name.clone()).into();
    }
}

/// Builds a result with one object per line.
fn lines(objects: impl Iterator<Item = Json>) -> Map<String, Json> {
    let lines: Vec<String> = objects.map(|object| object.to_string()).collect();
    results::said(&lines.join("\n"))
}
