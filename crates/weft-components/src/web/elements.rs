//! Finds parts of a web page by their class or tag, in one pass and without a tree: pages of search engines consist of
//! a few repeated kinds of parts. A part that is misread costs some text, but never time.

use super::page::{attributes, name};

/// Maximum number of parts in a page.
// Services return a hundred hits at most; a page with more was not made by one.
const PARTS_MAX: usize = 500;
/// Maximum number of characters in an entity such as `&hellip;`.
const ENTITY_MAX: usize = 10;
/// Named entities that occur in titles and texts.
const ENTITIES: [(&str, &str); 18] = [
    ("amp", "&"),
    ("apos", "'"),
    ("copy", "©"),
    ("gt", ">"),
    ("hellip", "…"),
    ("laquo", "«"),
    ("ldquo", "“"),
    ("lsquo", "‘"),
    ("lt", "<"),
    ("mdash", "—"),
    ("middot", "·"),
    ("nbsp", " "),
    ("ndash", "–"),
    ("quot", "\""),
    ("raquo", "»"),
    ("rdquo", "”"),
    ("reg", "®"),
    ("rsquo", "’"),
];

/// A part of a page: the attributes of its tag, and its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagePart<'p> {
    attributes: &'p str,
    inner: &'p str,
}

/// Returns the parts with this class, in their order; none is within another.
pub(crate) fn with_class<'p>(page: &'p str, class: &str) -> Vec<PagePart<'p>> {
    let wanted = |part: &PagePart<'p>| {
        part.attribute("class").is_some_and(|all| all.split_whitespace().any(|one| one == class))
    };
    parts(page, |_, part| wanted(part))
}

/// Returns the parts with this tag, in their order; none is within another.
pub(crate) fn with_tag<'p>(page: &'p str, tag: &str) -> Vec<PagePart<'p>> {
    parts(page, |name, _| name == tag)
}

fn parts<'p>(page: &'p str, wanted: impl Fn(&str, &PagePart<'p>) -> bool) -> Vec<PagePart<'p>> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((tag, attributes, behind)) = next_tag(rest) {
        rest = behind;
        let mut part = PagePart { attributes, inner: "" };
        if tag.starts_with('/') || !wanted(&tag, &part) {
            continue;
        }
        (part.inner, rest) = until_closed(behind, &tag);
        found.push(part);
        if found.len() >= PARTS_MAX {
            break;
        }
    }
    found
}

/// Returns the next tag: its name, prefixed with `/` if it is an end tag; its attributes; and what follows it.
fn next_tag(page: &str) -> Option<(String, &str, &str)> {
    let mut rest = page;
    loop {
        let (_, behind) = rest.split_once('<')?;
        let (slash, tag) = behind.strip_prefix('/').map_or(("", behind), |tag| ("/", tag));
        if let Some(comment) = behind.strip_prefix("!--") {
            rest = comment.split_once("-->")?.1;
            continue;
        }
        if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
            rest = behind;
            continue;
        }
        let (name, more) = name(tag);
        let (attributes, behind) = attributes(more);
        return Some((format!("{slash}{name}"), attributes, behind));
    }
}

/// Returns what precedes the end tag of `tag`, and what follows it.
fn until_closed<'p>(page: &'p str, tag: &str) -> (&'p str, &'p str) {
    let closing = format!("/{tag}");
    let mut open = 1_usize;
    let mut rest = page;
    while let Some((name, _, behind)) = next_tag(rest) {
        if name == closing {
            open -= 1;
        } else if name == tag {
            open += 1;
        }
        if open == 0 {
            // The tag ends where `behind` begins, and begins at its own `<`.
            let before = &page[..page.len() - behind.len()];
            return (before.rfind('<').map_or(before, |start| &before[..start]), behind);
        }
        rest = behind;
    }
    (page, "")
}

impl<'p> PagePart<'p> {
    /// Returns its content, as written.
    pub(crate) fn inner(&self) -> &'p str {
        self.inner
    }

    /// Returns the value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
            let end = rest.find(|c: char| c.is_whitespace() || c == '=')?;
            let (found, behind) = rest.split_at(end);
            let Some(value) = behind.trim_start().strip_prefix('=') else {
                rest = behind;
                continue;
            };
            let value = value.trim_start();
            let (value, behind) = match value.chars().next() {
                Some(quote @ ('"' | '\'')) => value[1..].split_once(quote)?,
                _ => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
            };
            if found.eq_ignore_ascii_case(name) {
                return Some(plain(value));
            }
            rest = behind;
        }
    }

    /// Returns its content as text on one line.
    pub(crate) fn text(&self) -> String {
        text(self.inner)
    }
}

/// Returns a piece of a page as text on one line, without its tags.
pub(crate) fn text(page: &str) -> String {
    let mut kept = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, behind)) = rest.split_once('<') {
        kept.push_str(before);
        let is_tag = behind.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
        if !is_tag {
            kept.push('<');
            rest = behind;
            continue;
        }
        // Words in two cells or lines are separate words; a part of a word that is only set in bold is not.
        let (tag, _) = name(behind.trim_start_matches('/'));
        if !matches!(tag.as_str(), "b" | "i" | "em" | "strong" | "span" | "a" | "mark") {
            kept.push(' ');
        }
        rest = attributes(behind).1;
    }
    kept.push_str(rest);
    plain(&kept).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces the entities of a text by the characters they stand for.
fn plain(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('&') {
        kept.push_str(before);
        // Searched for nearby only: otherwise, in a long text of bare `&`, each search would run to the end of the
        // text.
        let end = behind.char_indices().take(ENTITY_MAX).find(|(_, c)| *c == ';').map(|(end, _)| end);
        match end.and_then(|end| Some((entity(&behind[..end])?, &behind[end + 1..]))) {
            Some((meant, after)) => {
                kept.push_str(&meant);
                rest = after;
            }
            None => {
                kept.push('&');
                rest = behind;
            }
        }
    }
    kept.push_str(rest);
    kept
}

fn entity(name: &str) -> Option<String> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return char::from_u32(code.ok()?).map(String::from);
    }
    ENTITIES.iter().find(|(found, _)| *found == name).map(|(_, meant)| (*meant).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_are_found_by_class_and_tag() {
        let page = "<!-- <a class='hit'>no</a> --><div class=\"x hit\" data-n=1><div>in&amp;side <b>b</b>old</div><br>\
                    next</div><a CLASS=hit href='/l?u=a&amp;b'>T &lt; &#8230; &nope;</a><p class='hits'>no</p>";
        let found = with_class(page, "hit");
        let texts: Vec<String> = found.iter().map(PagePart::text).collect();
        assert_eq!(texts, ["in&side bold next", "T < … &nope;"]);
        assert_eq!(found[1].attribute("href").as_deref(), Some("/l?u=a&b"));
        assert_eq!(found[0].attribute("data-n").as_deref(), Some("1"));
        assert_eq!(found[0].attribute("href"), None);
        assert_eq!(with_tag(page, "p")[0].inner(), "no");
        assert_eq!(with_class("<i class=a>never closed", "a")[0].inner(), "never closed");
    }

    proptest! {
        #[test]
        fn no_page_breaks_the_search(page in "(<[a-z/]{1,3}( class=[\"']?a[\"']?)?>?|[\"'<>&;#=a é汉]){0,120}") {
            for part in with_class(&page, "a") {
                drop((part.text(), part.attribute("href")));
            }
            drop(with_tag(&page, "a"));
        }
    }
}
