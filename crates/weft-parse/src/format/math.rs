//! Writes Office formulas as one line of text: `(a+b)/2`, `x^2`, `√(x)`.

use crate::markup::Tag;

/// A formula that is being read.
#[derive(Debug, Default)]
pub(super) struct Math {
    open: Vec<MathElement>,
    /// Whether the next text belongs to the formula.
    is_text: bool,
}

/// An open element.
#[derive(Debug)]
struct MathElement {
    name: String,
    /// Its contents so far: names of child elements with their text.
    inner: Vec<(String, String)>,
    /// Operator characters given as attributes.
    signs: Vec<(String, String)>,
}

impl Math {
    /// Whether this element starts a formula.
    pub(super) fn begins(name: &str) -> bool {
        name == "oMath"
    }

    /// Handles a start tag.
    pub(super) fn open(&mut self, tag: &Tag<'_>) {
        let name = tag.name().to_owned();
        self.is_text = name == "t";
        if let (Some(value), "chr" | "begChr" | "endChr") = (tag.attribute("val"), &*name) {
            // The characters are in properties, two levels below their element.
            if let Some(owner) = self.open.len().checked_sub(2).and_then(|owner| self.open.get_mut(owner)) {
                owner.signs.push((name.clone(), value));
            }
        }
        self.open.push(MathElement { name, inner: Vec::new(), signs: Vec::new() });
    }

    /// Handles text within an element.
    pub(super) fn text(&mut self, text: &str) {
        if self.is_text
            && let Some(frame) = self.open.last_mut()
        {
            frame.inner.push((String::new(), text.to_owned()));
        }
    }

    /// Handles an end tag; returns the formula if it is complete.
    pub(super) fn close(&mut self) -> Option<String> {
        self.is_text = false;
        let frame = self.open.pop()?;
        let text = frame.written();
        match self.open.last_mut() {
            Some(parent) => {
                parent.inner.push((frame.name, text));
                None
            }
            None => Some(text),
        }
    }
}

impl MathElement {
    fn written(&self) -> String {
        let part = |name: &str| {
            let found = self.inner.iter().find(|(one, _)| one == name);
            found.map(|(_, text)| text.as_str()).unwrap_or_default()
        };
        let sign = |name: &str, usual: &str| {
            let found = self.signs.iter().find(|(one, _)| one == name);
            found.map_or_else(|| usual.to_owned(), |(_, sign)| sign.clone())
        };
        match self.name.as_str() {
            "f" => format!("{}/{}", grouped(part("num")), grouped(part("den"))),
            "sSup" => format!("{}^{}", grouped(part("e")), grouped(part("sup"))),
            "sSub" => format!("{}_{}", part("e"), grouped(part("sub"))),
            "sSubSup" => format!("{}_{}^{}", part("e"), grouped(part("sub")), grouped(part("sup"))),
            "rad" if part("deg").is_empty() => format!("√{}", grouped(part("e"))),
            "rad" => format!("√[{}]{}", part("deg"), grouped(part("e"))),
            "nary" => {
                let limit = |mark: &str, text: &str| {
                    if text.is_empty() { String::new() } else { format!("{mark}{}", grouped(text)) }
                };
                let (low, high) = (limit("_", part("sub")), limit("^", part("sup")));
                format!("{}{low}{high} {}", sign("chr", "∫"), part("e"))
            }
            "d" => {
                let inner: Vec<&str> = self
                    .inner
                    .iter()
                    .filter(|(name, _)| name == "e")
                    .map(|(_, text)| text.as_str())
                    .collect();
                format!("{}{}{}", sign("begChr", "("), inner.join("|"), sign("endChr", ")"))
            }
            "func" => format!("{} {}", part("fName"), part("e")),
            "m" => self.joined("; ", |name| name == "mr"),
            "mr" => self.joined(", ", |name| name == "e"),
            "eqArr" => self.joined("; ", |name| name == "e"),
            // The properties were evaluated at their start tags.
            name if name.ends_with("Pr") => String::new(),
            _ => self.joined("", |_| true),
        }
    }

    fn joined(&self, between: &str, fits: impl Fn(&str) -> bool) -> String {
        let texts: Vec<&str> =
            self.inner.iter().filter(|(name, _)| fits(name)).map(|(_, text)| text.as_str()).collect();
        texts.join(between)
    }
}

/// Encloses a text in brackets, unless it is a single character or a number.
pub(super) fn grouped(text: &str) -> String {
    let text = text.trim();
    let is_single = text.chars().count() <= 1 || text.chars().all(|c| c.is_ascii_digit());
    if is_single { text.to_owned() } else { format!("({text})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::{Xml, XmlNode};

    fn written(inner: &str) -> String {
        let document = format!("<m:oMath>{inner}</m:oMath>");
        let (mut xml, mut math) = (Xml::new(&document), Math::default());
        loop {
            match xml.next().unwrap().unwrap() {
                XmlNode::Open(tag) => math.open(&tag),
                XmlNode::Text(text) => math.text(&text),
                XmlNode::Close(_) => {
                    if let Some(text) = math.close() {
                        return text;
                    }
                }
            }
        }
    }

    #[test]
    fn formulas_become_one_line() {
        let run = |text: &str| format!("<m:r><m:t>{text}</m:t></m:r>");
        let check = |formula: &str, expected: &str| assert_eq!(written(formula), expected);
        check(&format!("<m:f><m:num>{}</m:num><m:den>{}</m:den></m:f>", run("a+b"), run("2")), "(a+b)/2");
        check(&format!("<m:sSup><m:e>{}</m:e><m:sup>{}</m:sup></m:sSup>", run("x"), run("2")), "x^2");
        check(&format!("<m:rad><m:radPr/><m:deg/><m:e>{}</m:e></m:rad>", run("x+1")), "√(x+1)");
        let sum = format!(
            "<m:nary><m:naryPr><m:chr m:val=\"∑\"/></m:naryPr><m:sub>{}</m:sub><m:sup>{}</m:sup><m:e>{}</m:e></m:nary>",
            run("i=0"),
            run("n"),
            run("i"),
        );
        check(&sum, "∑_(i=0)^n i");
        let brackets = "<m:d><m:dPr><m:begChr m:val=\"[\"/><m:endChr m:val=\"]\"/></m:dPr><m:e><m:r><m:t>x</m:t></m:r></m:e></m:d>";
        check(brackets, "[x]");
    }
}
