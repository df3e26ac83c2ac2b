//! Datasets, their documents and chunks, and searching them.

use super::agents::PAGE;
use super::runs::REMOVED;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Body, Operation};
use crate::wire::{dataset, document};

static DATASET: Shape = Shape {
    name: "Dataset",
    summary: "documents that can be searched",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        text("avatar", "a picture as a data URI").nullable(),
        text("description", "for people").nullable(),
        text("language", "for people"),
        text("permission", "`me` or `team`"),
        text("tenant_id", "whose it is"),
        text("embedding_model", "what makes its vectors; empty for none"),
        text("chunk_method", "how its documents are cut"),
        member("parser_config", Type::Map(&Type::Any), "the settings of that"),
        whole("document_count", "how many documents it has"),
        whole("chunk_count", "how many chunks they have"),
        whole("token_num", "how many tokens those have"),
        member("similarity_threshold", Type::Number, "what a chunk has to score at least"),
        member("vector_similarity_weight", Type::Number, "the share of vectors in a score"),
        whole("pagerank", "how much it is preferred"),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("update_time", "when it was changed"),
        text("update_date", "the same in words"),
    ],
};

/// `GET /api/v1/datasets`.
pub static LIST: Operation = Operation::reads("Lists the datasets.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("id", "only this one").optional(),
        text("name", "only that of this name").optional(),
        member("orderby", Type::OneOf(&["create_time", "update_time"]), "in which order").optional(),
        flag("desc", "whether the newest come first").optional(),
    ])
    .answer(Answer::Counted(Type::List(&Type::Of(&DATASET)), "total_datasets"));
/// `POST /api/v1/datasets`.
pub static CREATE: Operation = Operation::edits("Makes a dataset.")
    .takes(Body::Json(Type::Rules(dataset::FIELDS)))
    .data(Type::Of(&DATASET));
/// `GET /api/v1/datasets/{id}`.
pub static GET: Operation = Operation::reads("Shows a dataset.").data(Type::Of(&DATASET));
/// `PUT` and `PATCH /api/v1/datasets/{id}`.
pub static UPDATE: Operation = Operation::edits("Changes what is given of a dataset.")
    .takes(Body::Json(Type::Rules(dataset::FIELDS)))
    .data(Type::Of(&DATASET));
/// `DELETE /api/v1/datasets`.
pub static DELETE: Operation = Operation::edits("Removes datasets.")
    .body(&[
        list("ids", &Type::Text, "which ones").optional().nullable(),
        flag("delete_all", "whether all of them; without ids").optional(),
    ])
    .data(Type::Object(&[whole("success_count", "how many were removed")]));

pub(super) static DOCUMENT: Shape = Shape {
    name: "Document",
    summary: "a file in a dataset",
    members: &[
        text("id", "its id"),
        text("dataset_id", "in which dataset"),
        text("name", "its name"),
        text("type", "what kind of file"),
        text("suffix", "what its name ends with"),
        whole("size", "its bytes"),
        text("chunk_method", "how it is cut"),
        member("parser_config", Type::Map(&Type::Any), "the settings of that"),
        whole("chunk_count", "how many chunks it has"),
        whole("token_count", "how many tokens those have"),
        member("run", Type::OneOf(&["UNSTART", "RUNNING", "CANCEL", "DONE", "FAIL"]), "how far it is read"),
        member("progress", Type::Number, "the same as a share of 1; -1 when it has failed"),
        text("progress_msg", "what happened on the way"),
        member("process_duration", Type::Number, "how long it took, in seconds"),
        member("meta_fields", Type::Map(&Type::Any), "its metadata"),
        member("status", Type::OneOf(&["0", "1"]), "whether it is found"),
        time("create_time", "when it was uploaded"),
        time("update_time", "when it was changed"),
    ],
};
const IDS: [Member; 2] = [
    list("ids", &Type::Text, "which ones").optional().nullable(),
    flag("delete_all", "whether all of them; without ids").optional(),
];
const DOCUMENT_IDS: [Member; 1] = [list("document_ids", &Type::Text, "which ones")];
/// The number of documents, and the ids that were repeated.
const COUNTED: Type = Type::Object(&[
    whole("success_count", "how many"),
    list("errors", &Type::Text, "which came twice").optional(),
]);

