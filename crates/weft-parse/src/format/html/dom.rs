//! The tree that the HTML parser builds, stored as a flat list of nodes.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use html5ever::interface::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::{Attribute, ParseOpts, QualName, local_name, ns, parse_document};

/// Maximum nesting depth of elements. The parser repeatedly searches all open elements.
const DEPTH_MAX: usize = 2_000;
/// Maximum number of parts in which a page with deeper nesting is read.
const PARTS_MAX: usize = 10;
/// Number of bytes that are passed to the parser between two checks of the depth.
const STEP_BYTES: usize = 16 << 10;
/// Maximum number of attributes of one element: each new one is compared with all others.
const ATTRIBUTES_MAX: usize = 1_000;
/// Maximum number of consecutive spaces and quotes without a new node. Within a tag they separate attributes, and the
/// parser compares each new attribute with all before it: 80,000 of them take half a minute.
const SEPARATORS_MAX: usize = 12_000;
/// Maximum number of nodes in one page.
const NODES_MAX: usize = 5_000_000;

/// Index of a node in the list.
pub(super) type Id = usize;

/// Kind of a node.
#[derive(Debug)]
pub(super) enum DomNodeKind {
    /// An element with its attributes.
    Element(Rc<QualName>, Vec<Attribute>),
    /// Text.
    Text(String),
    /// The document, a comment or anything else.
    Other,
}

#[derive(Debug)]
struct DomNode {
    kind: DomNodeKind,
    parent: Option<Id>,
    children: Vec<Id>,
    depth: usize,
}

/// A parsed page.
#[derive(Debug)]
pub(super) struct Dom {
    nodes: Vec<DomNode>,
    /// Whether the rest was dropped because it was too deep or too large.
    pub is_cut: bool,
    /// Whether it is so deeply nested that it was read in several parts, each as a page of its own.
    pub is_divided: bool,
}

/// How far the parser got.
#[derive(Clone, Copy)]
enum PartEnd<'a> {
    /// To the end of the page.
    Whole,
    /// Until the nesting was too deep; contains the rest.
    Deep(&'a str),
    /// Until the page was too large.
    Large,
}

impl Dom {
    /// Parses any text as HTML, as browsers do. The rest of a page that is nested too deeply is parsed as a page of its
    /// own: its text is worth more than the elements around it.
    pub(super) fn parse(text: &str) -> Self {
        let (mut nodes, mut end) = part(text, NODES_MAX);
        let mut parts = 1;
        while let PartEnd::Deep(rest) = end
            && parts < PARTS_MAX
        {
            let (more, next) = part(rest, NODES_MAX.saturating_sub(nodes.len()));
            join(&mut nodes, more);
            (parts, end) = (parts + 1, next);
        }
        Self { is_cut: !matches!(end, PartEnd::Whole), is_divided: parts > 1, nodes }
    }

    /// The document node.
    pub(super) const ROOT: Id = 0;

    /// Kind of a node.
    pub(super) fn kind(&self, id: Id) -> &DomNodeKind {
        &self.nodes[id].kind
    }

    /// Children of a node.
    pub(super) fn children(&self, id: Id) -> &[Id] {
        &self.nodes[id].children
    }

    /// Name of an element; empty for any other node.
    pub(super) fn name(&self, id: Id) -> &str {
        match self.kind(id) {
            DomNodeKind::Element(name, _) => &name.local,
            _ => "",
        }
    }

    /// Value of an attribute of an element.
    pub(super) fn attribute(&self, id: Id, name: &str) -> Option<&str> {
        match self.kind(id) {
            DomNodeKind::Element(_, attributes) => {
                attributes.iter().find(|one| &*one.name.local == name).map(|one| &*one.value)
            }
            _ => None,
        }
    }

    /// A node and all its descendants, in document order.
    pub(super) fn below(&self, id: Id) -> impl Iterator<Item = Id> + '_ {
        let mut open = vec![id];
        std::iter::from_fn(move || {
            let id = open.pop()?;
            open.extend(self.children(id).iter().rev());
            Some(id)
        })
    }

    /// All text below a node.
    pub(super) fn text(&self, id: Id) -> String {
        let pieces = self.below(id).filter_map(|id| match self.kind(id) {
            DomNodeKind::Text(text) => Some(text.as_str()),
            _ => None,
        });
        pieces.collect()
    }
}

/// Parses a page until it is too deep or too large.
fn part(text: &str, nodes_max: usize) -> (Vec<DomNode>, PartEnd<'_>) {
    let mut parser = parse_document(DomBuilder::default(), ParseOpts::default());
    let (mut rest, mut separators) = (text, 0);
    let mut end = PartEnd::Whole;
    while !rest.is_empty() {
        let (step, behind) = rest.split_at(step_bytes(rest));
        parser.process(StrTendril::from_slice(step));
        let sink = &parser.tokenizer.sink.sink;
        separators = if sink.changes.replace(0) == 0 { separators } else { 0 };
        separators += step.bytes().filter(|byte| separates(*byte)).count();
        if behind.is_empty() {
            break;
        }
        if separators > SEPARATORS_MAX || sink.nodes.borrow().len() > nodes_max {
            end = PartEnd::Large;
            break;
        }
        if sink.deepest.get() > DEPTH_MAX {
            end = PartEnd::Deep(behind);
            break;
        }
        rest = behind;
    }
    (parser.finish(), end)
}

/// Number of bytes to pass to the parser next. A tag is not split unless it is longer than a whole step.
fn step_bytes(rest: &str) -> usize {
    let most = rest.floor_char_boundary(STEP_BYTES);
    let begun = rest[..most].rfind('<').filter(|at| *at > 0 && !rest[*at..most].contains('>'));
    begun.filter(|_| most < rest.len()).unwrap_or(most)
}

