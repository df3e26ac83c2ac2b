//! Selects what can be shown of a ranked list.
//!
//! An index is written after the store, so for a moment, and after a crash, it may contain passages that have
//! been removed or hidden: these take no other passage's place and are not counted. The store is only asked
//! about the passages on the requested page, and about the larger passages that some are parts of: if a
//! larger one is gone, its parts stand for themselves. Only if one of them is missing is the store asked
//! about all.

use std::collections::{HashMap, HashSet};

use weft_core::Result;
use weft_core::id::ChunkId;
use weft_core::seam::dataset_store::ChunkHead;
use weft_core::seam::knowledge::{CANDIDATES_MAX, Expansion, Scored, SearchRequest};

use super::sources::SearchSources;
use crate::retrieve::parents;

/// Returns the list as its pages show it. Everything up to the end of the requested page is known to exist.
pub(super) async fn shown(
    parts: SearchSources<'_>,
    mut list: Vec<Scored>,
    request: &SearchRequest,
) -> Result<Vec<Scored>> {
    let end = request.offset.saturating_add(request.limit);
    let first: Vec<Scored> = list.iter().take(CANDIDATES_MAX).cloned().collect();
    let pages = given(first, request.given);
    let page: HashSet<&ChunkId> = pages.iter().take(end).map(|scored| &scored.chunk).collect();
    let on_page = |scored: &&Scored| {
        page.contains(&scored.chunk) || scored.parent.as_ref().is_some_and(|parent| page.contains(parent))
    };
    let best_of_all = || list.iter().take(CANDIDATES_MAX);
    let needed: Vec<&Scored> = best_of_all().filter(on_page).collect();
    // Which passages stand for themselves affects all pages.
    let wholes = best_of_all().filter_map(|scored| scored.parent.as_ref()).collect();
    if are_all(parts, &needed, wholes).await? {
        return Ok(pages);
    }
    list = best(parts, list, CANDIDATES_MAX).await?;
    with_wholes(parts, &mut list).await?;
    Ok(given(list, request.given))
}

fn given(list: Vec<Scored>, given: Expansion) -> Vec<Scored> {
    match given {
        Expansion::Parents => parents::substituted(&list),
        Expansion::Children => list,
    }
}

/// Whether all of these, and what is shown in their places, can be shown.
async fn are_all(parts: SearchSources<'_>, list: &[&Scored], wholes: HashSet<&ChunkId>) -> Result<bool> {
    let needed = list.iter().map(|scored| &scored.chunk).chain(wholes.iter().copied()).cloned().collect();
    let heads = heads(parts, needed).await?;
    let as_known = |scored: &&Scored| {
        let head = heads.get(&scored.chunk);
        head.is_some_and(|head| can_be_shown(head, scored) && head.parent == scored.parent)
    };
    Ok(list.iter().all(as_known) && wholes.iter().all(|whole| heads.contains_key(*whole)))
}

fn can_be_shown(head: &ChunkHead, scored: &Scored) -> bool {
    head.available && head.document.dataset.id == scored.dataset
}

async fn heads(parts: SearchSources<'_>, ids: HashSet<ChunkId>) -> Result<HashMap<ChunkId, ChunkHead>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<ChunkId> = ids.into_iter().collect();
    let heads = parts.store.chunk_heads(parts.tenant, &ids).await?;
    Ok(heads.into_iter().map(|head| (head.id.clone(), head)).collect())
}

/// Returns the best entries of a list that can be shown, with what is shown in their place.
pub(super) async fn best(
    parts: SearchSources<'_>,
    list: Vec<Scored>,
    count_max: usize,
) -> Result<Vec<Scored>> {
    let mut there = Vec::new();
    // In batches, since the first one is usually enough.
    for some in list.chunks(CANDIDATES_MAX) {
        let mut heads = heads(parts, some.iter().map(|scored| scored.chunk.clone()).collect()).await?;
        for scored in some {
            let shown = heads.remove(&scored.chunk).filter(|head| can_be_shown(head, scored));
            there.extend(shown.map(|head| Scored { parent: head.parent, ..scored.clone() }));
        }
        if there.len() >= count_max {
            break;
        }
    }
    there.truncate(count_max);
    Ok(there)
}

/// Lets passages whose larger passage is gone stand for themselves.
async fn with_wholes(parts: SearchSources<'_>, list: &mut [Scored]) -> Result<()> {
    let there = heads(parts, list.iter().filter_map(|scored| scored.parent.clone()).collect()).await?;
    for scored in list {
        scored.parent = scored.parent.take().filter(|parent| there.contains_key(parent));
    }
    Ok(())
}
