//! Charts, converted to the tables that they display.

mod extended;
mod opendocument;

use std::collections::BTreeMap;

use crate::element::TableElement;
use crate::markup::{Tag, Xml, XmlNode};
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;

pub(super) use opendocument::{InlineObject, ObjectContent, objects};

/// Maximum number of points in one series.
const POINTS_MAX: usize = 10_000;
/// Maximum number of series in one chart.
const SERIES_MAX: usize = 200;
/// Length in bytes beyond which a label is no longer extended by the groups that it is in.
const LABEL_BYTES_MAX: usize = 500;

/// The titles of a chart.
#[derive(Debug, Default)]
pub(super) struct ChartTitles {
    /// Title of the chart.
    pub chart: String,
    /// Title of the axis of the labels.
    pub labels: String,
    /// Title of the axis of the values.
    pub values: String,
}

impl ChartTitles {
    /// The text of one of the titles.
    fn place(&mut self, kind: TitleKind) -> &mut String {
        match kind {
            TitleKind::Chart => &mut self.chart,
            TitleKind::Labels => &mut self.labels,
            TitleKind::Values => &mut self.values,
        }
    }

    /// Whether there are no titles.
    pub(super) fn is_empty(&self) -> bool {
        [&self.chart, &self.labels, &self.values].iter().all(|title| title.trim().is_empty())
    }

    /// Adds the titles to the chart's table: as its caption, and above the labels.
    pub(super) fn above(self, mut table: TableElement) -> TableElement {
        let (chart, values) = (self.chart.trim(), self.values.trim());
        let caption = match (chart, values) {
            (chart, "") => chart.to_owned(),
            ("", values) => values.to_owned(),
            (chart, values) => format!("{chart} ({values})"),
        };
        if let Some(corner) = table.rows.first_mut().and_then(|row| row.first_mut())
            && corner.trim().is_empty()
        {
            *corner = self.labels;
        }
        table.caption = Some(caption);
        table
    }
}

/// What a title belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TitleKind {
    Chart,
    Labels,
    Values,
}

#[derive(Default)]
struct Series {
    name: String,
    labels: BTreeMap<usize, String>,
    values: BTreeMap<usize, String>,
}

/// State of reading a chart.
#[derive(Default)]
struct ChartWalk {
    all: Vec<Series>,
    series: Option<Series>,
    titles: ChartTitles,
    /// The title that is being read.
    title: Option<TitleKind>,
    /// The axis that is being read.
    axis: Option<TitleKind>,
    /// Whether points have two coordinates, so that the first value axis is that of the labels.
    is_scattered: bool,
    /// Whether it displays values that are nowhere else in the file.
    has_own_values: bool,
    point: usize,
    part: String,
}

/// Adds the table of a chart.
pub(super) fn read(text: &str, parts: &mut PartCollector) -> Result<(), Unreadable> {
    let walk = ChartWalk::of(text)?;
    if !walk.all.is_empty() {
        parts.table(walk.table());
    }
    Ok(())
}

/// Adds the table of a chart whose values are not in the cells of its spreadsheet; returns the titles of any other
/// chart.
pub(super) fn read_of_sheet(text: &str, parts: &mut PartCollector) -> Result<ChartTitles, Unreadable> {
    let walk = ChartWalk::of(text)?;
    if walk.has_own_values && !walk.all.is_empty() {
        parts.table(walk.table());
        return Ok(ChartTitles::default());
    }
    Ok(walk.titles)
}

/// Receives the elements of a chart, in order.
trait ChartVisitor: Default {
    fn open(&mut self, tag: &Tag<'_>);

    /// `said` is the text since the last start tag.
    fn close(&mut self, name: &str, said: &str);
}

fn walked<W: ChartVisitor>(text: &str) -> Result<W, Unreadable> {
    let mut xml = Xml::new(text);
    let (mut walk, mut said) = (W::default(), String::new());
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => {
                said.clear();
                walk.open(&tag);
            }
            XmlNode::Text(more) => said.push_str(&more),
            XmlNode::Close(name) => walk.close(&name, &said),
        }
    }
    Ok(walk)
}

