//! Datasets, their documents and chunks, and searching them.

use super::common::{PAGE, REMOVED};
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Body, Operation};
use crate::wire::{dataset, document};

static DATASET: Shape = Shape {
    name: "Dataset",
    summary: "documents that can be searched",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        text("avatar", "image as a data URI").nullable(),
        text("description", "description").nullable(),
        text("language", "language; informational only"),
        text("permission", "`me` or `team`"),
        text("tenant_id", "owning tenant"),
        text("embedding_model", "embedding model; empty: none"),
        text("chunk_method", "chunking method"),
        member("parser_config", Type::Map(&Type::Any), "settings of the chunking method"),
        whole("document_count", "number of documents"),
        whole("chunk_count", "number of chunks"),
        whole("token_num", "number of tokens in the chunks"),
        member("similarity_threshold", Type::Number, "minimum score of a chunk"),
        member("vector_similarity_weight", Type::Number, "weight of vector similarity in the score"),
        whole("pagerank", "boost of its chunks in the ranking"),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last change"),
        text("update_date", "the same as text"),
    ],
};

/// `GET /api/v1/datasets`.
pub static LIST: Operation = Operation::reads("Lists the datasets.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("id", "only this one").optional(),
        text("name", "only the one with this name").optional(),
        member("orderby", Type::OneOf(&["create_time", "update_time"]), "sort field").optional(),
        flag("desc", "whether to sort in descending order").optional(),
    ])
    .answer(Answer::Counted(Type::List(&Type::Of(&DATASET)), "total_datasets"));
/// `POST /api/v1/datasets`.
pub static CREATE: Operation = Operation::edits("Creates a dataset.")
    .takes(Body::Json(Type::Rules(dataset::FIELDS)))
    .data(Type::Of(&DATASET));
/// `GET /api/v1/datasets/{id}`.
pub static GET: Operation = Operation::reads("Shows a dataset.").data(Type::Of(&DATASET));
/// `PUT` and `PATCH /api/v1/datasets/{id}`.
pub static UPDATE: Operation = Operation::edits("Updates the given fields of a dataset.")
    .takes(Body::Json(Type::Rules(dataset::FIELDS)))
    .data(Type::Of(&DATASET));
/// `DELETE /api/v1/datasets`.
pub static DELETE: Operation = Operation::edits("Removes datasets.")
    .body(&[
        list("ids", &Type::Text, "which ones").optional().nullable(),
        flag("delete_all", "whether to remove all; without ids").optional(),
    ])
    .data(Type::Object(&[whole("success_count", "number removed")]));

pub(super) static DOCUMENT: Shape = Shape {
    name: "Document",
    summary: "a file in a dataset",
    members: &[
        text("id", "its id"),
        text("dataset_id", "id of the dataset"),
        text("name", "its name"),
        text("type", "type of file"),
        text("suffix", "file name extension"),
        whole("size", "size in bytes"),
        text("chunk_method", "chunking method"),
        member("parser_config", Type::Map(&Type::Any), "settings of the chunking method"),
        whole("chunk_count", "number of chunks"),
        whole("token_count", "number of tokens in the chunks"),
        member("run", Type::OneOf(&["UNSTART", "RUNNING", "CANCEL", "DONE", "FAIL"]), "state of reading"),
        member("progress", Type::Number, "progress from 0 to 1; -1 on failure"),
        text("progress_msg", "messages from reading"),
        member("process_duration", Type::Number, "duration in seconds"),
        member("meta_fields", Type::Map(&Type::Any), "its metadata"),
        member("status", Type::OneOf(&["0", "1"]), "whether searches find it"),
        time("create_time", "time of upload"),
        time("update_time", "time of the last change"),
    ],
};
const IDS: [Member; 2] = [
    list("ids", &Type::Text, "which ones").optional().nullable(),
    flag("delete_all", "whether to remove all; without ids").optional(),
];
const DOCUMENT_IDS: [Member; 1] = [list("document_ids", &Type::Text, "which ones")];
/// The number of documents, and the ids that were repeated.
const COUNTED: Type = Type::Object(&[
    whole("success_count", "number of documents"),
    list("errors", &Type::Text, "documents given more than once").optional(),
]);

