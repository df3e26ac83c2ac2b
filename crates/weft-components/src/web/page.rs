//! Reduces a web page before a tree is built of it.
//!
//! A page can be written so that a standards-compliant parser works on it for hours: tags nested without end, bold text
//! that is never closed, one tag with a million attributes. A single pass therefore removes what is not needed: a few
//! kinds of tags remain, nested up to a limit, closed in order, and without attributes except for the address of a
//! link. A tag that is misread costs some text, but never time.

use url::Url;

/// Maximum nesting depth of tags; deeper tags are dropped, and their text is kept.
// The conversion to text recurses once per level, on a stack that cannot grow.
const DEPTH_MAX: usize = 50;

/// Tags whose content is not text.
const SILENT: [&str; 9] =
    ["iframe", "noembed", "noframes", "object", "script", "style", "svg", "template", "title"];
/// Tags that matter to the text, and the tags that replace them.
const KEPT: [(&str, &str); 43] = [
    ("a", "a"),
    ("article", "div"),
    ("aside", "div"),
    ("b", "b"),
    ("blockquote", "blockquote"),
    ("br", "br"),
    ("code", "code"),
    ("dd", "dd"),
    ("div", "div"),
    ("dl", "dl"),
    ("dt", "dt"),
    ("em", "em"),
    ("fieldset", "div"),
    ("footer", "div"),
    ("form", "div"),
    ("h1", "h1"),
    ("h2", "h2"),
    ("h3", "h3"),
    ("h4", "h4"),
    ("h5", "h5"),
    ("h6", "h6"),
    ("header", "div"),
    ("hr", "hr"),
    ("i", "i"),
    ("li", "li"),
    ("main", "div"),
    ("nav", "div"),
    ("ol", "ol"),
    ("optgroup", "div"),
    // Its end tag is often left out; the next option ends it.
    ("option", "p"),
    ("p", "p"),
    ("pre", "pre"),
    ("section", "div"),
    ("select", "div"),
    ("strong", "strong"),
    ("table", "table"),
    ("tbody", "tbody"),
    ("td", "td"),
    ("textarea", "div"),
    ("th", "th"),
    ("thead", "thead"),
    ("tr", "tr"),
    ("ul", "ul"),
];

/// Tags whose end tag is always written, so that their content can be skipped if it is hidden.
const ENDED: [&str; 20] = [
    "a", "article", "aside", "b", "div", "fieldset", "footer", "form", "h1", "h2", "h3", "header", "i",
    "main", "nav", "ol", "section", "span", "table", "ul",
];

/// Schemes of links that a reader can follow.
const SCHEMES: [&str; 5] = ["http", "https", "mailto", "tel", "ftp"];

/// Returns the page with only what matters to its text. If the page's address is known, its links are made absolute;
/// links that are programs or data lose their address.
pub(super) fn reduced(page: &str, address: Option<Url>) -> String {
    let mut pass = Pass {
        rest: page,
        kept: String::with_capacity(page.len() / 2),
        open: Vec::new(),
        address,
        ends: true,
    };
    while let Some(place) = pass.rest.find('<') {
        let (text, tag) = pass.rest.split_at(place);
        pass.text(text);
        pass.rest = tag;
        pass.tag();
    }
    pass.text(pass.rest);
    while let Some(name) = pass.open.pop() {
        pass.close(name);
    }
    pass.kept
}

struct Pass<'a> {
    rest: &'a str,
    kept: String,
    open: Vec<&'static str>,
    /// Base of relative links.
    address: Option<Url>,
    /// Whether every hidden tag had an end so far. The search for it covers all of the rest, so one failure is enough.
    ends: bool,
}

