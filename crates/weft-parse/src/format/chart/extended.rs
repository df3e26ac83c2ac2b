//! Charts of newer kinds: waterfalls, funnels, trees of rectangles and the like. Their values stand apart from their series.

use std::collections::HashMap;

use super::{ChartWalk, SERIES_MAX, Series, TitleKind, Walk, walked};
use crate::format::Unreadable;
use crate::markup::Tag;
use crate::words::beginning;

/// Bytes at the beginning of a chart that say of which kind it is.
const LOOKED_AT: usize = 2_000;
/// Characters of an id, at most. Each point is put where it says.
const ID_CHARS_MAX: usize = 100;

/// Where the reader is in a chart.
#[derive(Default)]
struct ExtendedWalk {
    chart: ChartWalk,
    /// The labels and values, by their ids.
    data: HashMap<String, Series>,
    /// The values that are being read, or those that a series has.
    id: String,
    /// The name of the series that is being read.
    name: Option<String>,
    /// Whether the title that is being read has been told, and stands there once more with its letters.
    is_told: bool,
}

/// Whether a chart is one of these.
pub(super) fn is_extended(text: &str) -> bool {
    text[..text.floor_char_boundary(LOOKED_AT)].contains("/chartex")
}

fn id(tag: &Tag<'_>, attribute: &str) -> String {
    beginning(&tag.attribute(attribute).unwrap_or_default(), ID_CHARS_MAX).to_owned()
}

/// Reads it.
pub(super) fn read(text: &str) -> Result<ChartWalk, Unreadable> {
    walked::<ExtendedWalk>(text).map(|walk| walk.chart)
}

impl Walk for ExtendedWalk {
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
            // What follows is another paragraph.
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
