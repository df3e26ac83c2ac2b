//! Code shared by the Office formats: relations between parts, and document properties.

use std::collections::HashMap;

use crate::archive::{Archive, beside};
use crate::markup::{Xml, XmlNode, written};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;

/// Maximum size of an address, in bytes. It is stored once but repeated after every link that uses it.
pub(super) const ADDRESS_BYTES_MAX: usize = 2_000;

/// A relation from one part of a file to another part or to an address.
#[derive(Clone, Debug)]
pub(super) struct OfficeRelation {
    /// Kind of the target: the last component of the relation's type.
    pub kind: String,
    /// Path of the target within the file, or an address.
    pub target: String,
    /// Whether the target is an address outside the file.
    pub is_outside: bool,
}

/// Relations of a part, by id; empty if it has none.
pub(super) fn relations(
    archive: &mut Archive<'_>,
    part: &str,
) -> Result<HashMap<String, OfficeRelation>, Unreadable> {
    let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
    // The relations of the file itself are in `_rels/.rels`.
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
            // Strict files use other addresses for the types, but their last components are the same.
            let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
            relations.insert(id, OfficeRelation { kind, target, is_outside });
        }
    }
    Ok(relations)
}

/// Paths of the pictures among the relations of a part, sorted by name.
pub(super) fn pictures(relations: HashMap<String, OfficeRelation>) -> Vec<String> {
    let pictures = relations.into_values().filter(|one| one.kind == "image" && !one.is_outside);
    let mut paths: Vec<String> = pictures.map(|one| one.target).collect();
    in_order(&mut paths);
    paths
}

/// Paths of the parts of one kind among the relations of a part, sorted by name.
pub(super) fn of_kind(relations: &HashMap<String, OfficeRelation>, kind: &str) -> Vec<String> {
    let parts = relations.values().filter(|one| one.kind == kind && !one.is_outside);
    let mut paths: Vec<String> = parts.map(|one| one.target.clone()).collect();
    in_order(&mut paths);
    paths
}

/// Sorts numbered paths numerically: 2 comes before 10.
pub(super) fn in_order(paths: &mut [String]) {
    paths.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
}

/// Path of the main part.
pub(super) fn main_part(archive: &mut Archive<'_>, usual: &str) -> Result<String, Unreadable> {
    let relations = relations(archive, "")?;
    let main = relations.into_values().find(|relation| relation.kind == "officeDocument");
    Ok(main.map_or_else(|| usual.to_owned(), |relation| relation.target))
}

/// Text of a part, if the part exists.
pub(super) fn xml(archive: &mut Archive<'_>, name: &str) -> Result<Option<String>, Unreadable> {
    Ok(archive.read(name)?.map(|bytes| written(&bytes)))
}

/// Adds title, author and date from the document properties.
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
    // The first one that is not empty wins.
    for date in dates {
        parts.say("date", &date);
    }
    Ok(())
}

/// Calls `take` for each element of a flat list, with its name and the text since the last start tag.
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

/// Appends the address of a link to its text if it leads out of the file and is not already shown.
pub(super) fn end_link(text: &mut String, start: usize, address: &str) {
    let shown = text.get(start..).unwrap_or_default();
    let leads_out =
        ["http://", "https://", "mailto:", "ftp://"].iter().any(|scheme| address.starts_with(scheme));
    if leads_out && !shown.trim().is_empty() && !shown.contains(address.trim_start_matches("mailto:")) {
        text.push_str(&format!(" ({address})"));
    }
}
