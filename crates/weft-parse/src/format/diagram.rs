//! Reads diagrams of shapes with text (SmartArt) as nested lists.

use std::collections::HashMap;

use crate::markup::{Tag, Xml, XmlNode};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;

/// Maximum number of points in one diagram, and of connections between them.
const POINTS_MAX: usize = 10_000;

/// The role of a point in the data model of a diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PointKind {
    /// A shape with text.
    Shape,
    /// The root of the tree.
    Root,
    /// Presentation details, or a connection between shapes.
    #[default]
    Other,
}

#[derive(Debug, Default)]
struct DiagramPoint {
    kind: PointKind,
    text: String,
    /// Its children, with their order.
    below: Vec<(u32, usize)>,
}

/// The parts of a diagram that are read.
#[derive(Debug, Default)]
struct Diagram {
    points: Vec<DiagramPoint>,
    /// Index of each point, by its id.
    places: HashMap<String, usize>,
    /// Parent, child and order of each connection.
    links: Vec<(String, String, u32)>,
    /// Whether the current point was dropped, so that the text being read is ignored.
    is_cut: bool,
}

/// Adds the points of a diagram.
pub(super) fn read(text: &str, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let mut diagram = Diagram::default();
    let mut xml = Xml::new(text);
    let mut is_text = false;
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => match tag.name() {
                "pt" => diagram.begin(&tag),
                "cxn" => diagram.link(&tag),
                "t" => is_text = true,
                "br" => diagram.write("\n"),
                _ => {}
            },
            XmlNode::Text(text) if is_text => diagram.write(&text),
            XmlNode::Text(_) => {}
            XmlNode::Close(name) => match name.as_str() {
                "t" => is_text = false,
                "p" => diagram.write("\n"),
                _ => {}
            },
        }
    }
    if diagram.is_cut {
        parts.warn(format!("a diagram has more than {POINTS_MAX} shapes: its rest was left out"));
    }
    diagram.add(parts);
    Ok(())
}

impl Diagram {
    fn begin(&mut self, tag: &Tag<'_>) {
        let kind = match tag.attribute("type").as_deref() {
            None | Some("node" | "asst") => PointKind::Shape,
            Some("doc") => PointKind::Root,
            Some(_) => PointKind::Other,
        };
        self.is_cut = self.points.len() >= POINTS_MAX;
        if !self.is_cut {
            self.places.insert(tag.attribute("modelId").unwrap_or_default(), self.points.len());
            self.points.push(DiagramPoint { kind, ..DiagramPoint::default() });
        }
    }

    fn write(&mut self, text: &str) {
        if let Some(point) = self.points.last_mut().filter(|_| !self.is_cut) {
            point.text.push_str(text);
        }
    }

    fn link(&mut self, tag: &Tag<'_>) {
        // Connections of other types, such as `presOf`, lead to presentation details.
        let is_below = tag.attribute("type").is_none_or(|kind| kind == "parOf");
        if let (Some(above), Some(below)) = (tag.attribute("srcId"), tag.attribute("destId"))
            && is_below
            && self.links.len() < POINTS_MAX
        {
            self.links.push((above, below, tag.number("srcOrd").unwrap_or_default()));
        }
    }

    fn add(mut self, parts: &mut PartCollector) {
        for (above, below, order) in &self.links {
            if let (Some(above), Some(below)) = (self.places.get(above), self.places.get(below)) {
                self.points[*above].below.push((*order, *below));
            }
        }
        self.points.iter_mut().for_each(|point| point.below.sort_unstable());
        let is_root = |place: &usize| self.points[*place].kind == PointKind::Root;
        // After the tree come the unconnected points of a damaged file.
        let roots = (0..self.points.len()).filter(is_root).chain(0..self.points.len());
        let mut is_told = vec![false; self.points.len()];
        for root in roots {
            let mut open = vec![(root, 0_u8)];
            while let Some((place, depth)) = open.pop() {
                // Points may form a cycle.
                if std::mem::replace(&mut is_told[place], true) {
                    continue;
                }
                let point = &self.points[place];
                if point.kind == PointKind::Shape {
                    parts.item(depth, &point.text);
                }
                let depth = depth.saturating_add(u8::from(point.kind == PointKind::Shape));
                open.extend(point.below.iter().rev().map(|(_, below)| (*below, depth)));
            }
        }
    }
}
