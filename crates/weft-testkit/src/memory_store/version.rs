//! Metadata of canvas versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_core::id::{CanvasKey, TenantId};
use weft_core::seam::VersionStore;
use weft_core::seam::canvas_store::CHAT_TYPE;
use weft_core::seam::version_store::{CanvasVersion, LABELS_MAX, VersionChange, check_label, checked_tags};
use weft_core::{Error, Result, async_trait};

use super::{MemoryStore, StoreTables, missing, page};

impl StoreTables {
    /// The versions of a canvas with the labels that point to them.
    fn versions_of(&self, key: &CanvasKey) -> Vec<CanvasVersion> {
        let at = (key.tenant.clone(), key.id.clone());
        let published = self.canvases.get(&at).and_then(|canvas| canvas.published.clone());
        let ours = self.facts.iter().filter(|((tenant, id, _), _)| (tenant, id) == (&key.tenant, &key.id));
        ours.map(|(_, facts)| {
            let labels = self.labels.iter().filter(|((tenant, id, _), version)| {
                (tenant, id, *version) == (&key.tenant, &key.id, &facts.version)
            });
            let at_ms =
                published.as_ref().filter(|(version, _)| *version == facts.version).map(|(_, at)| *at);
            CanvasVersion {
                labels: labels.map(|((.., label), _)| label.clone()).collect(),
                published_ms: at_ms,
                ..facts.clone()
            }
        })
        .collect()
    }
}

#[async_trait]
impl VersionStore for MemoryStore {
    async fn versions(
        &self,
        canvas: &CanvasKey,
        offset: u64,
        limit: u64,
    ) -> Result<(Vec<CanvasVersion>, u64)> {
        let mut found = self.tables().versions_of(canvas);
        found.sort_by(|a, b| (b.updated_ms, &a.version).cmp(&(a.updated_ms, &b.version)));
        Ok(page(found, offset, limit))
    }

    async fn get_version(&self, canvas: &CanvasKey, version: &str) -> Result<CanvasVersion> {
        let found = self.tables().versions_of(canvas).into_iter().find(|one| *one.version == *version);
        found.ok_or_else(|| missing("version", version))
    }

    async fn describe(
        &self,
        canvas: &CanvasKey,
        version: &str,
        change: &VersionChange,
    ) -> Result<CanvasVersion> {
        let at = (canvas.tenant.clone(), canvas.id.clone(), Arc::from(version));
        if let Some(facts) = self.tables().facts.get_mut(&at) {
            facts.title = change.title.clone().unwrap_or_else(|| facts.title.clone());
            facts.note = change.note.clone().unwrap_or_else(|| facts.note.clone());
        }
        self.get_version(canvas, version).await
    }

    async fn publish(&self, canvas: &CanvasKey, version: &str) -> Result<()> {
        self.get_version(canvas, version).await?;
        let now_ms = self.clock.now_ms();
        let at = (canvas.tenant.clone(), canvas.id.clone());
        let mut tables = self.tables();
        let found = tables.canvases.get_mut(&at).ok_or_else(|| missing("canvas", canvas.id.as_str()))?;
        found.published = Some((Arc::from(version), now_ms));
        Ok(())
    }

    async fn unpublish(&self, canvas: &CanvasKey, version: &str) -> Result<()> {
        let at = (canvas.tenant.clone(), canvas.id.clone());
        if let Some(found) = self.tables().canvases.get_mut(&at) {
            found.published.take_if(|(published, _)| **published == *version);
        }
        Ok(())
    }

    async fn published(&self, canvas: &CanvasKey) -> Result<Option<Arc<str>>> {
        let at = (canvas.tenant.clone(), canvas.id.clone());
        let tables = self.tables();
        let found = tables.canvases.get(&at).ok_or_else(|| missing("canvas", canvas.id.as_str()))?;
        Ok(found.published.as_ref().map(|(version, _)| Arc::clone(version)))
    }

    async fn label(&self, canvas: &CanvasKey, label: &str, version: Option<&str>) -> Result<()> {
        let at = (canvas.tenant.clone(), canvas.id.clone(), label.to_owned());
        let Some(version) = version else {
            return self.tables().labels.remove(&at).map(drop).ok_or_else(|| missing("label", label));
        };
        check_label(label)?;
        self.get_version(canvas, version).await?;
        let mut tables = self.tables();
        let others = tables
            .labels
            .keys()
            .filter(|(tenant, id, name)| (tenant, id) == (&canvas.tenant, &canvas.id) && name != label);
        if others.count() >= LABELS_MAX {
            return Err(Error::invalid("there are too many labels"));
        }
        tables.labels.insert(at, Arc::from(version));
        Ok(())
    }

    async fn labelled(&self, canvas: &CanvasKey, label: &str) -> Result<Arc<str>> {
        let at = (canvas.tenant.clone(), canvas.id.clone(), label.to_owned());
        self.tables().labels.get(&at).cloned().ok_or_else(|| missing("label", label))
    }

    async fn canvas_of(&self, tenant: &TenantId, version: &str) -> Result<CanvasKey> {
        let tables = self.tables();
        let having = tables.facts.iter().filter(|((of, ..), one)| of == tenant && *one.version == *version);
        let newest =
            having.max_by(|(a, one), (b, other)| (one.updated_ms, &b.1).cmp(&(other.updated_ms, &a.1)));
        let ((_, id, _), _) = newest.ok_or_else(|| missing("version", version))?;
        Ok(CanvasKey::new(tenant, id.clone()))
    }

    async fn set_tags(&self, canvas: &CanvasKey, tags: &[String]) -> Result<()> {
        let tags = checked_tags(tags.iter().cloned())?;
        let at = (canvas.tenant.clone(), canvas.id.clone());
        let mut tables = self.tables();
        let found = tables.canvases.get_mut(&at).ok_or_else(|| missing("canvas", canvas.id.as_str()))?;
        found.tags = tags;
        Ok(())
    }

    async fn tags(&self, tenant: &TenantId) -> Result<Vec<String>> {
        let tables = self.tables();
        let ours = tables
            .canvases
            .values()
            .filter(|canvas| canvas.key.tenant == *tenant && canvas.head.canvas_type != CHAT_TYPE);
        let mut tags = BTreeMap::new();
        for tag in ours.flat_map(|canvas| &canvas.tags) {
            tags.entry(tag.to_lowercase()).or_insert_with(|| tag.clone());
        }
        Ok(tags.into_values().collect())
    }
}