/// `GET …/documents`.
pub static LIST_DOCUMENTS: Operation = Operation::reads("Lists the documents of a dataset.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("id", "only this one").optional(),
        text("name", "only the one with this name").optional(),
        text("keywords", "only those with this text in the name").optional(),
        text("suffix", "only files with this extension; repeatable").optional(),
        text("types", "only `pdf`, `doc`, `visual`, `aural` or `other` files; repeatable").optional(),
        text("run", "only those in this state of reading; repeatable").optional(),
        text("metadata_condition", "only those with matching metadata, as JSON").optional(),
        text("metadata", "only those with one of the values for each key, as JSON").optional(),
        flag("return_empty_metadata", "only those without metadata").optional(),
        time("create_time_from", "only those uploaded at or after this time").optional(),
        time("create_time_to", "only those uploaded up to this time").optional(),
        member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "sort field").optional(),
        flag("desc", "whether to sort in descending order").optional(),
        member("type", Type::OneOf(&["filter"]), "return the available filter values instead of the page")
            .optional(),
    ])
    .data(Type::Either(&[
        Type::Object(&[
            list("docs", &Type::Of(&DOCUMENT), "entries of the page"),
            whole("total", "total number"),
        ]),
        Type::Object(&[
            member(
                "filter",
                Type::Map(&Type::Map(&Type::Any)),
                "number of documents for each `suffix`, `run_status` and `metadata`",
            ),
            whole("total", "total number"),
        ]),
    ]));
/// `POST …/documents`.
pub static UPLOAD: Operation = Operation::edits("Uploads files; reading them is requested separately.")
    .query(&[text("type", "`local`; `empty`: creates a document without text, whose `name` is sent as JSON")
        .optional()])
    .takes(Body::Files)
    .data(Type::Either(&[Type::Of(&DOCUMENT), Type::List(&Type::Of(&DOCUMENT))]));
/// `DELETE …/documents`.
pub static DELETE_DOCUMENTS: Operation = Operation::edits("Removes documents.")
    .body(&IDS)
    .data(Type::Object(&[whole("deleted", "number removed")]));
/// `GET …/documents/{document}`.
pub static DOWNLOAD: Operation = Operation::reads("Downloads the file of a document.").answer(Answer::File);
/// `PUT` and `PATCH …/documents/{document}`.
pub static UPDATE_DOCUMENT: Operation = Operation::edits("Updates the given fields of a document.")
    .takes(Body::Json(Type::Rules(document::FIELDS)))
    .data(Type::Of(&DOCUMENT));
/// `POST …/chunks` of a dataset.
pub static START: Operation = Operation::edits("Starts reading documents.")
    .body(&DOCUMENT_IDS)
    .data(Type::Either(&[Type::Null, COUNTED]));
/// `DELETE …/chunks` of a dataset.
pub static STOP: Operation = Operation::edits("Stops reading documents.")
    .body(&DOCUMENT_IDS)
    .data(Type::Either(&[Type::Null, COUNTED]));
/// `POST …/documents/parse`.
pub static PARSE: Operation = Operation::edits("Starts reading documents.").body(&DOCUMENT_IDS).data(COUNTED);
/// `POST …/documents/stop`.
pub static HALT: Operation = Operation::edits("Stops reading documents.").body(&DOCUMENT_IDS).data(COUNTED);

/// `GET …/metadata/summary`.
pub static SUMMARY: Operation = Operation::reads("Counts the metadata values of documents.")
    .query(&[text("doc_ids", "only these documents; repeatable; default: all").optional()])
    .data(Type::Object(&[member(
        "summary",
        Type::Map(&Type::Any),
        "by key: its type, and its values with counts",
    )]));
