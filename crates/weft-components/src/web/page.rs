//! A web page, cut down before anything builds a tree of it.
//!
//! Pages can be written so that a parser that follows the standard works on them for hours: tags nested
//! without an end, bold text that is never closed, one tag with a million attributes. So what is not
//! needed goes first, in one pass: a few kinds of tags stay, nested to a limit, closed in order, and
//! without attributes but the address of a link. A tag that is read wrongly costs some text, never time.

use url::Url;

/// How deep tags may be nested; the text of deeper ones is kept.
// What makes text of a page goes down once for each, on a stack that nobody can lengthen.
const DEPTH_MAX: usize = 50;

/// Tags whose content is no text.
const SILENT: [&str; 9] =
    ["iframe", "noembed", "noframes", "object", "script", "style", "svg", "template", "title"];
/// Tags that matter to the text, and what stands for them.
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
    // Its end is often left out, and the next one ends it.
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

/// Tags whose end is always written, so that what they hold can be passed over where nobody is to see it.
const ENDED: [&str; 20] = [
    "a", "article", "aside", "b", "div", "fieldset", "footer", "form", "h1", "h2", "h3", "header", "i",
    "main", "nav", "ol", "section", "span", "table", "ul",
];

/// Links that lead somewhere for a reader.
const SCHEMES: [&str; 5] = ["http", "https", "mailto", "tel", "ftp"];

/// The page with what matters to its text. With its address its links are whole; those that are programs or data lead
/// nowhere.
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
    /// What the links are relative to.
    address: Option<Url>,
    /// Whether every hidden tag had an end so far: it is looked for in all of the rest, and once in vain is enough.
    ends: bool,
}

impl Pass<'_> {
    fn text(&mut self, text: &str) {
        self.kept.push_str(&text.replace('>', "&gt;"));
    }

    /// Where a link leads.
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

    /// What begins with `<`.
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
            // The next reader would take it for the beginning of a tag.
            self.kept.push_str("&lt;");
            self.rest = after;
        }
    }

    fn closing(&mut self, name: &str) {
        let Some(name) = kept(name) else { return };
        let Some(place) = self.open.iter().rposition(|open| *open == name) else { return };
        // What was opened in it and never closed ends with it.
        for name in self.open.split_off(place).into_iter().rev() {
            self.close(name);
        }
    }

    /// What a picture shows in words: mostly all that there is to a link around it.
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
            self.rest = after_end(self.rest, name);
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
        // Of these the next one ends the one before, also when nobody says so.
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

/// A tag's name and what follows it.
pub(super) fn name(text: &str) -> (String, &str) {
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '/' | '>' | '<')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    // Longer names are none that we know.
    (name.chars().take(16).collect::<String>().to_ascii_lowercase(), rest)
}

/// What a tag holds, and what follows it.
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

/// The address of a link.
fn href(attributes: &str) -> Option<&str> {
    /// Bytes of an address, at most.
    const ADDRESS_MAX: usize = 2_000;
    attribute(attributes, "href").filter(|address| address.len() <= ADDRESS_MAX)
}

/// The value of one of a tag's attributes, as it is written.
fn attribute<'a>(attributes: &'a str, wanted: &str) -> Option<&'a str> {
    named_values(attributes)
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
        .find_map(|(_, value)| value)
}

/// The names of a tag's attributes, each with its value where it has one.
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

/// What follows the end of a tag whose content does not count.
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

/// What follows the end of a tag that may hold others of its name.
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

/// Whether a tag says that nobody is to see what it holds.
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
    fn what_matters_is_kept() {
        let check = |page: &str, expected: &str| assert_eq!(reduced(page, None), expected, "{page}");
        check("<P class=x>a<B>b</p>c", "<p>a<b>b</b></p>c");
        check("<!doctype html><html><head><title>T</title><meta a=b><body>x</html>", "x");
        check("a<script>if (a</b>1) '</div>'</script >b<style>p > a{}</style>c", "abc");
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
    fn what_is_hidden_is_not_read() {
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
    fn fields_of_a_form_stand_apart() {
        let check = |page: &str, expected: &str| assert_eq!(reduced(page, None), expected, "{page}");
        check("<select><option>a<option>b</select>c", "<div><p>a</p><p>b</p></div>c");
        check("<option>a</option><option>b</option>", "<p>a</p><p>b</p>");
        check("<textarea>a</textarea><textarea>b</textarea>", "<div>a</div><div>b</div>");
    }

    #[test]
    fn links_lead_where_they_lead_from_the_page() {
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
