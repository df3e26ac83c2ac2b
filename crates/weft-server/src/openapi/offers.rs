//! Default models, the state of the server, and settings that only its operator changes.

use super::Operation;
use super::shape::{Member, Type, list, member, text};

const KINDS: &[&str] = &["chat", "embedding", "rerank", "image2text", "speech2text", "tts", "ocr"];

const DEFAULTS: [Member; 8] = [
    text("tenant_id", "the tenant"),
    text("name", "the same"),
    text("llm_id", "the model that answers when none is named; may be empty"),
    text("embd_id", "the same for vectors"),
    text("img2txt_id", "the same for pictures"),
    text("asr_id", "the same for writing down speech"),
    text("tts_id", "the same for reading aloud"),
    text("rerank_id", "the same for ranking"),
];
/// `GET /api/v1/users/me/models` and its other names.
pub static DEFAULT_MODELS: Operation =
    Operation::reads("Shows which models are used when none is named.").data(Type::Object(&DEFAULTS));

const MODEL: Type = Type::Object(&[
    text("llm_name", "its name"),
    text("fid", "its provider"),
    member("model_type", Type::OneOf(KINDS), "what it is for"),
]);
/// `GET /v1/llm/list`.
pub static LIST: Operation = Operation::reads("Lists the configured models by their providers.")
    .query(&[member("model_type", Type::OneOf(KINDS), "only those of this kind").optional()])
    .data(Type::Map(&Type::List(&MODEL)));
/// `GET /v1/llm/my_llms`.
pub static MINE: Operation = Operation::reads("Lists the configured models by their providers.")
    .data(Type::Map(&Type::Object(&[list("llm", &Type::Any, "its models: `name`, `type`")])));
/// `GET /api/v1/providers`.
pub static PROVIDERS: Operation =
    Operation::reads("Lists the providers that models are configured of.").data(Type::List(&Type::Object(
        &[text("name", "its name"), list("model_types", &Type::Text, "what its models are for")],
    )));
/// Every change of the models.
pub static REFUSED: Operation =
    Operation::administers("Is refused: which models there are is set in the server's configuration.");

/// Everything about connectors.
pub static NO_CONNECTORS: Operation =
    Operation::edits("Is refused: connectors to other services are not part of this build.");

/// `GET …/system/status`.
pub static STATUS: Operation =
    Operation::reads("Shows how the parts of the server are.").data(Type::Map(&Type::Any));
/// `GET …/system/healthz`.
pub static HEALTH: Operation =
    Operation::open("Tells how the parts of the server are.").answer(super::Answer::Whole(Type::Object(&[
        member("status", Type::OneOf(&["ok", "nok"]), "whether all of them work"),
        text("db", "the store"),
        text("redis", "messages between parts: in this process"),
        text("doc_engine", "the search index: in this process"),
        text("storage", "files: kept by this process"),
    ])));
