//! Further routes of older clients: ingestion logs, documents addressed by id alone, models, and the state of the
//! server.

use super::methods::{DELETE, GET, PATCH, POST, PUT};
use crate::openapi::Routes;
use crate::openapi::agents as of_agent;
use crate::openapi::datasets as of_dataset;
use crate::openapi::offers as of_offer;
use crate::openapi::readings as of_reading;
use crate::openapi::runs as of_run;
use crate::openapi::tags as of_tag;
use crate::routes::{
    any_document, attachments, components, conversations, dataset_tasks, embedding_check, graph, health,
    offers, readings, tags, traces,
};

/// Below `/api/v1/datasets/{id}`.
pub(super) fn of_readings() -> Routes {
    let mut routes = Routes::new("What became of documents");
    // Clients use several names for them.
    for [all, one] in [
        ["/ingestions", "/ingestions/{log}"],
        ["/ingestion_logs", "/ingestion_logs/{log}"],
        ["/pipeline_logs", "/pipeline_logs/{log}"],
    ] {
        routes = routes.on(GET, all, readings::list, &of_reading::LIST).on(
            GET,
            one,
            readings::get,
            &of_reading::GET,
        );
    }
    routes
        .on(GET, "/ingestions/summary", readings::summary, &of_reading::SUMMARY)
        .on(POST, "/documents/batch-update-status", any_document::set_status, &of_reading::SET_STATUS)
        .on(GET, "/graph", graph::get, &of_dataset::GET_GRAPH)
        .on(DELETE, "/graph", graph::delete, &of_dataset::DELETE_GRAPH)
        .on(POST, "/index", dataset_tasks::run_index, &of_reading::RUN_INDEX)
        .on(GET, "/index", dataset_tasks::trace_index, &of_reading::TRACE_INDEX)
        .on(DELETE, "/{index}", dataset_tasks::delete_index, &of_tag::DELETE_INDEX)
        .on(GET, "/tags", tags::list, &of_tag::LIST)
        .on(PUT, "/tags", tags::rename, &of_tag::RENAME)
        .on(DELETE, "/tags", tags::delete, &of_tag::DELETE)
        .on(POST, "/embedding/check", embedding_check::check, &of_tag::CHECK_EMBEDDING)
}

pub(super) fn of_any_documents() -> Routes {
    Routes::new("What became of documents")
        .on(GET, "/api/v1/datasets/metadata/flattened", any_document::flattened, &of_reading::FLATTENED)
        .on(POST, "/api/v1/documents/ingest", any_document::ingest, &of_reading::INGEST)
        .on(GET, "/api/v1/datasets/tags/aggregation", tags::aggregation, &of_tag::AGGREGATION)
        .on(GET, "/api/v1/documents/{document}", any_document::download, &of_reading::GET_DOCUMENT)
        .on(GET, "/api/v1/documents/{document}/preview", any_document::download, &of_reading::GET_DOCUMENT)
        .on(GET, "/api/v1/documents/images/{image}", any_document::image, &of_reading::PICTURE)
        .on(GET, "/api/v1/documents/{document}/images/{image}", any_document::image_of, &of_reading::PICTURE)
        .on(GET, "/api/v1/documents/{document}/thumbnail", any_document::thumbnail, &of_reading::THUMBNAIL)
        .on(GET, "/api/v1/thumbnails", any_document::thumbnails, &of_reading::THUMBNAILS)
        .on(GET, "/v1/document/thumbnails", any_document::thumbnails, &of_reading::THUMBNAILS)
        .on(GET, "/v1/document/image/{image}", any_document::image, &of_reading::PICTURE)
        .on(GET, "/api/v1/documents/artifact/{file}", attachments::artifact, &of_reading::ARTIFACT)
        .on(POST, "/api/v1/agents/rerun", readings::rerun, &of_reading::RERUN)
        .on(POST, "/v1/canvas/rerun", readings::rerun, &of_reading::RERUN)
        .on(POST, "/api/canvas/rerun", readings::rerun, &of_reading::RERUN)
        .on(GET, "/v1/api/conversation/{id}", conversations::get, &of_agent::GET_SESSION)
        .on(GET, "/api/v1/agentbots/{id}/logs/{message}", traces::of_agent, &of_agent::TRACE)
}

pub(super) fn of_offers() -> Routes {
    let (refused, connectors) = (&of_offer::REFUSED, &of_offer::NO_CONNECTORS);
    let instances = "/api/v1/providers/{provider}/instances";
    let instance = "/api/v1/providers/{provider}/instances/{instance}";
    let models = "/api/v1/providers/{provider}/instances/{instance}/models";
    Routes::new("Models and the server, by other names")
        .on(GET, "/api/v1/users/me/models", offers::defaults, &of_offer::DEFAULT_MODELS)
        .on(PATCH, "/api/v1/users/me/models", offers::refuse, refused)
        .on(GET, "/api/v1/models/default", offers::defaults, &of_offer::DEFAULT_MODELS)
        .on(PATCH, "/api/v1/models/default", offers::refuse, refused)
        .on(GET, "/v1/user/tenant_info", offers::defaults, &of_offer::DEFAULT_MODELS)
        .on(POST, "/v1/user/set_tenant_info", offers::refuse, refused)
        .on(GET, "/api/v1/providers", offers::providers, &of_offer::PROVIDERS)
        .on(PUT, "/api/v1/providers", offers::refuse, refused)
        .on(DELETE, "/api/v1/providers/{provider}", offers::refuse, refused)
        .on(POST, "/api/v1/providers/{provider}/connection", offers::refuse, refused)
        .on(GET, instances, offers::refuse, refused)
        .on(POST, instances, offers::refuse, refused)
        .on(DELETE, instance, offers::refuse, refused)
        .on(POST, models, offers::refuse, refused)
        .on(DELETE, models, offers::refuse, refused)
        .on(GET, "/api/v1/connectors", offers::refuse_connectors, connectors)
        .on(POST, "/api/v1/connectors", offers::refuse_connectors, connectors)
        .on(GET, "/v1/connector/list", offers::refuse_connectors, connectors)
        .on(POST, "/v1/connector/set", offers::refuse_connectors, connectors)
        .on(GET, "/v1/llm/factories", offers::providers, &of_offer::PROVIDERS)
        .on(GET, "/v1/llm/list", offers::list, &of_offer::LIST)
        .on(GET, "/v1/llm/my_llms", offers::mine, &of_offer::MINE)
        .on(POST, "/v1/llm/set_api_key", offers::refuse, refused)
        .on(POST, "/v1/llm/add_llm", offers::refuse, refused)
        .on(POST, "/v1/llm/delete_llm", offers::refuse, refused)
        .on(POST, "/v1/llm/delete_factory", offers::refuse, refused)
        .on(GET, "/api/v1/plugin/tools", components::plugin_tools, &of_run::LIST_PLUGIN_TOOLS)
        .on(GET, "/api/v1/system/healthz", health::parts, &of_offer::HEALTH)
        .on(GET, "/v1/system/healthz", health::parts, &of_offer::HEALTH)
        .on(GET, "/api/v1/system/status", health::status, &of_offer::STATUS)
        .on(GET, "/v1/system/status", health::status, &of_offer::STATUS)
        .on(GET, "/v1/system/ping", health::ping, &of_run::PING)
        .on(GET, "/v1/system/version", health::version, &of_run::VERSION)
}