/// Appends the nodes of another page.
fn join(nodes: &mut Vec<DomNode>, more: Vec<DomNode>) {
    let offset = nodes.len();
    nodes[Dom::ROOT].children.push(offset);
    nodes.extend(more.into_iter().map(|mut node| {
        node.parent = node.parent.map(|parent| parent + offset);
        node.children.iter_mut().for_each(|child| *child += offset);
        node
    }));
}

fn separates(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'/')
}

/// A node, as the parser refers to it.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    id: Id,
    name: Rc<QualName>,
}

#[derive(Debug)]
struct DomBuilder {
    nodes: RefCell<Vec<DomNode>>,
    deepest: Cell<usize>,
    /// Number of changes since the last check.
    changes: Cell<usize>,
    nameless: Rc<QualName>,
}

impl Default for DomBuilder {
    fn default() -> Self {
        let root = DomNode { kind: DomNodeKind::Other, parent: None, children: Vec::new(), depth: 0 };
        Self {
            nodes: RefCell::new(vec![root]),
            deepest: Cell::new(0),
            changes: Cell::new(0),
            nameless: Rc::new(QualName::new(None, ns!(), local_name!(""))),
        }
    }
}

impl DomBuilder {
    fn add(&self, kind: DomNodeKind, name: Rc<QualName>) -> Handle {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(DomNode { kind, parent: None, children: Vec::new(), depth: 0 });
        Handle { id: nodes.len() - 1, name }
    }

    /// Inserts a node or a text before the child with this index.
    fn insert(&self, parent: Id, at: usize, child: NodeOrText<Handle>) {
        self.changes.set(self.changes.get() + 1);
        let child = match child {
            NodeOrText::AppendNode(handle) => handle.id,
            NodeOrText::AppendText(text) => {
                let mut nodes = self.nodes.borrow_mut();
                // The parser expects adjacent texts to be merged.
                let before = at.checked_sub(1).map(|before| nodes[parent].children[before]);
                if let Some(before) = before
                    && let DomNodeKind::Text(known) = &mut nodes[before].kind
                {
                    known.push_str(&text);
                    return;
                }
                drop(nodes);
                self.add(DomNodeKind::Text(text.to_string()), Rc::clone(&self.nameless)).id
            }
        };
        self.detach(child);
        let mut nodes = self.nodes.borrow_mut();
        let depth = nodes[parent].depth + 1;
        self.deepest.set(self.deepest.get().max(depth));
        nodes[child].parent = Some(parent);
        nodes[child].depth = depth;
        // Detaching the node may have shortened this list.
        let at = at.min(nodes[parent].children.len());
        nodes[parent].children.insert(at, child);
    }

    fn detach(&self, child: Id) {
        let mut nodes = self.nodes.borrow_mut();
        if let Some(parent) = nodes[child].parent.take() {
            let children = &mut nodes[parent].children;
            // Searched from the end, since a node that moves is usually the last.
            if let Some(at) = children.iter().rposition(|one| *one == child) {
                children.remove(at);
            }
        }
    }

    fn place(&self, child: Id) -> Option<(Id, usize)> {
        let nodes = self.nodes.borrow();
        let parent = nodes[child].parent?;
        Some((parent, nodes[parent].children.iter().rposition(|one| *one == child)?))
    }
}

impl TreeSink for DomBuilder {
    type Handle = Handle;
    type Output = Vec<DomNode>;
    type ElemName<'a> = &'a QualName;

    fn finish(self) -> Vec<DomNode> {
        self.nodes.into_inner()
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        Handle { id: Dom::ROOT, name: Rc::clone(&self.nameless) }
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> &'a QualName {
        &target.name
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, _: ElementFlags) -> Handle {
        let name = Rc::new(name);
        self.add(DomNodeKind::Element(Rc::clone(&name), attributes), name)
    }

    fn create_comment(&self, _: StrTendril) -> Handle {
        self.add(DomNodeKind::Other, Rc::clone(&self.nameless))
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Handle {
        self.add(DomNodeKind::Other, Rc::clone(&self.nameless))
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        let count = self.nodes.borrow()[parent.id].children.len();
        self.insert(parent.id, count, child);
    }

    fn append_based_on_parent_node(&self, element: &Handle, before: &Handle, child: NodeOrText<Handle>) {
        if self.nodes.borrow()[element.id].parent.is_some() {
            self.append_before_sibling(element, child);
        } else {
            self.append(before, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Handle) -> Handle {
        // The contents of a template are skipped, so no document of their own is needed.
        target.clone()
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        one.id == other.id
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        // Detached before the index is looked up, because it may be a child of the same parent.
        if let NodeOrText::AppendNode(node) = &child {
            self.detach(node.id);
        }
        if let Some((parent, at)) = self.place(sibling.id) {
            self.insert(parent, at, child);
        }
    }

    fn add_attrs_if_missing(&self, target: &Handle, attributes: Vec<Attribute>) {
        let mut nodes = self.nodes.borrow_mut();
        if let DomNodeKind::Element(_, known) = &mut nodes[target.id].kind {
            for attribute in attributes {
                if known.len() < ATTRIBUTES_MAX && !known.iter().any(|one| one.name == attribute.name) {
                    known.push(attribute);
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.detach(target.id);
    }

    fn reparent_children(&self, node: &Handle, parent: &Handle) {
        let children = std::mem::take(&mut self.nodes.borrow_mut()[node.id].children);
        let mut nodes = self.nodes.borrow_mut();
        let depth = nodes[parent.id].depth + 1;
        for child in &children {
            nodes[*child].parent = Some(parent.id);
            nodes[*child].depth = depth;
        }
        nodes[parent.id].children.extend(children);
    }
}