/// `POST …/metadata/update`.
pub static UPDATE_METADATA: Operation =
    Operation::edits("Applies the same metadata change to many documents.")
        .body(&[
            member("selector", Type::Any, "which documents: `document_ids`, `metadata_condition`").optional(),
            list("updates", &Type::Any, "`{key, value}`, also with `match`").optional(),
            list("deletes", &Type::Any, "`{key}`, also with `value`").optional(),
        ])
        .data(Type::Object(&[
            whole("updated", "number of changed documents"),
            whole("matched_docs", "number of matching documents"),
        ]));
const CONFIG: Type = Type::Object(&[
    member("metadata", Type::Any, "metadata to extract by a model: a list of fields, or a JSON Schema"),
    list("built_in_metadata", &Type::Any, "metadata of the file itself"),
    flag("enabled", "whether it is enabled; for older clients").optional(),
]);
/// `GET …/metadata/config`.
pub static GET_CONFIG: Operation =
    Operation::reads("Shows the metadata that a model extracts from each document.").data(CONFIG);
/// `PUT …/metadata/config`.
pub static SET_CONFIG: Operation =
    Operation::edits("Sets the metadata that a model extracts from each document.")
        .takes(Body::Json(Type::Any))
        .data(CONFIG);
/// `PUT …/documents/{document}/metadata/config`.
pub static SET_DOCUMENT_CONFIG: Operation =
    Operation::edits("Sets the metadata that a model extracts from a document.")
        .body(&[member("metadata", Type::Any, "metadata to extract")])
        .data(Type::Of(&DOCUMENT));

static CHUNK: Shape = Shape {
    name: "Chunk",
    summary: "a part of a document",
    members: &[
        text("id", "its id"),
        text("content", "its text"),
        text("document_id", "id of the document"),
        text("dataset_id", "id of the dataset"),
        list("important_keywords", &Type::Text, "additional keywords it is found by"),
        list("questions", &Type::Text, "additional questions it is found by"),
        list("tag_kwd", &Type::Text, "tags of the chunk"),
        flag("available", "whether searches find it"),
        text("docnm_kwd", "the name of the document").optional(),
        list("positions", &Type::Any, "positions: page, left, right, top, bottom").optional(),
        text("create_time", "time of creation as text"),
        member("create_timestamp", Type::Number, "the same in seconds since 1970"),
    ],
};
const CHUNK_BODY: [Member; 6] = [
    text("content", "its text").optional(),
    list("important_keywords", &Type::Text, "additional keywords it is found by").optional().nullable(),
    list("questions", &Type::Text, "additional questions it is found by").optional().nullable(),
    list("tag_kwd", &Type::Text, "tags of the chunk").optional().nullable(),
    member("available", Type::Any, "whether searches find it").optional(),
    list("positions", &Type::Any, "positions in the document").optional().nullable(),
];

/// `GET …/chunks`.
pub static LIST_CHUNKS: Operation = Operation::reads("Lists the chunks of a document.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("id", "only this one").optional(),
        text("keywords", "only those with this text, which is highlighted").optional(),
        flag("available", "only those that searches find, or only the others").optional(),
    ])
    .data(Type::Object(&[
        list("chunks", &Type::Of(&CHUNK), "entries of the page"),
        whole("total", "total number"),
        member("doc", Type::Of(&DOCUMENT), "the document"),
    ]));
/// `POST …/chunks` of a document.
pub static ADD_CHUNK: Operation = Operation::edits("Adds a chunk.")
    .body(&CHUNK_BODY)
    .data(Type::Object(&[member("chunk", Type::Of(&CHUNK), "")]));
/// `PATCH …/chunks`.
pub static SWITCH_CHUNKS: Operation = Operation::edits("Enables or disables chunks for searches.")
    .body(&[
        list("chunk_ids", &Type::Text, "which ones"),
        member("available_int", Type::Any, "1 or 0; also `available`").optional(),
        member("available", Type::Any, "true or false").optional(),
    ])
    .data(Type::Flag);
