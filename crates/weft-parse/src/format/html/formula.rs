//! Formulas of a page (MathML) as text in one line: `(a+b)/2`, `x^2`, `√(x)`.

use super::dom::{Dom, DomNodeKind, Id};
use crate::format::math::grouped;
use crate::words::line;

/// Elements within one another whose meaning is kept, at most.
const DEPTH_MAX: usize = 40;

/// What a formula says: as the page says it in words, or else by its signs.
pub(super) fn written(dom: &Dom, id: Id) -> String {
    let told = dom.attribute(id, "alttext").filter(|told| !told.trim().is_empty());
    told.map_or_else(|| of(dom, id, 0), str::to_owned)
}

fn of(dom: &Dom, id: Id, depth: usize) -> String {
    match dom.kind(id) {
        DomNodeKind::Text(text) => return line(text),
        DomNodeKind::Other => return String::new(),
        DomNodeKind::Element(..) => {}
    }
    // The same once more, as a program writes it.
    if dom.name(id).starts_with("annotation") {
        return String::new();
    }
    if depth >= DEPTH_MAX {
        return line(&dom.text(id));
    }
    // White space between elements means nothing.
    let is_part = |id: &&Id| match dom.kind(**id) {
        DomNodeKind::Text(text) => !text.trim().is_empty(),
        DomNodeKind::Element(..) => true,
        DomNodeKind::Other => false,
    };
    let parts = dom.children(id).iter().filter(is_part).map(|child| of(dom, *child, depth + 1));
    let parts: Vec<String> = parts.collect();
    match (dom.name(id), parts.as_slice()) {
        ("mfrac", [above, below]) => format!("{}/{}", grouped(above), grouped(below)),
        ("msup", [base, above]) => format!("{}^{}", grouped(base), grouped(above)),
        ("msub" | "munder", [base, below]) => format!("{base}_{}", grouped(below)),
        ("msubsup" | "munderover", [base, below, above]) => {
            format!("{base}_{}^{}", grouped(below), grouped(above))
        }
        ("mroot", [base, degree]) => format!("√[{degree}]{}", grouped(base)),
        ("msqrt", _) => format!("√{}", grouped(&parts.concat())),
        ("mtr", _) => parts.join(", "),
        ("mtable", _) => parts.join("; "),
        ("mtext", _) => format!(" {} ", parts.concat()),
        // The name of a function.
        ("mi", [name]) if name.chars().count() > 1 => format!("{name} "),
        _ => parts.concat(),
    }
}