impl Pass<'_> {
    fn text(&mut self, text: &str) {
        self.kept.push_str(&text.replace('>', "&gt;"));
    }

    /// Returns the target of a link.
    fn led_to(&self, link: &str) -> Option<String> {
        // A place on the page itself needs no address.
        let own = link.trim_start().starts_with('#');
        let whole = self.address.as_ref().filter(|_| !own).and_then(|address| address.join(link).ok());
        let scheme = match &whole {
            Some(url) => Some(url.scheme().to_owned()),
            None => Url::parse(link).ok().map(|url| url.scheme().to_owned()),
        };
        if scheme.is_some_and(|scheme| !SCHEMES.contains(&scheme.as_str())) {
            return None;
        }
        Some(whole.map_or_else(|| link.to_owned(), String::from))
    }

    fn close(&mut self, name: &str) {
        self.kept.push_str("</");
        self.kept.push_str(name);
        self.kept.push('>');
    }

    /// Handles what begins with `<`.
    fn tag(&mut self) {
        let after = self.rest.get(1..).unwrap_or_default();
        if let Some(comment) = after.strip_prefix("!--") {
            self.rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
        } else if after.starts_with(['!', '?']) {
            self.rest = after.split_once('>').map_or("", |(_, rest)| rest);
        } else if let Some(closing) = after.strip_prefix('/') {
            let (name, rest) = name(closing);
            self.rest = rest.split_once('>').map_or("", |(_, rest)| rest);
            self.closing(&name);
        } else if after.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let (name, rest) = name(after);
            let (attributes, rest) = attributes(rest);
            self.rest = rest;
            self.opening(&name, attributes);
        } else {
            // The parser that follows would take it for the start of a tag.
            self.kept.push_str("&lt;");
            self.rest = after;
        }
    }

    fn closing(&mut self, name: &str) {
        let Some(name) = kept(name) else { return };
        let Some(place) = self.open.iter().rposition(|open| *open == name) else { return };
        // Tags opened inside it and never closed end with it.
        for name in self.open.split_off(place).into_iter().rev() {
            self.close(name);
        }
    }

    /// Adds the alternative text of a picture: often the only text of a link around it.
    fn picture(&mut self, attributes: &str) {
        let words = attribute(attributes, "alt").unwrap_or_default().trim();
        if !words.is_empty() {
            self.kept.push(' ');
            self.text(&words.replace('<', "&lt;"));
            self.kept.push(' ');
        }
    }

    fn opening(&mut self, name: &str, attributes: &str) {
        if SILENT.contains(&name) {
            // In HTML, of these tags only a drawing may end within itself: it has no end tag then.
            if name != "svg" || !attributes.ends_with('/') {
                self.rest = after_end(self.rest, name);
            }
            return;
        }
        if self.ends && ENDED.contains(&name) && is_hidden(attributes) {
            match after_own_end(self.rest, name) {
                Some(rest) => {
                    self.rest = rest;
                    return;
                }
                None => self.ends = false,
            }
        }
        if let (Some(address), "base", Some(base)) = (&self.address, name, href(attributes)) {
            self.address = address.join(base).ok().or_else(|| self.address.clone());
        }
        if name == "img" {
            self.picture(attributes);
            return;
        }
        let Some(name) = kept(name) else { return };
        let empty = matches!(name, "br" | "hr");
        // Each of these tags ends the previous one of its kind, even without an end tag.
        if matches!(name, "p" | "li" | "td" | "th" | "tr" | "dd" | "dt") && self.open.last() == Some(&name) {
            self.open.pop();
            self.close(name);
        }
        if !empty && self.open.len() >= DEPTH_MAX {
            return;
        }
        self.kept.push('<');
        self.kept.push_str(name);
        let link = Some(name).filter(|name| *name == "a").and_then(|_| href(attributes));
        if let Some(address) = link.and_then(|link| self.led_to(link)) {
            self.kept.push_str(" href=\"");
            self.kept.push_str(&address.replace('"', "%22").replace('<', "%3C"));
            self.kept.push('"');
        }
        self.kept.push('>');
        if !empty {
            self.open.push(name);
        }
    }
}

fn kept(name: &str) -> Option<&'static str> {
    KEPT.iter().find(|(found, _)| *found == name).map(|(_, stands)| *stands)
}

/// Returns a tag's name and what follows it.
pub(super) fn name(text: &str) -> (String, &str) {
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '/' | '>' | '<')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    // No known tag has a longer name.
    (name.chars().take(16).collect::<String>().to_ascii_lowercase(), rest)
}

