//! Newer kinds of charts, such as waterfalls, funnels and treemaps. Their values are stored apart from their series.

use std::collections::HashMap;

use super::{ChartVisitor, ChartWalk, SERIES_MAX, Series, TitleKind, walked};
use crate::markup::Tag;
use crate::unreadable::Unreadable;
use crate::words::beginning;

/// Number of bytes at the beginning of a chart that show its kind.
const LOOKED_AT: usize = 2_000;
/// Maximum number of characters in an id, since it is used for each point.
const ID_CHARS_MAX: usize = 100;

/// State of reading a chart.
#[derive(Default)]
struct ExtendedWalk {
    chart: ChartWalk,
    /// Labels and values, by their ids.
    data: HashMap<String, Series>,
    /// Id of the values that are being read, or of those of the current series.
    id: String,
    /// Name of the series that is being read.
    name: Option<String>,
    /// Whether the text of the current title is known already, and its formatted form repeats it.
    is_told: bool,
}

/// Whether a chart is of one of these kinds.
pub(super) fn is_extended(text: &str) -> bool {
    text[..text.floor_char_boundary(LOOKED_AT)].contains("/chartex")
}

fn id(tag: &Tag<'_>, attribute: &str) -> String {
    beginning(&tag.attribute(attribute).unwrap_or_default(), ID_CHARS_MAX).to_owned()
}

/// Reads a chart of the newer format (`chartex`), which differs from that of older charts.
pub(super) fn read(text: &str) -> Result<ChartWalk, Unreadable> {
    walked::<ExtendedWalk>(text).map(|walk| walk.chart)
}

impl ChartVisitor for ExtendedWalk {
    fn open(&mut self, tag: &Tag<'_>) {
        match tag.name() {
            "data" => self.id = id(tag, "id"),
            "strDim" | "numDim" => {
                self.chart.part = match tag.attribute("type").as_deref() {
                    Some("cat" | "x") => "cat",
                    Some("val" | "y" | "size") => "val",
                    _ => "",
                }
                .to_owned();
            }
            "pt" => self.chart.point = tag.number("idx").unwrap_or_default(),
            "series" => {
                self.name = Some(String::new());
                self.id.clear();
            }
            "dataId" if self.name.is_some() => self.id = id(tag, "val"),
            "catScaling" => self.chart.axis = Some(TitleKind::Labels),
            "valScaling" => self.chart.axis = Some(TitleKind::Values),
            "title" if self.name.is_none() => {
                self.chart.begin_title();
                self.is_told = false;
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str, said: &str) {
        match name {
            "v" if self.chart.title.is_some() => {
                self.chart.add_to_title(said);
                self.is_told = true;
            }
            "v" => {
                if let Some(name) = self.name.as_mut().filter(|name| name.is_empty()) {
                    said.clone_into(name);
                }
            }
            "t" if !self.is_told => self.chart.add_to_title(said),
            // Another paragraph follows.
            "p" if !self.is_told => self.chart.add_to_title(" "),
            "title" => self.chart.title = None,
            "axis" => self.chart.axis = None,
            "pt" => {
                let data = self.data.entry(self.id.clone()).or_default();
                data.take(&self.chart.part, self.chart.point, said);
            }
            "series" => {
                let name = self.name.take().unwrap_or_default();
                if let Some(data) = self.data.remove(&self.id)
                    && self.chart.all.len() < SERIES_MAX
                {
                    self.chart.all.push(Series { name, ..data });
                }
            }
            _ => {}
        }
    }
}
