//! What the formats of Office have in common: parts that name each other, and what they say of
//! themselves.

use std::collections::HashMap;

use super::Unreadable;
use crate::archive::{Archive, beside};
use crate::markup::{Xml, XmlNode, written};
use crate::parts::PartCollector;

/// Bytes of an address, at most. It stands in a file once, and behind every link to it.
pub(super) const ADDRESS_BYTES_MAX: usize = 2_000;

/// What one part of a file says of another, or of an address.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    /// What the other is to this one: the last word of its type.
    pub kind: String,
    /// The path of the other within the file, or an address.
    pub target: String,
    /// Whether the target is an address outside the file.
    pub is_outside: bool,
}

/// The relations of a part by their ids; none when it has none.
pub(super) fn relations(
    archive: &mut Archive<'_>,
    part: &str,
) -> Result<HashMap<String, Relation>, Unreadable> {
    let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
    let path =
        if folder.is_empty() { format!("_rels/{name}.rels") } else { format!("{folder}/_rels/{name}.rels") };
    let mut relations = HashMap::new();
    let Some(text) = xml(archive, &path)? else { return Ok(relations) };
    let mut xml = Xml::new(&text);
    while let Some(node) = xml.next()? {
        let XmlNode::Open(tag) = node else { continue };
        if let (Some(id), Some(kind), Some(target)) =
            (tag.attribute("Id"), tag.attribute("Type"), tag.attribute("Target"))
            && target.len() <= ADDRESS_BYTES_MAX
        {
            let is_outside = tag.attribute("TargetMode").as_deref() == Some("External");
            let target = if is_outside { target } else { beside(part, &target) };
            let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
            relations.insert(id, Relation { kind, target, is_outside });
        }
    }
    Ok(relations)
}

/// The paths of the pictures among the relations of a part, in the order of their names.
pub(super) fn pictures(relations: HashMap<String, Relation>) -> Vec<String> {
    let pictures = relations.into_values().filter(|one| one.kind == "image" && !one.is_outside);
    let mut paths: Vec<String> = pictures.map(|one| one.target).collect();
    in_order(&mut paths);
    paths
}

/// The paths of the parts of one kind among the relations of a part, in the order of their names.
pub(super) fn of_kind(relations: &HashMap<String, Relation>, kind: &str) -> Vec<String> {
    let parts = relations.values().filter(|one| one.kind == kind && !one.is_outside);
    let mut paths: Vec<String> = parts.map(|one| one.target.clone()).collect();
    in_order(&mut paths);
    paths
}

/// Sorts paths that end in numbers as people count: 2 comes before 10.
pub(super) fn in_order(paths: &mut [String]) {
    paths.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
}

/// The path of the part that everything hangs on.
pub(super) fn main_part(archive: &mut Archive<'_>, usual: &str) -> Result<String, Unreadable> {
    let relations = relations(archive, "")?;
    let main = relations.into_values().find(|relation| relation.kind == "officeDocument");
    Ok(main.map_or_else(|| usual.to_owned(), |relation| relation.target))
}

/// A part as text, if there is one.
pub(super) fn xml(archive: &mut Archive<'_>, name: &str) -> Result<Option<String>, Unreadable> {
    Ok(archive.read(name)?.map(|bytes| written(&bytes)))
}

/// Title, author and date, as the file's properties have them.
pub(super) fn properties(archive: &mut Archive<'_>, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let Some(text) = xml(archive, "docProps/core.xml")? else { return Ok(()) };
    let mut dates = [String::new(), String::new()];
    each_said(&text, |name, said| match name {
        "title" => parts.say("title", said),
        "creator" => parts.say("author", said),
        "modified" => said.clone_into(&mut dates[0]),
        "created" => said.clone_into(&mut dates[1]),
        _ => {}
    })?;
    for date in dates {
        parts.say("date", &date);
    }
    Ok(())
}

/// Tells the elements of a plain list: the name of each, and the text since the last one began.
pub(super) fn each_said(text: &str, mut take: impl FnMut(&str, &str)) -> Result<(), Unreadable> {
    let mut xml = Xml::new(text);
    let mut said = String::new();
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(_) => said.clear(),
            XmlNode::Text(text) => said.push_str(&text),
            XmlNode::Close(name) => take(&name, &said),
        }
    }
    Ok(())
}

/// Adds the address of a link to its text, when it leads out of the file and is not shown anyway.
pub(super) fn end_link(text: &mut String, start: usize, address: &str) {
    let shown = text.get(start..).unwrap_or_default();
    let leads_out =
        ["http://", "https://", "mailto:", "ftp://"].iter().any(|scheme| address.starts_with(scheme));
    if leads_out && !shown.trim().is_empty() && !shown.contains(address.trim_start_matches("mailto:")) {
        text.push_str(&format!(" ({address})"));
    }
}