/// Returns a tag's attributes and what follows the tag.
pub(super) fn attributes(text: &str) -> (&str, &str) {
    let mut quote = None;
    for (place, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return (&text[..place], &text[place + 1..]),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    (text, "")
}

/// Returns the address of a link.
fn href(attributes: &str) -> Option<&str> {
    /// Maximum number of bytes in an address.
    const ADDRESS_MAX: usize = 2_000;
    attribute(attributes, "href").filter(|address| address.len() <= ADDRESS_MAX)
}

/// Returns the raw value of one of a tag's attributes.
fn attribute<'a>(attributes: &'a str, wanted: &str) -> Option<&'a str> {
    named_values(attributes)
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
        .find_map(|(_, value)| value)
}

/// Iterates over a tag's attributes: each name, with its value if it has one.
fn named_values(attributes: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let between = |c: char| c.is_whitespace() || matches!(c, '/' | '=');
    let mut rest = attributes;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(between);
        if rest.is_empty() {
            return None;
        }
        let (name, behind) = rest.split_at(rest.find(between).unwrap_or(rest.len()));
        let Some(given) = behind.trim_start().strip_prefix('=') else {
            rest = behind;
            return Some((name, None));
        };
        let given = given.trim_start();
        let (value, behind) = match given.chars().next() {
            Some(quote @ ('"' | '\'')) => given[1..].split_once(quote).unwrap_or((&given[1..], "")),
            _ => given.split_at(given.find(char::is_whitespace).unwrap_or(given.len())),
        };
        rest = behind;
        Some((name, Some(value)))
    })
}

/// Returns what follows the end of a tag whose content is skipped.
fn after_end<'a>(text: &'a str, tag: &str) -> &'a str {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("</") {
        let (found, behind) = name(after);
        if found == tag {
            return behind.split_once('>').map_or("", |(_, rest)| rest);
        }
        rest = after;
    }
    ""
}

/// Returns what follows the end of a tag that may contain others of its name.
fn after_own_end<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let mut rest = text;
    let mut deep = 1_usize;
    while let Some((_, after)) = rest.split_once('<') {
        let closing = after.strip_prefix('/');
        let (found, behind) = name(closing.unwrap_or(after));
        if found != tag {
            rest = after;
            continue;
        }
        rest = attributes(behind).1;
        deep = if closing.is_some() { deep - 1 } else { deep + 1 };
        if deep == 0 {
            return Some(rest);
        }
    }
    None
}

