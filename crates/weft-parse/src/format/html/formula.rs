//! Writes formulas of a page (MathML) as one line of text: `(a+b)/2`, `x^2`, `√(x)`.

use super::dom::{Dom, DomNodeKind, Id};
use crate::format::math::grouped;
use crate::words::line;

/// Maximum nesting depth up to which elements are interpreted.
const DEPTH_MAX: usize = 40;

/// Text of a formula: its alternative text if the page has one, otherwise built from its elements.
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
    // An annotation repeats the formula in the notation of another program.
    if dom.name(id).starts_with("annotation") {
        return String::new();
    }
    if depth >= DEPTH_MAX {
        return line(&dom.text(id));
    }
    // White space between elements is insignificant.
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
