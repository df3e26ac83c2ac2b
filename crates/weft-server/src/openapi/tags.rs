//! Tags of datasets, and maintenance of whole datasets.

use super::Operation;
use super::shape::{Type, list, member, text, whole};

/// Tags, each with its count.
const TAGS: Type = Type::List(&Type::Any);

/// `GET …/tags`.
pub static LIST: Operation =
    Operation::reads("Lists the tags of a dataset as pairs of a tag and its number of chunks.").data(TAGS);
/// `GET /api/v1/datasets/tags/aggregation`.
pub static AGGREGATION: Operation = Operation::reads("Lists the tags of several datasets together.")
    .query(&[text("dataset_ids", "ids of datasets, separated by commas")])
    .data(TAGS);
/// `DELETE …/tags`.
pub static DELETE: Operation = Operation::edits("Removes tags from all chunks of a dataset.")
    .body(&[list("tags", &Type::Text, "tags to remove")])
    .data(Type::Flag);
/// `PUT …/tags`.
pub static RENAME: Operation = Operation::edits("Renames a tag in all chunks of a dataset.")
    .body(&[text("from_tag", "current name"), text("to_tag", "new name")])
    .data(Type::Flag);

/// `DELETE …/{index}`.
pub static DELETE_INDEX: Operation =
    Operation::edits("Removes the summaries (`raptor`) or the mind map (`mindmap`) of a dataset, which its documents then no longer request; or cancels recomputing vectors (`embedding`).")
        .data(Type::Flag);

/// `POST …/embedding/check`.
pub static CHECK_EMBEDDING: Operation =
    Operation::edits("Compares the vectors of some chunks with those of another model.")
        .body(&[
            text("embd_id", "the other model"),
            whole("check_num", "number of chunks; default: 5").optional(),
        ])
        .data(Type::Object(&[
            member("summary", Type::Map(&Type::Any), "number compared, and their similarity"),
            list("results", &Type::Map(&Type::Any), "the same for each chunk"),
        ]));
