//! In-memory canvases.

use std::sync::Arc;

use weft_core::id::{CanvasId, CanvasKey, TenantId};
use weft_core::seam::canvas_store::{
    CHAT_TYPE, CanvasFilter, CanvasHead, CanvasOrder, CanvasStore, PIPELINE_TYPE, StoredCanvas,
};
use weft_core::seam::version_store::CanvasVersion;
use weft_core::{Result, async_trait};

use super::{MemoryStore, StoreTables, conflict, hash, missing, page};

impl StoreTables {
    fn put_canvas(
        &mut self,
        key: &CanvasKey,
        (head, dsl): (&CanvasHead, &str),
        now: i64,
    ) -> Result<StoredCanvas> {
        let folded = head.title.to_lowercase();
        let taken = self.canvases.values().any(|other| {
            other.key.tenant == key.tenant
                && other.key.id != key.id
                && other.head.title.to_lowercase() == folded
        });
        if taken {
            return Err(conflict(format!("another canvas has the title `{}`", head.title)));
        }
        let at = (key.tenant.clone(), key.id.clone());
        let before = self.canvases.get(&at);
        let created_ms = before.map_or(now, |before| before.created_ms);
        let tags = before.map(|before| before.tags.clone()).unwrap_or_default();
        let published = before.and_then(|before| before.published.clone());
        let revision = before.map_or(0, |before| before.revision + 1);
        let canvas = StoredCanvas {
            key: key.clone(),
            head: head.clone(),
            version: hash(dsl),
            dsl: dsl.into(),
            revision,
            created_ms,
            updated_ms: now,
            tags,
            published,
        };
        let version = (at.0.clone(), at.1.clone(), Arc::clone(&canvas.version));
        let facts = self.facts.entry(version.clone()).or_insert_with(|| CanvasVersion {
            version: Arc::clone(&canvas.version),
            title: String::new(),
            note: String::new(),
            created_ms: now,
            updated_ms: now,
            published_ms: None,
            labels: Vec::new(),
        });
        facts.updated_ms = now;
        self.versions.insert(version, Arc::clone(&canvas.dsl));
        self.canvases.insert(at, canvas.clone());
        Ok(canvas)
    }
}

#[async_trait]
impl CanvasStore for MemoryStore {
    async fn put(&self, key: &CanvasKey, head: &CanvasHead, dsl: &str) -> Result<StoredCanvas> {
        let now = self.clock.now_ms();
        self.tables().put_canvas(key, (head, dsl), now)
    }

    async fn change(
        &self,
        seen: &StoredCanvas,
        head: &CanvasHead,
        dsl: &str,
    ) -> Result<Option<StoredCanvas>> {
        let now = self.clock.now_ms();
        let mut tables = self.tables();
        let there = tables.canvases.get(&(seen.key.tenant.clone(), seen.key.id.clone()));
        if there.is_none_or(|there| there.revision != seen.revision) {
            return Ok(None);
        }
        tables.put_canvas(&seen.key, (head, dsl), now).map(Some)
    }

    async fn get(&self, key: &CanvasKey) -> Result<StoredCanvas> {
        let at = (key.tenant.clone(), key.id.clone());
        let found = self.tables().canvases.get(&at).cloned();
        // Like a store on disk: other tasks run before the result arrives.
        tokio::task::yield_now().await;
        found.ok_or_else(|| missing("canvas", key.id.as_str()))
    }

    async fn tenant_of(&self, id: &CanvasId) -> Result<Option<TenantId>> {
        let tables = self.tables();
        let named = tables.canvases.values().filter(|canvas| canvas.key.id == *id);
        let first = named.min_by(|a, b| (a.created_ms, &a.key.tenant).cmp(&(b.created_ms, &b.key.tenant)));
        Ok(first.map(|canvas| canvas.key.tenant.clone()))
    }

    async fn version(&self, key: &CanvasKey, version: &str) -> Result<Arc<str>> {
        let at = (key.tenant.clone(), key.id.clone(), version.into());
        self.tables().versions.get(&at).cloned().ok_or_else(|| missing("version", version))
    }

    async fn list(&self, tenant: &TenantId, filter: &CanvasFilter) -> Result<(Vec<StoredCanvas>, u64)> {
        let keywords = filter.keywords.to_lowercase();
        let mut found: Vec<_> = self
            .tables()
            .canvases
            .values()
            .filter(|c| {
                let title = c.head.title.to_lowercase();
                c.key.tenant == *tenant
                    && filter.id.as_ref().is_none_or(|id| *id == c.key.id)
                    && filter.title.as_ref().is_none_or(|wanted| wanted.to_lowercase() == title)
                    && title.contains(&keywords)
                    && c.head.canvas_type != CHAT_TYPE
                    && (filter.tags.is_empty()
                        || filter.tags.iter().any(|tag| {
                            c.tags.iter().any(|own| own.to_lowercase() == tag.trim().to_lowercase())
                        }))
                    && filter.pipelines.is_none_or(|are| are == (c.head.canvas_type == PIPELINE_TYPE))
            })
            .map(|c| StoredCanvas { dsl: "".into(), ..c.clone() })
            .collect();
        found.sort_by(|a, b| {
            let by = match filter.order {
                CanvasOrder::Updated => a.updated_ms.cmp(&b.updated_ms),
                CanvasOrder::Created => a.created_ms.cmp(&b.created_ms),
                CanvasOrder::Title => a.head.title.to_lowercase().cmp(&b.head.title.to_lowercase()),
            };
            by.then_with(|| a.key.id.cmp(&b.key.id))
        });
        if !filter.ascending {
            found.reverse();
        }
        Ok(page(found, filter.offset, filter.limit))
    }

    async fn delete(&self, key: &CanvasKey) -> Result<()> {
        let mut tables = self.tables();
        let at = (key.tenant.clone(), key.id.clone());
        tables.canvases.remove(&at).ok_or_else(|| missing("canvas", key.id.as_str()))?;
        tables.versions.retain(|(tenant, canvas, _), _| *tenant != key.tenant || *canvas != key.id);
        tables.facts.retain(|(tenant, canvas, _), _| *tenant != key.tenant || *canvas != key.id);
        tables.labels.retain(|(tenant, canvas, _), _| *tenant != key.tenant || *canvas != key.id);
        tables.sessions.retain(|_, c| c.session.key.tenant != key.tenant || c.session.canvas != key.id);
        tables.drop_homeless_tasks();
        tables.runs.retain(|_, j| j.run.key.tenant != key.tenant || j.run.canvas != key.id);
        tables.schedules.retain(|_, s| s.key.tenant != key.tenant || s.canvas != key.id);
        tables
            .work
            .retain(|(tenant, _), queued| *tenant != key.tenant || queued.stored.work.canvas != key.id);
        Ok(())
    }
}