impl ChartWalk {
    fn of(text: &str) -> Result<Self, Unreadable> {
        if extended::is_extended(text) { extended::read(text) } else { walked(text) }
    }

    fn begin_title(&mut self) {
        let kind = self.axis.unwrap_or(TitleKind::Chart);
        // Of several titles of one kind the first wins.
        self.title = Some(kind).filter(|kind| self.titles.place(*kind).is_empty());
    }

    fn add_to_title(&mut self, text: &str) {
        if let Some(kind) = self.title {
            self.titles.place(kind).push_str(text);
        }
    }

    fn table(self) -> TableElement {
        let rows = rows(&self.all);
        self.titles.above(TableElement { caption: None, header_rows: 1, rows })
    }
}

impl ChartVisitor for ChartWalk {
    fn open(&mut self, tag: &Tag<'_>) {
        match tag.name() {
            "title" if self.series.is_none() => self.begin_title(),
            "catAx" | "dateAx" => self.axis = Some(TitleKind::Labels),
            "valAx" => {
                let is_first = std::mem::take(&mut self.is_scattered);
                self.axis = Some(if is_first { TitleKind::Labels } else { TitleKind::Values });
            }
            "ser" => self.series = Some(Series::default()),
            "numLit" => self.has_own_values = true,
            name @ ("tx" | "cat" | "val" | "xVal" | "yVal") => {
                self.is_scattered |= name == "xVal";
                name.clone_into(&mut self.part);
            }
            "pt" => {
                self.point = tag.number("idx").unwrap_or_default();
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str, said: &str) {
        match name {
            "t" | "v" if self.title.is_some() => self.add_to_title(said),
            // Another paragraph follows.
            "p" => self.add_to_title(" "),
            "title" => self.title = None,
            "catAx" | "dateAx" | "valAx" => self.axis = None,
            // The values are in another file, or no longer exist.
            "f" => self.has_own_values |= said.contains('[') || said.contains("#REF!"),
            "v" => {
                if let Some(series) = &mut self.series {
                    series.take(&self.part, self.point, said);
                }
            }
            "ser" => {
                let is_full = self.all.len() >= SERIES_MAX;
                self.all.extend(self.series.take().filter(|_| !is_full));
            }
            _ => {}
        }
    }
}

impl Series {
    fn take(&mut self, part: &str, point: usize, text: &str) {
        match part {
            "tx" if self.name.is_empty() => text.clone_into(&mut self.name),
            "cat" | "xVal" if self.labels.len() < POINTS_MAX => {
                let label = self.labels.entry(point).or_default();
                // After the labels come the groups that contain them, each at its first label.
                if label.is_empty() {
                    text.clone_into(label);
                } else if label.len() < LABEL_BYTES_MAX {
                    *label = format!("{text} {label}");
                }
            }
            "val" | "yVal" if self.values.len() < POINTS_MAX => {
                drop(self.values.insert(point, text.to_owned()));
            }
            _ => {}
        }
    }
}

fn rows(all: &[Series]) -> Vec<Vec<String>> {
    let mut labels = BTreeMap::new();
    // Points without a label get a row, too.
    for series in all {
        labels.extend(series.values.keys().map(|point| (*point, String::new())));
    }
    // Reversed, so that the labels of the first series win.
    for series in all.iter().rev() {
        labels.extend(series.labels.clone());
    }
    let mut rows =
        vec![std::iter::once(String::new()).chain(all.iter().map(|series| series.name.clone())).collect()];
    // Each series may have different points.
    for (point, label) in labels.into_iter().take(POINTS_MAX) {
        let values = all.iter().map(|series| series.values.get(&point).cloned().unwrap_or_default());
        rows.push(std::iter::once(label).chain(values).collect::<Vec<_>>());
    }
    rows
}
