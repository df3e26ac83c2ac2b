//! The format of results in each revision.

use serde_json::{Map, json};
use weft_core::Json;

use super::capabilities::TASKS;
use super::revision::ProtocolRevision;
use super::service::{About, Feature, Listing};

/// How long a client may cache a list, in milliseconds. Agents are published rarely, but their authors expect to see
/// them soon.
const LIST_TTL_MS: u64 = 5_000;

fn implementation(about: &About) -> Json {
    json!({"name": about.name, "title": about.title, "version": about.version})
}

/// Returns the capabilities of a service in the format of a revision.
pub(super) fn capabilities(about: &About, revision: ProtocolRevision) -> Json {
    let mut all = json!({"tools": {}});
    for feature in about.features {
        match feature {
            Feature::Resources => all["resources"] = json!({}),
            // From 2026-07-28 on it would announce streams of changes, which do not exist here.
            Feature::Subscriptions if revision.is_stateless() => {}
            Feature::Subscriptions => all["resources"] = json!({"subscribe": true}),
            Feature::Prompts => all["prompts"] = json!({}),
            Feature::Completions => all["completions"] = json!({}),
            Feature::Logging => all["logging"] = json!({}),
            Feature::Tasks if revision.is_stateless() => all["extensions"] = json!({TASKS: {}}),
            Feature::Tasks if revision == ProtocolRevision::V2025_11_25 => {
                all["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
            }
            Feature::Tasks => {}
            // In older revisions these notifications are sent outside of requests, which this server does not do.
            Feature::ListChanges if revision.is_stateless() => all["tools"] = json!({"listChanged": true}),
            Feature::ListChanges => {}
        }
    }
    all
}

/// Returns the result of `initialize`.
pub(super) fn initialized(about: &About, revision: ProtocolRevision) -> Map<String, Json> {
    let mut result = Map::from_iter([
        ("protocolVersion".to_owned(), revision.as_str().into()),
        ("capabilities".to_owned(), capabilities(about, revision)),
        ("serverInfo".to_owned(), implementation(about)),
    ]);
    if !about.instructions.is_empty() {
        result.insert("instructions".to_owned(), about.instructions.into());
    }
    result
}

/// Returns the result of `server/discover`.
pub(super) fn discovered(about: &About, revision: ProtocolRevision) -> Map<String, Json> {
    let mut result = Map::from_iter([
        ("supportedVersions".to_owned(), supported()),
        ("capabilities".to_owned(), capabilities(about, revision)),
    ]);
    if !about.instructions.is_empty() {
        result.insert("instructions".to_owned(), about.instructions.into());
    }
    result.extend(cacheable());
    result
}

/// Returns the names of the supported revisions.
pub(super) fn supported() -> Json {
    ProtocolRevision::ALL.into_iter().map(ProtocolRevision::as_str).collect()
}

/// Returns how long a result may be cached. Only the client itself may cache it, since it depends on the caller.
pub(super) fn cacheable() -> [(String, Json); 2] {
    [("ttlMs".to_owned(), LIST_TTL_MS.into()), ("cacheScope".to_owned(), "private".into())]
}

/// Returns a page of a list in the format of a revision.
pub(super) fn listed(key: &str, listing: Listing, revision: ProtocolRevision) -> Map<String, Json> {
    let mut items = listing.items;
    if revision != ProtocolRevision::V2025_11_25 {
        // Only 2025-11-25 defines this field.
        for item in items.iter_mut().filter_map(Json::as_object_mut) {
            item.remove("execution");
        }
    }
    let mut result = Map::from_iter([(key.to_owned(), Json::Array(items))]);
    if let Some(next) = listing.next {
        result.insert("nextCursor".to_owned(), next.into());
    }
    if revision.is_stateless() {
        result.extend(cacheable());
    }
    result
}

/// Completes a result for sending.
pub(super) fn complete(
    mut result: Map<String, Json>,
    about: &About,
    revision: ProtocolRevision,
) -> Map<String, Json> {
    if !revision.is_stateless() {
        return result;
    }
    result.entry("resultType").or_insert_with(|| "complete".into());
    if let Json::Object(meta) = result.entry("_meta").or_insert_with(|| json!({})) {
        meta.insert("io.modelcontextprotocol/serverInfo".to_owned(), implementation(about));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About = About {
        name: "n",
        title: "N",
        version: "1",
        instructions: "",
        features: &[Feature::Resources, Feature::Subscriptions, Feature::Tasks, Feature::ListChanges],
    };

    #[test]
    fn tasks_and_subscriptions_follow_the_protocol_revision() {
        let check = |revision: ProtocolRevision, expected: Json| {
            assert_eq!(capabilities(&ABOUT, revision), expected, "{revision:?}");
        };
        check(ProtocolRevision::V2025_06_18, json!({"tools": {}, "resources": {"subscribe": true}}));
        let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        check(
            ProtocolRevision::V2025_11_25,
            json!({"tools": {}, "resources": {"subscribe": true}, "tasks": tasks}),
        );
        check(
            ProtocolRevision::V2026_07_28,
            json!({"tools": {"listChanged": true}, "resources": {}, "extensions": {TASKS: {}}}),
        );
    }

    #[test]
    fn lists_and_results_follow_the_protocol_revision() {
        let listing = || Listing::from(vec![json!({"name": "t", "execution": {"taskSupport": "optional"}})]);
        let tool = |revision| listed("tools", listing(), revision);
        assert!(tool(ProtocolRevision::V2025_11_25)["tools"][0]["execution"].is_object());
        let newest = complete(tool(ProtocolRevision::V2026_07_28), &ABOUT, ProtocolRevision::V2026_07_28);
        assert_eq!(newest["tools"], json!([{"name": "t"}]));
        assert_eq!((&newest["resultType"], &newest["cacheScope"]), (&json!("complete"), &json!("private")));
        assert_eq!(newest["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "n");
        let older = complete(tool(ProtocolRevision::V2025_06_18), &ABOUT, ProtocolRevision::V2025_06_18);
        assert_eq!(older.keys().collect::<Vec<_>>(), ["tools"]);
    }
}
