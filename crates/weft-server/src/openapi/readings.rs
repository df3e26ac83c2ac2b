//! Ingestion logs, and documents addressed by id alone.

use super::common::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation};

static READING: Shape = Shape {
    name: "Reading",
    summary: "a finished reading of a document",
    members: &[
        text("id", "its id"),
        text("dataset_id", "id of the dataset"),
        text("document_id", "id of the document"),
        text("document_name", "name of the document at that time"),
        text("document_suffix", "file name extension"),
        text("parser_id", "chunking method"),
        text("pipeline_id", "ingestion pipeline").nullable(),
        member("run", Type::OneOf(&["DONE", "FAIL", "CANCEL"]), "final status"),
        member("operation_status", Type::OneOf(&["3", "4", "2"]), "the same as a digit"),
        member("progress", Type::Number, "1; -1 on failure"),
        text("progress_msg", "notes, or the reason for the failure"),
        text("error", "reason for the failure").nullable(),
        text("process_begin_at", "start time as text").nullable(),
        member("process_duration", Type::Number, "duration in seconds"),
        whole("chunk_count", "number of chunks created"),
        whole("token_count", "number of tokens in them"),
        time("create_time", "end time"),
        text("create_date", "the same as text"),
        member("dsl", Type::Any, "newest canvas of its pipeline, for a single reading").optional(),
        member("settings", Type::Any, "settings at that time, for a single reading").optional(),
    ],
};

/// `GET …/ingestions`.
pub static LIST: Operation =
    Operation::reads("Lists the latest readings of each document of a dataset with their results.")
        .query(&[
            PAGE[0],
            PAGE[1],
            flag("desc", "whether the last to end come first; default: true").optional(),
            text("document_id", "only those of this document").optional(),
            text(
                "operation_status",
                "only those with this result; repeatable: DONE, FAIL, CANCEL, or 3, 4, 2",
            )
            .optional(),
            text("keywords", "only those of documents with this text in the name").optional(),
            text("create_date_from", "only those that ended at this time or later: a day, or a time in UTC")
                .optional(),
            text("create_date_to", "only those that ended at this time or earlier").optional(),
        ])
        .data(Type::Object(&[
            list("logs", &Type::Of(&READING), "entries of the page"),
            whole("total", "total number"),
        ]));
/// `GET …/ingestions/{log}`.
pub static GET: Operation = Operation::reads("Shows a reading.").data(Type::Of(&READING));
/// `GET …/ingestions/summary`.
pub static SUMMARY: Operation = Operation::reads("Counts the documents of a dataset by state of reading.")
    .data(Type::Object(&[
        whole("doc_num", "documents"),
        whole("chunk_num", "chunks"),
        whole("token_num", "tokens"),
        member("status", Type::Map(&Type::Whole), "number of documents by state, such as `fail_count`"),
    ]));
/// `POST …/rerun`.
pub static RERUN: Operation =
    Operation::edits("Runs the document of a reading through its pipeline again, from the beginning.")
        .body(&[
            text("id", "the reading"),
            member("dsl", Type::Object(&[]), "the pipeline as stored"),
            text("component_id", "a component of it"),
        ])
        .data(Type::Flag);

const DOC_IDS: Member = list("doc_ids", &Type::Text, "ids of documents");
/// `GET /api/v1/documents/{document}` and `…/preview`.
pub static GET_DOCUMENT: Operation =
    Operation::reads("Downloads the file of a document of any dataset.").answer(Answer::File);
/// `GET /api/v1/documents/images/{image}` and its like.
pub static PICTURE: Operation =
    Operation::reads("Downloads the image named by `image_id` of a chunk: the one that its text was read from, or its document if that is an image.")
        .answer(Answer::File);
/// `GET /api/v1/documents/{document}/thumbnail`.
pub static THUMBNAIL: Operation = Operation::reads(
    "Downloads an image of a document: the document itself if it is an image, else the first image in it.",
)
.answer(Answer::File);
/// `GET /api/v1/thumbnails`.
pub static THUMBNAILS: Operation =
    Operation::reads("Returns the URLs of document images by id; empty for a document without one.")
        .query(&[text("doc_ids", "ids of documents, separated by commas")])
        .data(Type::Map(&Type::Text));
/// `GET /api/v1/documents/artifact/{file}`.
pub static ARTIFACT: Operation =
    Operation::reads("Downloads a file created by a run, by its id with its file name extension.")
        .answer(Answer::File);
/// `POST /api/v1/documents/ingest`.
pub static INGEST: Operation = Operation::edits("Starts or stops reading documents.")
    .body(&[
        DOC_IDS,
        member("run", Type::Either(&[Type::Whole, Type::Text]), "1 to read, 2 to stop"),
        flag("delete", "whether to delete their existing chunks at once").optional(),
    ])
    .data(Type::Flag);
/// `POST …/batch-update-status`.
pub static SET_STATUS: Operation = Operation::edits("Enables or disables documents for searches.")
    .body(&[
        DOC_IDS,
        member("status", Type::Either(&[Type::Whole, Type::Text]), "1: searches find them; 0: they do not"),
    ])
    .data(Type::Map(&Type::Any));
/// `GET /api/v1/datasets/metadata/flattened`.
pub static FLATTENED: Operation =
    Operation::reads("Lists the documents of datasets by key and value of their metadata.")
        .query(&[text("dataset_ids", "ids of datasets, separated by commas")])
        .data(Type::Map(&Type::Map(&Type::List(&Type::Text))));
/// `POST …/index`.
pub static RUN_INDEX: Operation = Operation::edits(
    "Reads every document of a dataset again and builds an index, or recomputes all vectors (`embedding`).",
)
.query(&[member("type", Type::OneOf(&["graph", "raptor", "mindmap", "embedding"]), "the index")])
.body(&[text("embedding_model", "for `embedding`: the model; empty: none").nullable().optional()])
.data(Type::Object(&[text("task_id", "the task")]));
/// `GET …/index`.
pub static TRACE_INDEX: Operation = Operation::reads("Shows the progress of an index.").query(&[member(
    "type",
    Type::OneOf(&["graph", "raptor", "mindmap", "embedding"]),
    "the index",
)]);
