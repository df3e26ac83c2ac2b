//! Summaries of summaries, up to one of the whole document.

use std::collections::BTreeSet;

use weft_agent::window::cut;
use weft_core::{Json, Result};

use super::asker::{TemplateAsker, TemplateNotes, TemplateQuestion, reason};
use super::kind::TemplateKind;
use super::knowledge::{Collected, CompiledItem, Knowledge};
use super::templates::CompilationTemplate;

/// Maximum number of summaries that are summarised together.
// They share the room of one question: with more of them, too little of each would be left.
const TOGETHER_MAX: usize = 6;

/// Returns the number of questions needed to summarise this number of parts: one for each, and those of the levels
/// above, up to the whole document.
pub(super) fn questions(parts: usize) -> usize {
    let (mut level, mut all) = (parts, parts);
    while level > 1 {
        level = level.div_ceil(TOGETHER_MAX);
        all = all.saturating_add(level);
    }
    all
}

/// Adds the summaries above those of the parts. Adjacent parts are summarised together, so that each summary covers a
/// contiguous stretch of the document. If the model does not write one, it is missing, and those below it stand alone.
///
/// # Errors
/// As [`TemplateAsker::each`].
pub(super) async fn grow(
    asker: &TemplateAsker<'_>,
    part: &str,
    template: &CompilationTemplate,
    knowledge: &mut Knowledge,
    notes: &mut TemplateNotes<'_>,
) -> Result<()> {
    let form = TemplateQuestion::of_summaries(template)?;
    let items = &mut knowledge.items;
    let mut level: Vec<usize> = (0..items.len()).collect();
    let mut height = 1;
    // Terminates, because each level is smaller than the one below it.
    while level.len() > 1 {
        // Groups of about equal size: a remainder of one would be summarized alone.
        let size = level.len().div_ceil(level.len().div_ceil(TOGETHER_MAX));
        let groups: Vec<Vec<usize>> = level.chunks(size).map(<[usize]>::to_vec).collect();
        let texts = groups.iter().map(|group| together(items, group, asker.room())).collect();
        let answers = asker.each(&format!("{part}-level-{height}"), &form, texts).await?;
        let mut above = Vec::new();
        for (group, answer) in groups.iter().zip(answers) {
            match answer {
                Ok(answer) => above.extend(put(items, group, &answer)),
                Err(error) => {
                    notes.missing(&format!("a summary of {} others: {}", group.len(), reason(&error)));
                }
            }
        }
        level = above;
        height += 1;
    }
    Ok(())
}

/// Formats the summaries of a group for the model.
fn together(items: &[CompiledItem], group: &[usize], room: usize) -> String {
    let mut text = String::new();
    for item in group.iter().filter_map(|at| items.get(*at)) {
        text.push_str(&item.name);
        text.push('\n');
        text.push_str(cut(&item.description, room / TOGETHER_MAX));
        text.push_str("\n\n");
    }
    text
}

/// Adds a summary above a group; returns its index.
fn put(items: &mut Vec<CompiledItem>, group: &[usize], answer: &Json) -> Option<usize> {
    let sources: BTreeSet<usize> =
        group.iter().filter_map(|at| items.get(*at)).flat_map(|item| &item.sources).copied().collect();
    let mut read = Collected::new(TemplateKind::Tree);
    read.add(answer, &sources);
    let mut summary = read.finish().items.into_iter().next()?;
    let at = items.len();
    summary.key = at.to_string();
    // A summary rests on everything below it, whichever sources the model names.
    summary.sources = sources;
    for below in group {
        let item = items.get_mut(*below)?;
        item.under.clone_from(&summary.key);
        item.parent.clone_from(&summary.name);
    }
    items.push(summary);
    Some(at)
}
