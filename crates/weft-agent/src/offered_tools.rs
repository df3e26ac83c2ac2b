//! The tools that a request offers.

use std::collections::HashSet;
use std::sync::Arc;

use weft_core::tool::{Purpose, Tool};

use crate::used::Used;

/// Maximum number of found tools that are offered at the same time: those found or called last.
// Beyond a few dozen, models choose worse, and each definition costs tokens in every request.
const ON_OFFER_MAX: usize = 40;

/// Whether the provider withholds the definitions of these tools until the model has found them.
pub fn found_by_provider(tools: &[Arc<Tool>]) -> bool {
    tools.iter().any(|tool| tool.traits.purpose == Purpose::LeavesFindingToProvider)
}

/// The tools that a request offers: all of them, or those that were found or called when our own search is used. The
/// tool that reads long results is offered when there are any. `used` are the calls so far.
pub fn on_offer(tools: Vec<Arc<Tool>>, used: &[Used]) -> Vec<Arc<Tool>> {
    let has_long = used.iter().any(|call| call.file.is_some());
    let searches = tools.iter().find(|tool| tool.traits.purpose == Purpose::FindsTools).cloned();
    let known = searches.map(|search| found(&search.name, used));
    let scripted = tools.iter().any(|tool| tool.traits.purpose == Purpose::RunsScripts);
    let wanted = |tool: &Arc<Tool>| match tool.traits.purpose {
        // Scripts call them by name; their definitions would fill the prompt that scripts are meant to keep short.
        Purpose::Work if scripted => false,
        Purpose::Work => known.as_ref().is_none_or(|known| known.contains(tool.name.as_str())),
        // The provider's search is not a definition; it indicates that the others have to be found.
        Purpose::FindsTools | Purpose::LeavesFindingToProvider | Purpose::RunsScripts => true,
        Purpose::ReadsResults => has_long,
    };
    tools.into_iter().filter(wanted).collect()
}

/// The names of the tools that were found or called last.
fn found<'a>(search: &str, used: &'a [Used]) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    // From the last call backwards: when there is no room for all, tools found long ago are dropped.
    for call in used.iter().rev() {
        let listed = call.results["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of_search = if call.name == search { listed } else { &[] };
        let own = (call.name != search).then_some(call.name.as_str());
        for name in of_search.iter().filter_map(|tool| tool["name"].as_str()).chain(own) {
            if names.len() < ON_OFFER_MAX {
                names.insert(name);
            }
        }
    }
    names
}