/// `GET …/documents`.
pub static LIST_DOCUMENTS: Operation = Operation::reads("Lists the documents of a dataset.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("id", "only this one").optional(),
        text("name", "only that of this name").optional(),
        text("keywords", "only those with this in their name").optional(),
        text("suffix", "only files of this kind; repeatable").optional(),
        text("types", "only `pdf`, `doc`, `visual`, `aural` or `other` files; repeatable").optional(),
        text("run", "only those that are read so far; repeatable").optional(),
        text("metadata_condition", "only those whose metadata fits, as JSON").optional(),
        text("metadata", "only those with one of the values for each key, as JSON").optional(),
        flag("return_empty_metadata", "only those without metadata").optional(),
        time("create_time_from", "only those uploaded from then on").optional(),
        time("create_time_to", "only those uploaded until then").optional(),
        member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "by what").optional(),
        flag("desc", "whether the newest come first").optional(),
        member("type", Type::OneOf(&["filter"]), "what they differ in, in place of the page").optional(),
    ])
    .data(Type::Either(&[
        Type::Object(&[
            list("docs", &Type::Of(&DOCUMENT), "the page"),
            whole("total", "how many there are in all"),
        ]),
        Type::Object(&[
            member(
                "filter",
                Type::Map(&Type::Map(&Type::Any)),
                "how many have each `suffix`, `run_status` and `metadata`",
            ),
            whole("total", "how many there are in all"),
        ]),
    ]));
/// `POST …/documents`.
pub static UPLOAD: Operation = Operation::edits("Uploads files; they are read when that is asked for.")
    .query(&[
        text("type", "`local`; `empty`: a document without text, whose `name` is sent as JSON").optional()
    ])
    .takes(Body::Files)
    .data(Type::Either(&[Type::Of(&DOCUMENT), Type::List(&Type::Of(&DOCUMENT))]));
/// `DELETE …/documents`.
pub static DELETE_DOCUMENTS: Operation = Operation::edits("Removes documents.")
    .body(&IDS)
    .data(Type::Object(&[whole("deleted", "how many were removed")]));
/// `GET …/documents/{document}`.
pub static DOWNLOAD: Operation = Operation::reads("Sends the file of a document.").answer(Answer::File);
/// `PUT` and `PATCH …/documents/{document}`.
pub static UPDATE_DOCUMENT: Operation = Operation::edits("Changes what is given of a document.")
    .takes(Body::Json(Type::Rules(document::FIELDS)))
    .data(Type::Of(&DOCUMENT));
/// `POST …/chunks` of a dataset.
pub static START: Operation =
    Operation::edits("Has documents read.").body(&DOCUMENT_IDS).data(Type::Either(&[Type::Null, COUNTED]));
/// `DELETE …/chunks` of a dataset.
pub static STOP: Operation = Operation::edits("Has documents no longer read.")
    .body(&DOCUMENT_IDS)
    .data(Type::Either(&[Type::Null, COUNTED]));
/// `POST …/documents/parse`.
pub static PARSE: Operation = Operation::edits("Has documents read.").body(&DOCUMENT_IDS).data(COUNTED);
/// `POST …/documents/stop`.
pub static HALT: Operation =
    Operation::edits("Has documents no longer read.").body(&DOCUMENT_IDS).data(COUNTED);

/// `GET …/metadata/summary`.
pub static SUMMARY: Operation = Operation::reads("Counts the values of the metadata of documents.")
    .query(&[text("doc_ids", "of these documents; repeatable; of all when absent").optional()])
    .data(Type::Object(&[member(
        "summary",
        Type::Map(&Type::Any),
        "by key: its type, and its values with their numbers",
    )]));
/// `POST …/metadata/update`.
pub static UPDATE_METADATA: Operation =
    Operation::edits("Makes the same change of the metadata of many documents.")
        .body(&[
            member("selector", Type::Any, "which documents: `document_ids`, `metadata_condition`").optional(),
            list("updates", &Type::Any, "`{key, value}`, also with `match`").optional(),
            list("deletes", &Type::Any, "`{key}`, also with `value`").optional(),
        ])
        .data(Type::Object(&[
            whole("updated", "how many have changed"),
            whole("matched_docs", "how many it was for"),
        ]));
const CONFIG: Type = Type::Object(&[
    member("metadata", Type::Any, "what a model is to find out: a list of fields, or a schema of JSON"),
    list("built_in_metadata", &Type::Any, "what a file says of itself"),
    flag("enabled", "whether it is on; as older clients are told").optional(),
]);
/// `GET …/metadata/config`.
pub static GET_CONFIG: Operation =
    Operation::reads("Shows what a model is to find out about each document.").data(CONFIG);
/// `PUT …/metadata/config`.
pub static SET_CONFIG: Operation = Operation::edits("Says what a model is to find out about each document.")
    .takes(Body::Json(Type::Any))
    .data(CONFIG);
/// `PUT …/documents/{document}/metadata/config`.
pub static SET_DOCUMENT_CONFIG: Operation =
    Operation::edits("Says what a model is to find out about a document.")
        .body(&[member("metadata", Type::Any, "what to find out")])
        .data(Type::Of(&DOCUMENT));

