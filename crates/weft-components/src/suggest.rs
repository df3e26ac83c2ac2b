//! Suggestions for unknown names.

/// Names of at most this many letters are too short for a suggestion.
// Two typos in three letters turn any word into any other.
const SHORT: usize = 3;
/// Number of letters that may be wrong.
pub(crate) const SLIPS_MAX: usize = 2;

/// Returns a question that suggests the nearest known name, if one is near.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|known| format!("did you mean `{known}`?"))
}

/// Returns the nearest known name, if one is near: one or two typos, or different capitalisation.
fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let slips = |known: &str| strsim::osa_distance(&lower, &known.to_lowercase());
    let near = known.into_iter().map(|known| (slips(known), known));
    let near =
        near.filter(|(slips, known)| *slips == 0 || *slips <= SLIPS_MAX && known.len() > SHORT + slips);
    near.min_by_key(|(slips, _)| *slips).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(nearest(name, ["approval", "poll", "alone", "Calculator"]), expected, "{name}");
        };
        check("aproval", Some("approval"));
        check("calculater", Some("Calculator"));
        check("APPROVAL", Some("approval"));
        check("pol", None);
        check("name", None);
        check("inputSchema", None);
    }
}
