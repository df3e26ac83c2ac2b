//! Cache of compiled canvas versions, limited in size.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_core::{CanvasKey, Error, Json, Result};
use weft_dsl::Plan;

type Key = (CanvasKey, Arc<str>);

/// Returns the document without insignificant whitespace. Two texts with the same meaning are one version, and the
/// store's name of the version is that of the plan.
pub(crate) fn compact(dsl: &str) -> Result<String> {
    let refuse = |what: &str| Error::invalid(format!("the canvas {what}"));
    if dsl.len() > weft_dsl::DOCUMENT_BYTES_MAX {
        return Err(refuse("is too large").help(format!("at most {} bytes", weft_dsl::DOCUMENT_BYTES_MAX)));
    }
    // Some editors start files with a byte order mark.
    let json: Json = serde_json::from_str(dsl.trim_start_matches('\u{feff}'))
        .map_err(|cause| refuse("is not JSON").because(cause))?;
    // The response of an API may be a list that contains the canvas.
    let holds_objects = |items: &Vec<Json>| items.iter().any(Json::is_object);
    if !json.is_object() && !json.as_array().is_some_and(holds_objects) {
        return Err(refuse("is not a JSON object"));
    }
    Ok(json.to_string())
}

/// The most recently used plans. A version never changes, so neither does its plan.
pub(crate) struct Plans {
    kept: Mutex<CachedPlans>,
    kept_max: usize,
}

#[derive(Default)]
struct CachedPlans {
    plans: HashMap<Key, CachedPlan>,
    uses: u64,
}

struct CachedPlan {
    plan: Arc<Plan>,
    /// Number of its last use.
    used: u64,
    /// When this process last saved the version, if it has.
    saved_ms: Option<i64>,
}

impl Plans {
    /// Creates a cache for at most `kept_max` plans.
    pub(crate) fn new(kept_max: usize) -> Self {
        Self { kept: Mutex::default(), kept_max: kept_max.max(1) }
    }

    fn lock(&self) -> MutexGuard<'_, CachedPlans> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the plan of a version if it is cached.
    pub(crate) fn get(&self, canvas: &CanvasKey, version: &Arc<str>) -> Option<Arc<Plan>> {
        let mut kept = self.lock();
        kept.uses += 1;
        let now = kept.uses;
        let cached = kept.plans.get_mut(&(canvas.clone(), Arc::clone(version)))?;
        cached.used = now;
        Some(Arc::clone(&cached.plan))
    }

    /// Caches a plan; the least recently used one makes room.
    pub(crate) fn keep(&self, canvas: &CanvasKey, version: &Arc<str>, plan: &Arc<Plan>) {
        let mut kept = self.lock();
        kept.uses += 1;
        let cached = CachedPlan { plan: Arc::clone(plan), used: kept.uses, saved_ms: None };
        kept.plans.insert((canvas.clone(), Arc::clone(version)), cached);
        if kept.plans.len() > self.kept_max {
            // Scanning all of them is cheaper than keeping them ordered, because new plans are rare.
            let oldest = kept.plans.iter().min_by_key(|(_, cached)| cached.used).map(|(key, _)| key.clone());
            oldest.map(|key| kept.plans.remove(&key));
        }
    }

    /// Notes that a version was saved, if its plan is cached.
    pub(crate) fn saved(&self, canvas: &CanvasKey, version: &Arc<str>, at_ms: i64) {
        if let Some(cached) = self.lock().plans.get_mut(&(canvas.clone(), Arc::clone(version))) {
            cached.saved_ms = Some(at_ms);
        }
    }

    /// Returns whether a version with a cached plan has been saved since a time.
    pub(crate) fn is_saved_since(&self, canvas: &CanvasKey, version: &Arc<str>, since_ms: i64) -> bool {
        let kept = self.lock();
        let cached = kept.plans.get(&(canvas.clone(), Arc::clone(version)));
        cached.and_then(|cached| cached.saved_ms).is_some_and(|saved_ms| saved_ms >= since_ms)
    }

    /// Removes the versions of a canvas that was removed.
    pub(crate) fn forget(&self, canvas: &CanvasKey) {
        self.lock().plans.retain(|(key, _), _| key != canvas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::TenantId;

    fn plan() -> Arc<Plan> {
        Arc::new(Plan {
            secrets: Vec::new(),
            version: "v".into(),
            nodes: Vec::new(),
            scopes: Vec::new(),
            by_id: HashMap::new(),
            components: Arc::default(),
            globals: serde_json::Map::new(),
            prologue: String::new(),
            is_pipeline: false,
        })
    }

    #[test]
    fn it_is_known_when_a_version_was_last_saved() {
        let key = CanvasKey::new(&TenantId::new("t"), "c");
        let version: Arc<str> = "a".into();
        let plans = Plans::new(2);
        plans.saved(&key, &version, 7);
        assert!(!plans.is_saved_since(&key, &version, 0), "it is not cached");
        plans.keep(&key, &version, &plan());
        assert!(!plans.is_saved_since(&key, &version, i64::MIN), "another process may have saved it");
        plans.saved(&key, &version, 7);
        assert_eq!([6, 7, 8].map(|since| plans.is_saved_since(&key, &version, since)), [true, true, false]);
    }

    #[test]
    fn the_least_recently_used_plan_is_evicted() {
        let key = CanvasKey::new(&TenantId::new("t"), "c");
        let [a, b, c]: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        let plans = Plans::new(2);
        plans.keep(&key, &a, &plan());
        plans.keep(&key, &b, &plan());
        assert!(plans.get(&key, &a).is_some());
        plans.keep(&key, &c, &plan());
        assert!(plans.get(&key, &b).is_none());
        assert!(plans.get(&key, &a).is_some() && plans.get(&key, &c).is_some());
        let other = CanvasKey::new(&TenantId::new("u"), "c");
        assert!(plans.get(&other, &a).is_none());
        plans.forget(&key);
        assert!(plans.get(&key, &a).is_none());
    }
}