static CHUNK: Shape = Shape {
    name: "Chunk",
    summary: "a part of a document",
    members: &[
        text("id", "its id"),
        text("content", "its text"),
        text("document_id", "of which document"),
        text("dataset_id", "of which dataset"),
        list("important_keywords", &Type::Text, "words it is found by, too"),
        list("questions", &Type::Text, "questions it is found by, too"),
        list("tag_kwd", &Type::Text, "tags it is kept with"),
        flag("available", "whether it is found"),
        text("docnm_kwd", "the name of the document").optional(),
        list("positions", &Type::Any, "where it is: page, left, right, top, bottom").optional(),
        text("create_time", "when it was made, in words"),
        member("create_timestamp", Type::Number, "the same in seconds since 1970"),
    ],
};
const CHUNK_BODY: [Member; 6] = [
    text("content", "its text").optional(),
    list("important_keywords", &Type::Text, "words it is found by, too").optional().nullable(),
    list("questions", &Type::Text, "questions it is found by, too").optional().nullable(),
    list("tag_kwd", &Type::Text, "tags it is kept with").optional().nullable(),
    member("available", Type::Any, "whether it is found").optional(),
    list("positions", &Type::Any, "where it is").optional().nullable(),
];

/// `GET …/chunks`.
pub static LIST_CHUNKS: Operation = Operation::reads("Lists the chunks of a document.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("id", "only this one").optional(),
        text("keywords", "only those with this in their text, which is marked").optional(),
        flag("available", "only those that are found, or only the others").optional(),
    ])
    .data(Type::Object(&[
        list("chunks", &Type::Of(&CHUNK), "the page"),
        whole("total", "how many there are in all"),
        member("doc", Type::Of(&DOCUMENT), "the document"),
    ]));
/// `POST …/chunks` of a document.
pub static ADD_CHUNK: Operation = Operation::edits("Adds a chunk.")
    .body(&CHUNK_BODY)
    .data(Type::Object(&[member("chunk", Type::Of(&CHUNK), "")]));
/// `PATCH …/chunks`.
pub static SWITCH_CHUNKS: Operation = Operation::edits("Has chunks found, or no longer.")
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
        flag("delete_all", "whether all of them; without ids").optional(),
    ])
    .data(REMOVED);
/// `GET …/chunks/{chunk}`.
pub static GET_CHUNK: Operation = Operation::reads("Shows a chunk.").data(Type::Of(&CHUNK));
/// `PUT` and `PATCH …/chunks/{chunk}`.
pub static UPDATE_CHUNK: Operation =
    Operation::edits("Changes what is given of a chunk.").body(&CHUNK_BODY).data(Type::Flag);

/// `GET …/knowledge_graph`.
pub static GET_GRAPH: Operation =
    Operation::reads("Shows the most important part of the knowledge graph of a dataset, and its mind map.")
        .data(Type::Object(&[
            member("graph", Type::Any, "`nodes` and `edges`"),
            member(
                "mind_map",
                Type::Any,
                "a tree of nodes with `id` and `children`; empty as long as nobody has asked for it",
            ),
            text("note", "what is missing for want of room, when that is so").optional(),
        ]));
/// `DELETE …/knowledge_graph`.
pub static DELETE_GRAPH: Operation =
    Operation::edits("Removes the knowledge graph of a dataset.").data(Type::Flag);

/// `POST …/run_graphrag`.
pub static RUN_GRAPH: Operation =
    Operation::edits("Has every document of a dataset read again, with its knowledge graph.")
        .data(Type::Object(&[text("graphrag_task_id", "the task")]));
/// `POST …/run_raptor`.
pub static RUN_RAPTOR: Operation =
    Operation::edits("Has every document of a dataset read again, with summaries of what belongs together.")
        .data(Type::Object(&[text("raptor_task_id", "the task")]));
/// `GET …/trace_graphrag`, `GET …/trace_raptor`.
pub static TRACE: Operation =
    Operation::reads("Shows how far such a task has come; an empty object when no document asks for it.")
        .data(Type::Object(&[
            text("id", "the task").optional(),
            member("progress", Type::Number, "from 0 to 1; -1 when a document failed").optional(),
            text("progress_msg", "what has come of it").optional(),
            member("begin_at", Type::Any, "when it began, in milliseconds since 1970").optional(),
            member("process_duration", Type::Number, "seconds of work, of all documents together").optional(),
        ]));

