//! A chart as the table that it shows.

mod extended;
mod opendocument;

use std::collections::BTreeMap;

use super::Unreadable;
use crate::element::TableElement;
use crate::markup::{Tag, Xml, XmlNode};
use crate::parts::PartCollector;

pub(super) use opendocument::{InlineObject, ObjectContent, objects};

/// Points of one series, at most.
const POINTS_MAX: usize = 10_000;
/// Series of one chart, at most.
const SERIES_MAX: usize = 200;
/// Bytes of a label that groups of labels still make longer.
const LABEL_BYTES_MAX: usize = 500;

/// What is written around a chart.
#[derive(Debug, Default)]
pub(super) struct ChartTitles {
    /// Its own title.
    pub chart: String,
    /// What its labels are: the title of their axis.
    pub labels: String,
    /// What its values are.
    pub values: String,
}

impl ChartTitles {
    /// Where the text of one of them goes.
    fn place(&mut self, kind: TitleKind) -> &mut String {
        match kind {
            TitleKind::Chart => &mut self.chart,
            TitleKind::Labels => &mut self.labels,
            TitleKind::Values => &mut self.values,
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        [&self.chart, &self.labels, &self.values].iter().all(|title| title.trim().is_empty())
    }

    /// The table of the chart under its title. That of the labels stands above these.
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

/// Of what something is the title.
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

/// What is read of a chart.
#[derive(Default)]
struct ChartWalk {
    all: Vec<Series>,
    series: Option<Series>,
    titles: ChartTitles,
    /// The title that is being read.
    title: Option<TitleKind>,
    /// The axis that is being read.
    axis: Option<TitleKind>,
    /// Whether its points have two numbers, and the first axis of values is that of the labels.
    is_scattered: bool,
    /// Whether some of what it shows stands nowhere else in the file.
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

/// Adds the table of a chart whose values do not stand in the cells of its spreadsheet; what is written around any other.
pub(super) fn read_of_sheet(text: &str, parts: &mut PartCollector) -> Result<ChartTitles, Unreadable> {
    let walk = ChartWalk::of(text)?;
    if walk.has_own_values && !walk.all.is_empty() {
        parts.table(walk.table());
        return Ok(ChartTitles::default());
    }
    Ok(walk.titles)
}

/// What hears of the elements of a chart, in their order.
trait Walk: Default {
    fn open(&mut self, tag: &Tag<'_>);

    /// `said` is the text since the last beginning of an element.
    fn close(&mut self, name: &str, said: &str);
}

fn walked<W: Walk>(text: &str) -> Result<W, Unreadable> {
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
        // Of several of a kind the first one counts.
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

impl Walk for ChartWalk {
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
            // What follows is another paragraph.
            "p" => self.add_to_title(" "),
            "title" => self.title = None,
            "catAx" | "dateAx" | "valAx" => self.axis = None,
            // Another file has them, or nothing has them any more.
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
                // Behind the labels come the groups that they are in, each at its first label.
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
    rows
}
