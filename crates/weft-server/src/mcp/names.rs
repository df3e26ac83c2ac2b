//! Names of tools, built from the titles of agents: letters, digits, `_` and `-`, which every client accepts.

use std::collections::HashSet;

/// Maximum number of characters of a name.
// OpenAI, for one, accepts no longer names of functions.
const CHARS_MAX: usize = 64;
/// Number of characters of an id that distinguish equal names.
const ID_CHARS: usize = 8;

/// Returns a name for each pair of title and id, all different and none of them `taken`. Which one keeps the plain
/// name depends only on those before it, so that later agents do not change earlier names.
pub(super) fn assign<'a>(
    agents: impl Iterator<Item = (&'a str, &'a str)>,
    taken: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut known = HashSet::new();
    let mut free = |name: &String| !taken(name) && known.insert(name.clone());
    let name = |(title, id): (&str, &str)| {
        let plain = slug(title);
        let (short, whole) = (with(&plain, id, ID_CHARS), with(&plain, id, usize::MAX));
        let mut names = [plain, short, whole].into_iter().filter(|name| !name.is_empty());
        names
            .find(|name| free(name))
            .unwrap_or_else(|| format!("agent_{id}").chars().take(CHARS_MAX).collect())
    };
    agents.map(name).collect()
}

/// Keeps the characters of a title that a name may have, and replaces those between by one `_`.
fn slug(title: &str) -> String {
    let mut name = String::new();
    for c in title.chars() {
        if c.is_ascii_alphanumeric() || c == '-' {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        if name.len() >= CHARS_MAX {
            break;
        }
    }
    name.trim_end_matches('_').to_owned()
}

/// Appends the beginning of an id to a name.
fn with(plain: &str, id: &str, id_chars: usize) -> String {
    let plain = if plain.is_empty() { "agent" } else { plain };
    let id: String =
        // Leaves room for `agent_`.
        id.chars().filter(char::is_ascii_alphanumeric).take(id_chars.min(CHARS_MAX - 6)).collect();
    let room = CHARS_MAX.saturating_sub(id.len() + 1);
    let plain: String = plain.chars().take(room).collect();
    format!("{plain}_{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_are_readable_unique_and_stable() {
        let long = "x".repeat(200);
        let agents = [
            ("Stock Research (v2)", "a1b2c3d4e5"),
            ("stock research v2", "ffffffff00"),
            ("股票", "0123456789"),
            ("put canvas", "9999999999"),
            ("put_canvas", "8888888888"),
            (long.as_str(), "1111111111"),
            (long.as_str(), "2222222222"),
        ];
        let names = assign(agents.into_iter(), |name| name == "put_canvas");
        assert_eq!(
            names[..5],
            [
                "stock_research_v2",
                "stock_research_v2_ffffffff",
                "agent_01234567",
                "put_canvas_99999999",
                "put_canvas_88888888"
            ]
        );
        assert!(names.iter().all(|name| name.len() <= CHARS_MAX));
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        // Agents that are added later change no name.
        assert_eq!(assign(agents[..2].iter().copied(), |_| false), names[..2]);
    }

    #[test]
    fn ids_with_the_same_prefix_do_not_conflict() {
        let names =
            assign([("a", "12345678x"), ("a", "12345678y"), ("a", "12345678z")].into_iter(), |_| false);
        assert_eq!(names, ["a", "a_12345678", "a_12345678z"]);
    }
}