static HIT: Shape = Shape {
    name: "Hit",
    summary: "a chunk that was found",
    members: &[
        text("id", "its id"),
        text("content", "its text"),
        text("document_id", "of which document"),
        text("document_name", "the name of that"),
        text("dataset_id", "of which dataset"),
        member("similarity", Type::Number, "its score, from 0 to 1"),
        member("vector_similarity", Type::Number, "that of its vector"),
        member("term_similarity", Type::Number, "that of its words"),
        list("positions", &Type::Any, "where it is: page, left, right, top, bottom"),
        text("highlight", "its text with marks, when they are asked for").optional().nullable(),
        member("document_metadata", Type::Any, "the metadata of the document, when they are asked for")
            .optional(),
    ],
};

/// `POST /api/v1/retrieval`.
pub static SEARCH: Operation = Operation::reads("Searches datasets.")
    .body(&[
        text("question", "what to look for"),
        list("dataset_ids", &Type::Text, "which datasets").optional(),
        list("document_ids", &Type::Text, "only in these documents").optional(),
        member("page", Type::Any, "which page, from 1 on").optional(),
        member("page_size", Type::Any, "how many it has; 30 when absent").optional(),
        member("similarity_threshold", Type::Any, "what a chunk has to score at least; 0.2 when absent")
            .optional(),
        member("vector_similarity_weight", Type::Any, "the share of vectors in a score; 0.5 when absent")
            .optional(),
        member("top_k", Type::Any, "how many chunks are looked at; 1024 when absent").optional(),
        text("rerank_id", "the model that ranks what was found").optional().nullable(),
        member("keyword", Type::Any, "whether a model adds words to look for").optional(),
        member("highlight", Type::Any, "whether what was looked for is marked").optional(),
        list("cross_languages", &Type::Text, "languages that the question is asked in as well")
            .optional()
            .nullable(),
        member("metadata_condition", Type::Any, "only documents whose metadata fits").optional(),
        member("use_kg", Type::Any, "whether what the knowledge graph says comes first").optional(),
    ])
    .data(Type::Object(&[
        list("chunks", &Type::Of(&HIT), "what was found, the best first"),
        list(
            "doc_aggs",
            &Type::Object(&[text("doc_name", ""), text("doc_id", ""), whole("count", "")]),
            "how many chunks each document has given",
        ),
        whole("total", "how many there are in all"),
        list("notes", &Type::Text, "what could not be done as asked").optional(),
    ]));
/// Body of the two dataset search routes.
const SEARCH_BODY: [Member; 13] = [
    text("question", "what to look for"),
    list("dataset_ids", &Type::Text, "which datasets").optional(),
    list("doc_ids", &Type::Text, "only in these documents").optional().nullable(),
    member("page", Type::Any, "which page, from 1 on").optional(),
    member("size", Type::Any, "how many it has; 30 when absent").optional(),
    member("similarity_threshold", Type::Any, "what a chunk has to score at least").optional(),
    member("vector_similarity_weight", Type::Any, "the share of vectors in a score; 0.3 when absent")
        .optional(),
    member("top_k", Type::Any, "how many chunks are looked at; 1024 when absent").optional(),
    text("rerank_id", "the model that ranks what was found").optional().nullable(),
    member("keyword", Type::Any, "whether a model adds words to look for").optional(),
    list("cross_languages", &Type::Text, "languages that the question is asked in as well")
        .optional()
        .nullable(),
    member("meta_data_filter", Type::Any, "only documents whose metadata fits: `method`, `manual`, `logic`")
        .optional(),
    member("use_kg", Type::Any, "whether what the knowledge graph says comes first").optional(),
];
static A_HIT: Type = Type::Of(&HIT);
const FOUND: Type = Type::Object(&[
    list("chunks", &A_HIT, "what was found, the best first"),
    list("doc_aggs", &Type::Any, "how many chunks each document has given"),
    whole("total", "how many there are in all"),
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
    "what was found, the best first",
)]));
/// `GET /api/v1/dify/retrieval`.
pub static SEARCH_DIFY_ADDRESS: Operation = Operation::reads("The same with the question in the address.")
    .query(&[
        text("knowledge_id", "which dataset"),
        text("query", "what to look for"),
        whole("top_k", "how many at most").optional(),
        member("score_threshold", Type::Number, "what a chunk has to score at least").optional(),
        flag("use_kg", "whether what the knowledge graph says comes first").optional(),
    ])
    .answer(RECORDS);
/// `POST /api/v1/dify/retrieval`.
pub static SEARCH_DIFY: Operation =
    Operation::reads("Searches a dataset in the shape of Dify's external knowledge.")
        .body(&[
            text("knowledge_id", "which dataset"),
            text("query", "what to look for"),
            member("retrieval_setting", Type::Any, "`top_k` and `score_threshold`").optional(),
            member("metadata_condition", Type::Any, "only documents whose metadata fits").optional(),
        ])
        .answer(RECORDS);