/// `DELETE …/chunks` of a document.
pub static DELETE_CHUNKS: Operation = Operation::edits("Removes chunks.")
    .body(&[
        list("chunk_ids", &Type::Text, "which ones").optional().nullable(),
        flag("delete_all", "whether to remove all; without ids").optional(),
    ])
    .data(REMOVED);
/// `GET …/chunks/{chunk}`.
pub static GET_CHUNK: Operation = Operation::reads("Shows a chunk.").data(Type::Of(&CHUNK));
/// `PUT` and `PATCH …/chunks/{chunk}`.
pub static UPDATE_CHUNK: Operation =
    Operation::edits("Updates the given fields of a chunk.").body(&CHUNK_BODY).data(Type::Flag);

/// `GET …/knowledge_graph`.
pub static GET_GRAPH: Operation =
    Operation::reads("Shows the most important part of the knowledge graph of a dataset, and its mind map.")
        .data(Type::Object(&[
            member("graph", Type::Any, "`nodes` and `edges`"),
            member("mind_map", Type::Any, "a tree of nodes with `id` and `children`; empty until requested"),
            text("note", "what was left out for lack of space, if anything").optional(),
        ]));
/// `DELETE …/knowledge_graph`.
pub static DELETE_GRAPH: Operation =
    Operation::edits("Removes the knowledge graph of a dataset.").data(Type::Flag);

/// `POST …/run_graphrag`.
pub static RUN_GRAPH: Operation =
    Operation::edits("Reads every document of a dataset again and builds its knowledge graph.")
        .data(Type::Object(&[text("graphrag_task_id", "the task")]));
/// `POST …/run_raptor`.
pub static RUN_RAPTOR: Operation =
    Operation::edits("Reads every document of a dataset again and builds summaries of related chunks.")
        .data(Type::Object(&[text("raptor_task_id", "the task")]));
/// `GET …/trace_graphrag`, `GET …/trace_raptor`.
pub static TRACE: Operation = Operation::reads(
    "Shows the progress of such a task; an empty object if no document requests it.",
)
.data(Type::Object(&[
    text("id", "the task").optional(),
    member("progress", Type::Number, "0 to 1; -1 if a document failed").optional(),
    text("progress_msg", "messages about the result").optional(),
    member("begin_at", Type::Any, "start time in milliseconds since 1970").optional(),
    member("process_duration", Type::Number, "total seconds of work on all documents").optional(),
]));

static HIT: Shape = Shape {
    name: "Hit",
    summary: "a chunk found by a search",
    members: &[
        text("id", "its id"),
        text("content", "its text"),
        text("document_id", "id of the document"),
        text("document_name", "name of the document"),
        text("dataset_id", "id of the dataset"),
        member("similarity", Type::Number, "score, 0 to 1"),
        member("vector_similarity", Type::Number, "vector similarity"),
        member("term_similarity", Type::Number, "keyword similarity"),
        list("positions", &Type::Any, "positions: page, left, right, top, bottom"),
        text("highlight", "text with highlights, if requested").optional().nullable(),
        member("document_metadata", Type::Any, "metadata of the document, if requested").optional(),
    ],
};

/// `POST /api/v1/retrieval`.
pub static SEARCH: Operation = Operation::reads("Searches datasets.")
    .body(&[
        text("question", "the search query"),
        list("dataset_ids", &Type::Text, "datasets to search").optional(),
        list("document_ids", &Type::Text, "search only these documents").optional(),
        member("page", Type::Any, "page number, starting at 1").optional(),
        member("page_size", Type::Any, "entries per page; default: 30").optional(),
        member("similarity_threshold", Type::Any, "minimum score of a chunk; default: 0.2").optional(),
        member(
            "vector_similarity_weight",
            Type::Any,
            "weight of vector similarity in the score; default: 0.5",
        )
        .optional(),
        member("top_k", Type::Any, "number of candidate chunks; default: 1024").optional(),
        text("rerank_id", "reranking model").optional().nullable(),
        member("keyword", Type::Any, "whether a model adds search keywords").optional(),
        member("highlight", Type::Any, "whether to highlight matches").optional(),
        list("cross_languages", &Type::Text, "further languages to translate the question into")
            .optional()
            .nullable(),
        member("metadata_condition", Type::Any, "only documents with matching metadata").optional(),
        member("use_kg", Type::Any, "whether to return knowledge graph results first").optional(),
    ])
    .data(Type::Object(&[
        list("chunks", &Type::Of(&HIT), "results, best first"),
        list(
            "doc_aggs",
            &Type::Object(&[text("doc_name", ""), text("doc_id", ""), whole("count", "")]),
            "number of chunks per document",
        ),
        whole("total", "total number"),
        list("notes", &Type::Text, "parts of the request that could not be fulfilled").optional(),
    ]));
