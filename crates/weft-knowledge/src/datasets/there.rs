//! What of a ranked list can be shown.
//!
//! An index is written after the store, so for moments, and after a crash, it may know of passages that are gone or
//! hidden: these take nobody's place and are not counted. The store is asked for those alone that a page shows, and
//! for the larger passages that some are parts of: one that is gone leaves its parts standing for themselves.
//! Only when one of them is not there it is asked for all.

use std::collections::{HashMap, HashSet};

use weft_core::Result;
use weft_core::id::ChunkId;
use weft_core::seam::dataset_store::ChunkHead;
use weft_core::seam::knowledge::{CANDIDATES_MAX, Expansion, Scored, SearchRequest};

use super::search::SearchSources;
use crate::retrieve::parents;

/// The list as its pages show it. What is on them up to the end of the page that is asked for is there.
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
    // Which passages stand for themselves decides about all pages.
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

/// Whether all of these can be shown, and what is shown in their places.
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

/// The best of a list that can be shown, with what is shown in their place.
pub(super) async fn best(
    parts: SearchSources<'_>,
    list: Vec<Scored>,
    count_max: usize,
) -> Result<Vec<Scored>> {
    let mut there = Vec::new();
    // Some at a time, since the first are mostly enough.
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

/// A passage whose larger one is gone stands for itself.
async fn with_wholes(parts: SearchSources<'_>, list: &mut [Scored]) -> Result<()> {
    let there = heads(parts, list.iter().filter_map(|scored| scored.parent.clone()).collect()).await?;
    for scored in list {
        scored.parent = scored.parent.take().filter(|parent| there.contains_key(parent));
    }
    Ok(())
}
