//! Ingestion logs, and documents addressed by id alone.

use super::agents::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation};

static READING: Shape = Shape {
    name: "Reading",
    summary: "a reading of a document that is over",
    members: &[
        text("id", "its id"),
        text("dataset_id", "of which dataset"),
        text("document_id", "of which document"),
        text("document_name", "what the document was called then"),
        text("document_suffix", "what its name ends in"),
        text("parser_id", "how it was cut"),
        text("pipeline_id", "the pipeline that it went through").nullable(),
        member("run", Type::OneOf(&["DONE", "FAIL", "CANCEL"]), "how it ended"),
        member("operation_status", Type::OneOf(&["3", "4", "2"]), "the same as a digit"),
        member("progress", Type::Number, "1, or -1 when it failed"),
        text("progress_msg", "what was noticed, or why it failed"),
        text("error", "why it failed").nullable(),
        text("process_begin_at", "when it began, in words").nullable(),
        member("process_duration", Type::Number, "how long it took, in seconds"),
        whole("chunk_count", "chunks that it has made"),
        whole("token_count", "the tokens of those"),
        time("create_time", "when it ended"),
        text("create_date", "the same in words"),
        member("dsl", Type::Any, "the newest canvas of its pipeline, where it is shown by itself").optional(),
        member("settings", Type::Any, "the settings of then, where it is shown by itself").optional(),
    ],
};

/// `GET …/ingestions`.
pub static LIST: Operation = Operation::reads(
    "Lists what has become of each reading of the documents of a dataset, the last ones of each.",
)
.query(&[
    PAGE[0],
    PAGE[1],
    flag("desc", "whether those that ended last come first; true when absent").optional(),
    text("document_id", "only those of this document").optional(),
    text("operation_status", "only those that ended so; repeatable: DONE, FAIL, CANCEL, or 3, 4, 2")
        .optional(),
    text("keywords", "only those of documents with this in their name").optional(),
    text("create_date_from", "only those that ended then or later: a day, or a time in UTC").optional(),
    text("create_date_to", "only those that ended then or earlier").optional(),
])
.data(Type::Object(&[
    list("logs", &Type::Of(&READING), "the page"),
    whole("total", "how many there are in all"),
]));
/// `GET …/ingestions/{log}`.
pub static GET: Operation = Operation::reads("Shows a reading.").data(Type::Of(&READING));
/// `GET …/ingestions/summary`.
pub static SUMMARY: Operation = Operation::reads("Counts how far the documents of a dataset have come.")
    .data(Type::Object(&[
        whole("doc_num", "documents"),
        whole("chunk_num", "chunks"),
        whole("token_num", "tokens"),
        member("status", Type::Map(&Type::Whole), "documents by how far they are, such as `fail_count`"),
    ]));
/// `POST …/rerun`.
pub static RERUN: Operation =
    Operation::edits("Has the document of a reading go through its pipeline once more, from the beginning.")
        .body(&[
            text("id", "the reading"),
            member("dsl", Type::Object(&[]), "the pipeline, as it is stored"),
            text("component_id", "a component of it"),
        ])
        .data(Type::Flag);

const DOC_IDS: Member = list("doc_ids", &Type::Text, "which documents");
/// `GET /api/v1/documents/{document}` and `…/preview`.
pub static GET_DOCUMENT: Operation =
    Operation::reads("Sends the file of a document, whatever dataset it is in.").answer(Answer::File);
/// `GET /api/v1/documents/images/{image}` and its like.
pub static PICTURE: Operation =
    Operation::reads("Sends the picture that `image_id` of a chunk names: the one that its text was read in, or its document, where that is one.")
        .answer(Answer::File);
/// `GET /api/v1/documents/{document}/thumbnail`.
pub static THUMBNAIL: Operation = Operation::reads(
    "Sends a picture of a document: the document itself, where that is one, else the first picture in it.",
)
.answer(Answer::File);
/// `GET /api/v1/thumbnails`.
pub static THUMBNAILS: Operation =
    Operation::reads("Tells where the pictures of documents are, by their ids; empty for one without.")
        .query(&[text("doc_ids", "which documents, separated by commas")])
        .data(Type::Map(&Type::Text));
/// `GET /api/v1/documents/artifact/{file}`.
pub static ARTIFACT: Operation =
    Operation::reads("Sends a file that a run has made, by its id with the ending of its name.")
        .answer(Answer::File);
/// `POST /api/v1/documents/ingest`.
pub static INGEST: Operation = Operation::edits("Has documents read, or no longer read.")
    .body(&[
        DOC_IDS,
        member("run", Type::Either(&[Type::Whole, Type::Text]), "1 to read, 2 to stop"),
        flag("delete", "whether what they had before goes at once").optional(),
    ])
    .data(Type::Flag);
/// `POST …/batch-update-status`.
pub static SET_STATUS: Operation = Operation::edits("Has documents found, or no longer.")
    .body(&[DOC_IDS, member("status", Type::Either(&[Type::Whole, Type::Text]), "1 or 0")])
    .data(Type::Map(&Type::Any));
/// `GET /api/v1/datasets/metadata/flattened`.
pub static FLATTENED: Operation =
    Operation::reads("Lists by key and value of their metadata the documents of datasets.")
        .query(&[text("dataset_ids", "which datasets, with commas between them")])
        .data(Type::Map(&Type::Map(&Type::List(&Type::Text))));
/// `POST …/index`.
pub static RUN_INDEX: Operation = Operation::edits(
    "Has every document of a dataset read again, with an index; or all vectors made anew (`embedding`).",
)
.query(&[member("type", Type::OneOf(&["graph", "raptor", "mindmap", "embedding"]), "which index")])
.body(&[text("embedding_model", "of `embedding`: the model; empty for none").nullable().optional()])
.data(Type::Object(&[text("task_id", "the task")]));
/// `GET …/index`.
pub static TRACE_INDEX: Operation = Operation::reads("Shows how far an index has come.").query(&[member(
    "type",
    Type::OneOf(&["graph", "raptor", "mindmap", "embedding"]),
    "which index",
)]);