/// Body of the two dataset search routes.
const SEARCH_BODY: [Member; 13] = [
    text("question", "the search query"),
    list("dataset_ids", &Type::Text, "datasets to search").optional(),
    list("doc_ids", &Type::Text, "search only these documents").optional().nullable(),
    member("page", Type::Any, "page number, starting at 1").optional(),
    member("size", Type::Any, "entries per page; default: 30").optional(),
    member("similarity_threshold", Type::Any, "minimum score of a chunk").optional(),
    member("vector_similarity_weight", Type::Any, "weight of vector similarity in the score; default: 0.3")
        .optional(),
    member("top_k", Type::Any, "number of candidate chunks; default: 1024").optional(),
    text("rerank_id", "reranking model").optional().nullable(),
    member("keyword", Type::Any, "whether a model adds search keywords").optional(),
    list("cross_languages", &Type::Text, "further languages to translate the question into")
        .optional()
        .nullable(),
    member(
        "meta_data_filter",
        Type::Any,
        "only documents with matching metadata: `method`, `manual`, `logic`",
    )
    .optional(),
    member("use_kg", Type::Any, "whether to return knowledge graph results first").optional(),
];
static A_HIT: Type = Type::Of(&HIT);
const FOUND: Type = Type::Object(&[
    list("chunks", &A_HIT, "results, best first"),
    list("doc_aggs", &Type::Any, "number of chunks per document"),
    whole("total", "total number"),
]);
/// `POST /api/v1/datasets/search`.
pub static SEARCH_DATASETS: Operation =
    Operation::reads("Searches datasets, with other names and defaults.").body(&SEARCH_BODY).data(FOUND);
/// `POST /api/v1/datasets/{id}/search`.
pub static SEARCH_DATASET: Operation = Operation::reads("Searches a dataset.").body(&SEARCH_BODY).data(FOUND);
const RECORDS: Answer = Answer::Whole(Type::Object(&[list(
    "records",
    &Type::Object(&[
        text("content", "its text"),
        member("score", Type::Number, "its score"),
        text("title", "the name of the document"),
        member("metadata", Type::Map(&Type::Any), "its metadata"),
    ]),
    "results, best first",
)]));
/// `GET /api/v1/dify/retrieval`.
pub static SEARCH_DIFY_ADDRESS: Operation =
    Operation::reads("The same with the question in the query string.")
        .query(&[
            text("knowledge_id", "dataset to search"),
            text("query", "the search query"),
            whole("top_k", "maximum number").optional(),
            member("score_threshold", Type::Number, "minimum score of a chunk").optional(),
            flag("use_kg", "whether to return knowledge graph results first").optional(),
        ])
        .answer(RECORDS);
/// `POST /api/v1/dify/retrieval`.
pub static SEARCH_DIFY: Operation =
    Operation::reads("Searches a dataset using the Dify external knowledge format.")
        .body(&[
            text("knowledge_id", "dataset to search"),
            text("query", "the search query"),
            member("retrieval_setting", Type::Any, "`top_k` and `score_threshold`").optional(),
            member("metadata_condition", Type::Any, "only documents with matching metadata").optional(),
        ])
        .answer(RECORDS);