/// Whether a tag's attributes hide its content.
fn is_hidden(attributes: &str) -> bool {
    named_values(attributes).any(|(name, value)| {
        let says = |wanted: &str| {
            let value = value.unwrap_or_default().to_ascii_lowercase();
            value.replace(char::is_whitespace, "").contains(wanted)
        };
        match name.to_ascii_lowercase().as_str() {
            "hidden" => !says("until-found"),
            "style" => says("display:none") || says("visibility:hidden"),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::reduced;
    use proptest::prelude::*;
    use url::Url;

    #[test]
    fn the_main_content_is_kept() {
        let check = |page: &str, expected: &str| assert_eq!(reduced(page, None), expected, "{page}");
        check("<P class=x>a<B>b</p>c", "<p>a<b>b</b></p>c");
        check("<!doctype html><html><head><title>T</title><meta a=b><body>x</html>", "x");
        check("a<script>if (a</b>1) '</div>'</script >b<style>p > a{}</style>c", "abc");
        check("a<svg class=x />b<svg><path d=y /></svg>c", "abc");
        check("a<!-- <p> -- > -->b<!---->c", "abc");
        check("<a title='>' HREF='/x?a=\"1\"'>l</a>", "<a href=\"/x?a=%221%22\">l</a>");
        check("<a href=/y>l", "<a href=\"/y\">l</a>");
        check("<a data-href=/n hreflang=de title='an href=/n' href = /y>l</a>", "<a href=\"/y\">l</a>");
        check("<a data-href=/n = x / y=''>l</a>", "<a>l</a>");
        check("<a href='data:text/html,x'>l</a>", "<a>l</a>");
        check("<ul><li>1<li>2</ul>", "<ul><li>1</li><li>2</li></ul>");
        check("1 < 2 > 1 &amp; <", "1 &lt; 2 &gt; 1 &amp; &lt;");
        check("a</div></x>b<br/>c<img src=x>", "ab<br>c");
        check("a<img alt=' x <b> ' src=y>c<img alt=''>d", "a x &lt;b&gt; cd");
        check("<a href=/y><img alt='The \"shop\"'></a>", "<a href=\"/y\"> The \"shop\" </a>");
        check("<svg><p>x</svg>y<script>never closed", "y");
        check("<section><main>x", "<div><div>x</div></div>");
    }

    #[test]
    fn hidden_elements_are_not_read() {
        let check = |page: &str, expected: &str| assert_eq!(reduced(page, None), expected, "{page}");
        check("a<div hidden>b<div>c</div>d</div>e", "ae");
        check("a<DIV class='x' HIDDEN=''>b</Div >e", "ae");
        check("a<span style=\"color:red; Display : none\">b</span>c<b style=visibility:hidden>d</b>", "ac");
        check("<div data-hidden title='hidden' class=hidden>a</div>", "<div>a</div>");
        check("<div hidden=until-found>a</div>", "<div>a</div>");
        check("<div hidden>a<p>b", "<div>a<p>b</p></div>");
        check("<p hidden>a<p>b", "<p>a</p><p>b</p>");
        let many = reduced(&"<div hidden>".repeat(100_000), None);
        assert_eq!(many.matches("<div>").count(), super::DEPTH_MAX);
    }

    #[test]
    fn form_fields_are_separated() {
        let check = |page: &str, expected: &str| assert_eq!(reduced(page, None), expected, "{page}");
        check("<select><option>a<option>b</select>c", "<div><p>a</p><p>b</p></div>c");
        check("<option>a</option><option>b</option>", "<p>a</p><p>b</p>");
        check("<textarea>a</textarea><textarea>b</textarea>", "<div>a</div><div>b</div>");
    }

    #[test]
    fn relative_links_are_resolved() {
        let address = || Url::parse("https://a.example/b/c?d=e").ok();
        let check = |page: &str, expected: &str| assert_eq!(reduced(page, address()), expected, "{page}");
        check("<a href=/y?a=1&amp;b=2>l</a>", "<a href=\"https://a.example/y?a=1&amp;b=2\">l</a>");
        check(
            "<a href=x>l</a><a href=#top>m</a>",
            "<a href=\"https://a.example/b/x\">l</a><a href=\"#top\">m</a>",
        );
        check(
            "<a href='//b.example/'>l</a><a href=mailto:a@b.example>m</a>",
            "<a href=\"https://b.example/\">l</a><a href=\"mailto:a@b.example\">m</a>",
        );
        check(
            "<a href='JavaScript:go()'>l</a><a href=' java\tscript:go()'>m</a><a href=data:x>n</a>",
            "<a>l</a><a>m</a><a>n</a>",
        );
        check("<base href='/z/'><a href=x>l</a>", "<a href=\"https://a.example/z/x\">l</a>");
        assert_eq!(
            reduced("<a href='javascript:go()'>l</a><a href=/x>m</a>", None),
            "<a>l</a><a href=\"/x\">m</a>"
        );
    }

    proptest! {
        #[test]
        fn tags_stay_balanced_and_shallow(
            page in "(<[a-z]{1,3}( href=[\"']?x)?>|</[a-z]{1,3}>|<(div|b|p|ul|li|table|td|a)>|</(div|b|p|ul)>|<!--|-->|[\"'<>&ax ]){0,200}"
        ) {
            let mut depth = 0_usize;
            for tag in reduced(&page, None).split('<').skip(1) {
                match tag.strip_prefix('/') {
                    Some(_) => depth = depth.checked_sub(1).unwrap(),
                    None if tag.starts_with("br") || tag.starts_with("hr") => {}
                    None => depth += 1,
                }
                prop_assert!(depth <= super::DEPTH_MAX);
            }
            prop_assert_eq!(depth, 0);
        }
    }
}
