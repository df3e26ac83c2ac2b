//! Search apps: single questions about datasets.

use super::agents::{PAGE, STREAM};
use super::chats::ANSWER;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation};

const CONFIG: Type = Type::Map(&Type::Any);

static SEARCH_APP: Shape = Shape {
    name: "SearchApp",
    summary: "a search app: how single questions about datasets are answered",
    members: &[
        text("id", "its id"),
        text("tenant_id", "whose it is"),
        text("created_by", "the same"),
        text("name", "its name"),
        text("description", "for people"),
        text("avatar", "a picture as a data URI, or nothing"),
        member("search_config", CONFIG, "its settings as they were given"),
        text("status", "`1`"),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("update_time", "when it was changed"),
        text("update_date", "the same in words"),
    ],
};

const NAME: Member = text("name", "at most 255 bytes; unique without regard to case");
const SEARCH_CONFIG: Member = member(
    "search_config",
    CONFIG,
    "`kb_ids` (datasets), `chat_id` (model), `llm_setting`, `similarity_threshold`, `vector_similarity_weight`, `top_n`, \
     `top_k`, `rerank_id`, `use_kg`, `keyword`, `cross_languages`, `meta_data_filter`; others are kept",
);
const DESCRIPTION: Member = text("description", "for people").optional().nullable();
const AVATAR: Member = text("avatar", "a picture as a data URI").optional().nullable();

/// `POST /api/v1/searches`.
pub static CREATE: Operation =
    Operation::edits("Makes a search app. A name that is taken gets a number behind it.")
        .body(&[NAME, DESCRIPTION, AVATAR, SEARCH_CONFIG.optional().nullable()])
        .data(Type::Object(&[text("search_id", "its id")]));
/// `GET /api/v1/searches`.
pub static LIST: Operation = Operation::reads("Lists the search apps.")
    .query(&[
        PAGE[0],
        PAGE[1],
        member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "by what").optional(),
        flag("desc", "whether the largest come first; true when absent").optional(),
        text("keywords", "only with this in the name").optional(),
        text("owner_ids", "only of these owners").optional(),
    ])
    .data(Type::Object(&[
        list("search_apps", &Type::Of(&SEARCH_APP), "the page"),
        whole("total", "how many there are in all"),
    ]));
/// `GET /api/v1/searches/{id}`.
pub static GET: Operation = Operation::reads("Shows a search app.").data(Type::Of(&SEARCH_APP));
/// `PUT /api/v1/searches/{id}`.
pub static UPDATE: Operation =
    Operation::edits("Names a search app and changes the settings that are given, and nothing else.")
        .body(&[NAME, DESCRIPTION, AVATAR, SEARCH_CONFIG])
        .data(Type::Of(&SEARCH_APP));
/// `DELETE /api/v1/searches/{id}`.
pub static DELETE: Operation = Operation::edits("Removes a search app with what was asked.").data(Type::Flag);

const QUESTION: [Member; 6] = [
    text("question", "the question"),
    list("kb_ids", &Type::Text, "in these datasets; an app that names its own searches those").optional(),
    list("doc_ids", &Type::Text, "only in these documents").optional(),
    member("metadata_condition", CONFIG, "only in documents with such metadata").optional(),
    STREAM,
    flag("legacy", "whether each frame has everything so far").optional(),
];

/// `POST /api/v1/searches/{id}/completions`.
pub static ASK: Operation =
    Operation::runs("Asks a search app.").body(&QUESTION).answer(Answer::EventsOrData(Type::Of(&ANSWER)));
/// `POST /api/v1/searchbots/ask`.
pub static ASK_ANY: Operation = Operation::runs("Asks datasets, as a search app would or without one.")
    .body(&[
        QUESTION[0],
        QUESTION[1],
        QUESTION[2],
        QUESTION[3],
        QUESTION[4],
        QUESTION[5],
        text("search_id", "the search app; without one the datasets have to be named").optional(),
    ])
    .answer(Answer::EventsOrData(Type::Of(&ANSWER)));
/// `POST /api/v1/searchbots/mindmap` and `POST /api/v1/chat/mindmap`.
pub static MIND_MAP: Operation = Operation::runs("Draws a mind map of what datasets say about a question.")
    .body(&[
        QUESTION[0],
        QUESTION[1],
        QUESTION[2],
        QUESTION[3],
        text("search_id", "the search app whose settings count").optional(),
    ])
    .data(Type::Object(&[text("id", "the point"), list("children", &Type::Any, "the points below it")]));
/// `POST /api/v1/searchbots/retrieval_test`.
pub static FIND: Operation = Operation::reads("Searches datasets, as a search app would or without one.")
    .body(&[
        QUESTION[0],
        member(
            "kb_id",
            Type::Either(&[Type::Text, Type::List(&Type::Text)]),
            "in these datasets; an app that names its own searches those",
        )
        .optional(),
        QUESTION[2],
        text("search_id", "the search app whose settings count").optional(),
    ])
    .data(Type::Map(&Type::Any));
/// `POST /api/v1/sessions/ask`.
pub static ASK_DATASETS: Operation =
    Operation::runs("Asks datasets that have something to be found. Each event has the whole answer so far.")
        .body(&[QUESTION[0], list("dataset_ids", &Type::Text, "in these datasets"), STREAM])
        .answer(Answer::EventsOrData(Type::Of(&ANSWER)));
/// `GET /api/v1/searchbots/detail`.
pub static DETAIL: Operation = Operation::reads("Shows a search app to a page that has it.")
    .query(&[text("search_id", "which one")])
    .data(Type::Of(&SEARCH_APP));
