//! The check of the page tree, before the library walks it.
//!
//! The library limits the depth of its walk, but not how often it visits a node: a node that names itself twice costs it
//! 2 to the power of that depth.

use std::collections::HashSet;

use pdf_oxide::PdfDocument;
use pdf_oxide::object::{Object, ObjectRef};

use crate::unreadable::Unreadable;

/// Maximum number of nodes and pages in a page tree.
const NODES_MAX: usize = 1_000_000;

/// Checks that each branch of the page tree occurs in it once. A page that occurs twice is harmless.
///
/// # Errors
/// When it does not, or when the tree is too large.
pub(super) fn check(document: &PdfDocument) -> Result<(), Unreadable> {
    // What cannot be loaded is skipped here: the library reports it.
    let Ok(catalog) = document.catalog() else { return Ok(()) };
    let root = catalog.as_dict().and_then(|catalog| catalog.get("Pages")).and_then(Object::as_reference);
    let mut open: Vec<ObjectRef> = root.into_iter().collect();
    let (mut seen, mut branches) = (HashSet::new(), HashSet::new());
    while let Some(node) = open.pop() {
        if !seen.insert(node) {
            if branches.contains(&node) {
                return Err(Unreadable::new("the page tree of the PDF refers to itself; save it again"));
            }
            continue;
        }
        if seen.len() > NODES_MAX {
            return Err(Unreadable::new(format!("the page tree of the PDF has more than {NODES_MAX} nodes")));
        }
        let Ok(object) = document.load_object(node) else { continue };
        let kids = object.as_dict().and_then(|node| node.get("Kids")).and_then(Object::as_array);
        if let Some(kids) = kids {
            branches.insert(node);
            open.extend(kids.iter().filter_map(Object::as_reference));
        }
    }
    Ok(())
}
