//! What goes around the things that a service gives, revision by revision.

use serde_json::{Map, json};
use weft_core::Json;

use super::capabilities::TASKS;
use super::revision::ProtocolRevision;
use super::service::{About, Feature, Listing};

/// How long a list may be taken for the current one, in milliseconds. Agents are published rarely, and whoever has
/// just published one wants to see it.
const LIST_TTL_MS: u64 = 5_000;

fn implementation(about: &About) -> Json {
    json!({"name": about.name, "title": about.title, "version": about.version})
}

/// What a service can do, in the words of a revision.
pub(super) fn capabilities(about: &About, revision: ProtocolRevision) -> Json {
    let mut all = json!({"tools": {}});
    for feature in about.features {
        match feature {
            Feature::Resources => all["resources"] = json!({}),
            // From 2026-07-28 on it would be a promise of streams that tell of changes.
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
            // Older revisions would tell of it outside of any request.
            Feature::ListChanges if revision.is_stateless() => all["tools"] = json!({"listChanged": true}),
            Feature::ListChanges => {}
        }
    }
    all
}

/// What `initialize` is answered with.
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

/// What `server/discover` is answered with.
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

/// The names of the revisions that are spoken.
pub(super) fn supported() -> Json {
    ProtocolRevision::ALL.into_iter().map(ProtocolRevision::as_str).collect()
}

/// How long a result may be kept, and by whom: it depends on who asks.
pub(super) fn cacheable() -> [(String, Json); 2] {
    [("ttlMs".to_owned(), LIST_TTL_MS.into()), ("cacheScope".to_owned(), "private".into())]
}

/// A part of a list.
pub(super) fn listed(key: &str, listing: Listing, revision: ProtocolRevision) -> Map<String, Json> {
    let mut items = listing.items;
    if revision != ProtocolRevision::V2025_11_25 {
        // What other revisions do not know.
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

/// A result as it goes out.
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
