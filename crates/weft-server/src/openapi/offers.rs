//! Default models, the state of the server, and settings that only its operator changes.

use super::Operation;
use super::shape::{Member, Type, list, member, text};

const KINDS: &[&str] = &["chat", "embedding", "rerank", "image2text", "speech2text", "tts", "ocr"];

const DEFAULTS: [Member; 8] = [
    text("tenant_id", "the tenant"),
    text("name", "the same"),
    text("llm_id", "default chat model; may be empty"),
    text("embd_id", "default embedding model"),
    text("img2txt_id", "default vision model"),
    text("asr_id", "default speech recognition model"),
    text("tts_id", "default text-to-speech model"),
    text("rerank_id", "default reranking model"),
];
/// `GET /api/v1/users/me/models` and its other names.
pub static DEFAULT_MODELS: Operation =
    Operation::reads("Shows the default models.").data(Type::Object(&DEFAULTS));

const MODEL: Type = Type::Object(&[
    text("llm_name", "its name"),
    text("fid", "its provider"),
    member("model_type", Type::OneOf(KINDS), "kind of model"),
]);
/// `GET /v1/llm/list`.
pub static LIST: Operation = Operation::reads("Lists the configured models by provider.")
    .query(&[member("model_type", Type::OneOf(KINDS), "only those of this kind").optional()])
    .data(Type::Map(&Type::List(&MODEL)));
/// `GET /v1/llm/my_llms`.
pub static MINE: Operation = Operation::reads("Lists the configured models by provider.")
    .data(Type::Map(&Type::Object(&[list("llm", &Type::Any, "its models: `name`, `type`")])));
/// `GET /api/v1/providers`.
pub static PROVIDERS: Operation =
    Operation::reads("Lists the providers of configured models.").data(Type::List(&Type::Object(&[
        text("name", "its name"),
        list("model_types", &Type::Text, "kinds of its models"),
    ])));
/// Every change of the models.
pub static REFUSED: Operation =
    Operation::administers("Always rejected: models are set in the server's configuration.");

/// Everything about connectors.
pub static NO_CONNECTORS: Operation =
    Operation::edits("Always rejected: connectors to other services are not part of this build.");

/// `GET …/system/status`.
pub static STATUS: Operation =
    Operation::reads("Shows the status of the parts of the server.").data(Type::Map(&Type::Any));
/// `GET …/system/healthz`.
pub static HEALTH: Operation = Operation::open("Returns the health of the parts of the server.").answer(
    super::Answer::Whole(Type::Object(&[
        member("status", Type::OneOf(&["ok", "nok"]), "whether all of them work"),
        text("db", "the store"),
        text("redis", "messages between parts: in this process"),
        text("doc_engine", "the search index: in this process"),
        text("storage", "files: kept by this process"),
    ])),
);
