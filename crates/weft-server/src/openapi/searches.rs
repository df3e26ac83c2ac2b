//! Search apps: single questions about datasets.

use super::chats::ANSWER;
use super::common::{PAGE, STREAM};
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation};

const CONFIG: Type = Type::Map(&Type::Any);

static SEARCH_APP: Shape = Shape {
    name: "SearchApp",
    summary: "a search app: settings for answering single questions about datasets",
    members: &[
        text("id", "its id"),
        text("tenant_id", "owning tenant"),
        text("created_by", "the same"),
        text("name", "its name"),
        text("description", "description"),
        text("avatar", "image as a data URI, or empty"),
        member("search_config", CONFIG, "settings as given"),
        text("status", "`1`"),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last change"),
        text("update_date", "the same as text"),
    ],
};

const NAME: Member = text("name", "at most 255 bytes; unique regardless of case");
const SEARCH_CONFIG: Member = member(
    "search_config",
    CONFIG,
    "`kb_ids` (datasets), `chat_id` (model), `llm_setting`, `similarity_threshold`, `vector_similarity_weight`, `top_n`, \
     `top_k`, `rerank_id`, `use_kg`, `keyword`, `cross_languages`, `meta_data_filter`; others are kept",
);
const DESCRIPTION: Member = text("description", "description").optional().nullable();
const AVATAR: Member = text("avatar", "image as a data URI").optional().nullable();

/// `POST /api/v1/searches`.
pub static CREATE: Operation = Operation::edits("Creates a search app. A name that is taken gets a number.")
    .body(&[NAME, DESCRIPTION, AVATAR, SEARCH_CONFIG.optional().nullable()])
    .data(Type::Object(&[text("search_id", "its id")]));
/// `GET /api/v1/searches`.
pub static LIST: Operation = Operation::reads("Lists the search apps.")
    .query(&[
        PAGE[0],
        PAGE[1],
        member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "sort field").optional(),
        flag("desc", "whether to sort in descending order; default: true").optional(),
        text("keywords", "only those with this text in the name").optional(),
        text("owner_ids", "only those of these owners").optional(),
    ])
    .data(Type::Object(&[
        list("search_apps", &Type::Of(&SEARCH_APP), "entries of the page"),
        whole("total", "total number"),
    ]));
/// `GET /api/v1/searches/{id}`.
pub static GET: Operation = Operation::reads("Shows a search app.").data(Type::Of(&SEARCH_APP));
/// `PUT /api/v1/searches/{id}`.
pub static UPDATE: Operation = Operation::edits("Renames a search app and updates only the given settings.")
    .body(&[NAME, DESCRIPTION, AVATAR, SEARCH_CONFIG])
    .data(Type::Of(&SEARCH_APP));
/// `DELETE /api/v1/searches/{id}`.
pub static DELETE: Operation =
    Operation::edits("Removes a search app with the questions asked.").data(Type::Flag);

const QUESTION: [Member; 6] = [
    text("question", "the question"),
    list("kb_ids", &Type::Text, "datasets to search; an app with datasets of its own searches those")
        .optional(),
    list("doc_ids", &Type::Text, "search only these documents").optional(),
    member("metadata_condition", CONFIG, "search only documents with matching metadata").optional(),
    STREAM,
    flag("legacy", "whether each frame contains everything so far").optional(),
];

/// `POST /api/v1/searches/{id}/completions`.
pub static ASK: Operation =
    Operation::runs("Asks a search app.").body(&QUESTION).answer(Answer::EventsOrData(Type::Of(&ANSWER)));
/// `POST /api/v1/searchbots/ask`.
pub static ASK_ANY: Operation =
    Operation::runs("Asks datasets, with the settings of a search app or without one.")
        .body(&[
            QUESTION[0],
            QUESTION[1],
            QUESTION[2],
            QUESTION[3],
            QUESTION[4],
            QUESTION[5],
            text("search_id", "the search app; without one, datasets must be given").optional(),
        ])
        .answer(Answer::EventsOrData(Type::Of(&ANSWER)));
/// `POST /api/v1/searchbots/mindmap` and `POST /api/v1/chat/mindmap`.
pub static MIND_MAP: Operation = Operation::runs("Creates a mind map of what datasets say about a question.")
    .body(&[
        QUESTION[0],
        QUESTION[1],
        QUESTION[2],
        QUESTION[3],
        text("search_id", "the search app whose settings apply").optional(),
    ])
    .data(Type::Object(&[text("id", "the point"), list("children", &Type::Any, "the points below it")]));
/// `POST /api/v1/searchbots/retrieval_test`.
pub static FIND: Operation =
    Operation::reads("Searches datasets, with the settings of a search app or without one.")
        .body(&[
            QUESTION[0],
            member(
                "kb_id",
                Type::Either(&[Type::Text, Type::List(&Type::Text)]),
                "datasets to search; an app with datasets of its own searches those",
            )
            .optional(),
            QUESTION[2],
            text("search_id", "the search app whose settings apply").optional(),
        ])
        .data(Type::Map(&Type::Any));
/// `POST /api/v1/sessions/ask`.
pub static ASK_DATASETS: Operation = Operation::runs(
    "Asks datasets that have searchable content. Each event contains the whole answer so far.",
)
.body(&[QUESTION[0], list("dataset_ids", &Type::Text, "datasets to search"), STREAM])
.answer(Answer::EventsOrData(Type::Of(&ANSWER)));
/// `GET /api/v1/searchbots/detail`.
pub static DETAIL: Operation = Operation::reads("Shows a search app to a page that embeds it.")
    .query(&[text("search_id", "id of the search app")])
    .data(Type::Of(&SEARCH_APP));
