//! Writes documents as self-contained HTML: no scripts, and nothing that a browser would fetch by itself. Pictures
//! embedded in the text are shown.

use pulldown_cmark::{CowStr, Event, Parser, Tag, TagEnd};
use weft_core::seam::document_writer::PageSettings;

use super::blocks::{ends_a_line, held_in, may_lead, options};
use crate::markup::escaped;

const STYLE: &str = "img{max-width:100%}p,li,h1,h2,h3,h4,h5,h6,td,th,pre{unicode-bidi:plaintext}body{overflow-wrap:anywhere;font:16px/1.5 sans-serif;max-width:45em;margin:2em auto;padding:0 1em}\
    table{border-collapse:collapse}th,td{border:1px solid #999;padding:.3em .6em;text-align:start}\
    pre{background:#f4f4f4;padding:.8em;overflow:auto}blockquote{border-left:3px solid #ccc;margin-left:0;padding-left:1em}\
    .footnote-definition p:first-of-type{display:inline}header,footer{color:#666;font-size:.9em}.watermark{position:fixed;top:40%;left:0;right:0;text-align:center;\
    font-size:5em;opacity:.12;transform:rotate(-30deg);pointer-events:none}";

/// Writes a text as an HTML page.
pub(super) fn write(text: &str, page: &PageSettings) -> String {
    let mut open = Vec::new();
    let events = Parser::new_ext(text, options()).filter_map(|event| harmless(event, &mut open));
    let mut body = String::new();
    pulldown_cmark::html::push_html(&mut body, events);
    let part = |name: &str, text: &str| {
        if text.is_empty() {
            String::new()
        } else {
            format!("<{name}>{}</{}>\n", escaped(text), name.split(' ').next().unwrap_or(name))
        }
    };
    let header = part("header", &page.header) + &part("p", &page.timestamp);
    let footer = part("div class=\"watermark\"", &page.watermark) + &part("footer", &page.footer);
    format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{header}{body}{footer}</body>\n</html>\n",
        escaped(&title(text, page))
    )
}

/// Title of a document that has none.
const NO_TITLE: &str = "Document";
/// Maximum number of characters of a heading that becomes the title.
const TITLE_CHARS_MAX: usize = 200;

/// Title of the page, which HTML requires: the one that is set, otherwise the first heading of the text.
fn title(text: &str, page: &PageSettings) -> String {
    if !page.title.trim().is_empty() {
        return page.title.clone();
    }
    let heading = Parser::new_ext(text, options())
        .skip_while(|event| !matches!(event, Event::Start(Tag::Heading { .. })))
        .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let words: String = heading
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(text.into_string()),
            Event::SoftBreak | Event::HardBreak => Some(" ".to_owned()),
            _ => None,
        })
        .collect();
    let words: String = words.trim().chars().take(TITLE_CHARS_MAX).collect();
    if words.is_empty() { NO_TITLE.to_owned() } else { words }
}

/// Makes an event safe: HTML other than line breaks becomes text, pictures that are not embedded become links, and
/// links to addresses that are not allowed lose their target.
fn harmless<'a>(event: Event<'a>, open: &mut Vec<Option<TagEnd>>) -> Option<Event<'a>> {
    match event {
        // The only way to break a line within a table cell.
        Event::Html(tag) | Event::InlineHtml(tag) if ends_a_line(&tag) => Some(Event::HardBreak),
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Image { link_type, dest_url, title, id }) if held_in(&dest_url).is_some() => {
            open.push(Some(TagEnd::Image));
            Some(Event::Start(Tag::Image { link_type, dest_url, title, id }))
        }
        Event::Start(
            Tag::Link { link_type, dest_url, title, id } | Tag::Image { link_type, dest_url, title, id },
        ) => {
            let leads = may_lead(&dest_url);
            open.push(leads.then_some(TagEnd::Link));
            leads.then_some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::End(TagEnd::Link | TagEnd::Image) => open.pop()?.map(Event::End),
        Event::Start(Tag::CodeBlock(_)) => {
            Some(Event::Start(Tag::CodeBlock(pulldown_cmark::CodeBlockKind::Fenced(CowStr::Borrowed("")))))
        }
        event => Some(event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_pictures_are_shown() {
        let text = "![a \"b\" [c](https://e.example)](data:image/png;base64,iVBORw0KGgo=) ![s](data:image/svg+xml;base64,AAAA) \
            ![t](data:text/html;base64,AAAA) ![u](<data:image/png;base64,\"onload=x>) [l](data:image/png;base64,AAAA)";
        let html = write(text, &PageSettings::default());
        assert!(
            html.contains("<img src=\"data:image/png;base64,iVBORw0KGgo=\" alt=\"a &quot;b&quot; c\" />"),
            "{html}"
        );
        assert_eq!((html.matches("<img").count(), html.matches("data:").count()), (1, 1), "{html}");
    }

    /// HTML requires a title.
    #[test]
    fn a_page_without_a_title_uses_its_first_heading() {
        let check = |text: &str, title: &str, expected: &str| {
            let page = PageSettings { title: title.to_owned(), ..PageSettings::default() };
            let html = write(text, &page);
            assert!(html.contains(&format!("<title>{expected}</title>")), "{html}");
        };
        check("x\n\n## On *looms* & `warps`\n\n# Other", "", "On looms &amp; warps");
        check("# Heading", "Title", "Title");
        check("only a text", " ", "Document");
    }

    #[test]
    fn line_breaks_in_cells_are_kept() {
        let html = write("| h |\n|---|\n| a<BR />b <b>c</b> |\n", &PageSettings::default());
        assert!(html.contains("a<br />\nb &lt;b&gt;c&lt;/b&gt;"), "{html}");
    }

    #[test]
    fn notes_are_shown_and_linked() {
        let html = write("It grew[^1].\n\n[^1]: https://e.example/<i>\n", &PageSettings::default());
        assert!(html.contains("<a href=\"#1\">1</a>") && html.contains("id=\"1\""), "{html}");
        assert!(html.contains("https://e.example/") && !html.contains("<i>"), "{html}");
    }

    #[test]
    fn no_page_contains_scripts_or_remote_resources() {
        let text = "# A <b>\n\n<script>alert(1)</script>\n\n<img src=x onerror=y>\n\n[a](javascript:alert(1)) [b](https://b.example)\n\n![c](https://c.example/c.png)\n\n| h |\n|---|\n| 1 |\n\n```x\" onload=\"y\n<i>\n```\n";
        let page =
            PageSettings { title: "<t>".to_owned(), footer: "f & g".to_owned(), ..PageSettings::default() };
        let html = write(text, &page);
        for part in [
            "<title>&lt;t&gt;</title>",
            "&lt;script&gt;",
            "<a href=\"https://b.example\">b</a>",
            "<a href=\"https://c.example/c.png\">c</a>",
            "<td>1</td>",
            "<footer>f &amp; g</footer>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        for part in ["<script", "<img", "javascript:", "onload=\"y\"", "<i>"] {
            assert!(!html.contains(part), "{part}: {html}");
        }
    }
}
