//! A chart as the table that it shows.

use std::collections::BTreeMap;

use super::Unreadable;
use crate::element::TableElement;
use crate::markup::{Xml, XmlNode};
use crate::parts::PartCollector;

/// Points of one series, at most.
const POINTS_MAX: usize = 10_000;
/// Series of one chart, at most.
const SERIES_MAX: usize = 200;

#[derive(Default)]
struct Series {
    name: String,
    labels: BTreeMap<usize, String>,
    values: BTreeMap<usize, String>,
}

/// Adds the table of a chart.
pub(super) fn read(text: &str, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let mut xml = Xml::new(text);
    let (mut all, mut series) = (Vec::new(), None::<Series>);
    let (mut title, mut text, mut point, mut part) = (String::new(), String::new(), 0, String::new());
    let mut in_title = false;
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => {
                text.clear();
                match tag.name() {
                    "title" => in_title = series.is_none() && title.is_empty(),
                    "ser" => series = Some(Series::default()),
                    name @ ("tx" | "cat" | "val" | "xVal" | "yVal") => name.clone_into(&mut part),
                    "pt" => {
                        point = tag.attribute("idx").and_then(|index| index.parse().ok()).unwrap_or_default();
                    }
                    _ => {}
                }
            }
            XmlNode::Text(more) => text.push_str(&more),
            XmlNode::Close(name) => match name.as_str() {
                "t" if in_title => title.push_str(&text),
                "title" => in_title = false,
                "v" => {
                    if let Some(series) = &mut series {
                        series.take(&part, point, &text);
                    }
                }
                "ser" => all.extend(series.take().filter(|_| all.len() < SERIES_MAX)),
                _ => {}
            },
        }
    }
    if !all.is_empty() {
        parts.table(table(title, &all));
    }
    Ok(())
}

impl Series {
    fn take(&mut self, part: &str, point: usize, text: &str) {
        match part {
            "tx" if self.name.is_empty() => text.clone_into(&mut self.name),
            "cat" | "xVal" if self.labels.len() < POINTS_MAX => {
                drop(self.labels.insert(point, text.to_owned()));
            }
            "val" | "yVal" if self.values.len() < POINTS_MAX => {
                drop(self.values.insert(point, text.to_owned()));
            }
            _ => {}
        }
    }
}

fn table(title: String, all: &[Series]) -> TableElement {
    let mut labels = BTreeMap::new();
    // Points without a label have their row, too.
    for series in all {
        labels.extend(series.values.keys().map(|point| (*point, String::new())));
    }
    // Backwards, so that the labels of the first series are those that stay.
    for series in all.iter().rev() {
        labels.extend(series.labels.clone());
    }
    let mut rows =
        vec![std::iter::once(String::new()).chain(all.iter().map(|series| series.name.clone())).collect()];
    // Each series may have points of its own.
    for (point, label) in labels.into_iter().take(POINTS_MAX) {
        let values = all.iter().map(|series| series.values.get(&point).cloned().unwrap_or_default());
        rows.push(std::iter::once(label).chain(values).collect::<Vec<_>>());
    }
    TableElement { caption: Some(title), header_rows: 1, rows }
}
