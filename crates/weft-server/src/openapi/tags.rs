//! Tags of datasets, and maintenance of whole datasets.

use super::Operation;
use super::shape::{Type, list, member, text, whole};

/// Tags, each with its count.
const TAGS: Type = Type::List(&Type::Any);

/// `GET …/tags`.
pub static LIST: Operation =
    Operation::reads("Lists the tags of a dataset as pairs of a tag and the number of chunks that have it.")
        .data(TAGS);
/// `GET /api/v1/datasets/tags/aggregation`.
pub static AGGREGATION: Operation = Operation::reads("Lists the tags of several datasets together.")
    .query(&[text("dataset_ids", "which datasets, with commas between them")])
    .data(TAGS);
/// `DELETE …/tags`.
pub static DELETE: Operation = Operation::edits("Takes tags away from all chunks of a dataset.")
    .body(&[list("tags", &Type::Text, "which tags")])
    .data(Type::Flag);
/// `PUT …/tags`.
pub static RENAME: Operation = Operation::edits("Renames a tag of all chunks of a dataset.")
    .body(&[text("from_tag", "what it is called"), text("to_tag", "what it is to be called")])
    .data(Type::Flag);

/// `DELETE …/{index}`.
pub static DELETE_INDEX: Operation =
    Operation::edits("Removes the summaries of a dataset (`raptor`) or its mind map (`mindmap`), documents no longer ask for them; or calls new vectors off (`embedding`).")
        .data(Type::Flag);

/// `POST …/embedding/check`.
pub static CHECK_EMBEDDING: Operation =
    Operation::edits("Compares the vectors of some chunks with those that another model makes of them.")
        .body(&[
            text("embd_id", "the other model"),
            whole("check_num", "how many chunks; 5 when absent").optional(),
        ])
        .data(Type::Object(&[
            member("summary", Type::Map(&Type::Any), "how many were compared, and how alike they are"),
            list("results", &Type::Map(&Type::Any), "the same of each chunk"),
        ]));
