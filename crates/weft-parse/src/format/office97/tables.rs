//! Tables on slides of PowerPoint 97: groups of shapes that are marked as a table, with one shape for each cell.

use super::slide_texts::{SlideRecord, kind, paragraphs, records};
use crate::element::TableElement;
use crate::grid::{header_rows, once_more};

/// Maximum number of tables in one presentation.
const TABLES_MAX: usize = 1_000;
/// Maximum number of cells in one table.
const CELLS_MAX: usize = 20_000;
/// Maximum nesting depth of records.
const DEPTH_MAX: u8 = 16;
/// Number of the property for tables, and the bit in it that marks a table.
const TABLE_PROPERTIES: (u16, u32) = (0x39f, 1);
/// Maximum distance between edges that are considered aligned.
const JITTER: i32 = 4;
/// Type of the line shapes that are drawn between cells.
const LINE: u16 = 20;

/// A table as stored in the file.
#[derive(Debug, PartialEq)]
pub(super) struct SlideTable {
    /// Texts of its non-empty cells, in the order of the file.
    pub texts: Vec<String>,
    pub table: TableElement,
}

/// A cell with its edges.
struct CellShape {
    left: i32,
    top: i32,
    bottom: i32,
    text: String,
}

/// All tables in a presentation, including those on slides that are no longer shown.
pub(super) fn of(stream: &[u8]) -> Vec<SlideTable> {
    let mut tables = Vec::new();
    collect(stream, 0, &mut tables);
    tables
}

fn collect(bytes: &[u8], depth: u8, tables: &mut Vec<SlideTable>) {
    for record in records(bytes).filter(|record| record.is_container && depth < DEPTH_MAX) {
        if tables.len() >= TABLES_MAX {
            return;
        }
        let table = Some(record).filter(|record| record.kind == kind::GROUP).and_then(table);
        match table {
            Some(table) => tables.push(table),
            None => collect(record.body, depth + 1, tables),
        }
    }
}

/// Converts a group of shapes to a table, if it is one.
fn table(group: SlideRecord<'_>) -> Option<SlideTable> {
    let mut shapes = records(group.body).filter(|record| record.kind == kind::SHAPE);
    // The first shape represents the whole group.
    let mut properties = records(shapes.next()?.body).filter(|record| record.kind == kind::MORE_PROPERTIES);
    if !properties.any(says_table) {
        return None;
    }
    let cells: Vec<CellShape> = shapes.filter_map(cell).take(CELLS_MAX).collect();
    let rows = edges(cells.iter().map(|cell| cell.top));
    let columns = edges(cells.iter().map(|cell| cell.left));
    if rows.len().saturating_mul(columns.len()) > CELLS_MAX {
        return None;
    }
    let mut grid = vec![vec![String::new(); columns.len()]; rows.len()];
    let mut repeated = 0;
    for cell in &cells {
        let column = place(&columns, cell.left);
        let first = place(&rows, cell.top);
        // The lower edge of a cell is the upper edge of the next row.
        let last = place(&rows, cell.bottom.saturating_sub(2 * JITTER)).max(first);
        for (row, cells) in grid.iter_mut().enumerate().take(last + 1).skip(first) {
            // A cell that spans rows is repeated in each of them.
            let text = if row == first { cell.text.clone() } else { once_more(&cell.text, &mut repeated) };
            if let Some(place) = cells.get_mut(column).filter(|place| place.is_empty()) {
                *place = text;
            }
        }
    }
    let texts: Vec<String> =
        cells.into_iter().map(|cell| cell.text).filter(|text| !text.is_empty()).collect();
    let header_rows = header_rows(&grid);
    Some(SlideTable { texts, table: TableElement { caption: None, header_rows, rows: grid } })
        .filter(|table| !table.texts.is_empty())
}

/// Whether the properties of a shape, each of which has a number and a value, mark it as a table.
fn says_table(properties: SlideRecord<'_>) -> bool {
    let (all, _) = properties.body.as_chunks::<6>();
    all.iter().take(usize::from(properties.instance)).any(|[low, high, value @ ..]| {
        // The two highest bits do not belong to the number.
        let number = u16::from_le_bytes([*low, *high]) & 0x3fff;
        number == TABLE_PROPERTIES.0 && u32::from_le_bytes(*value) & TABLE_PROPERTIES.1 != 0
    })
}

fn cell(shape: SlideRecord<'_>) -> Option<CellShape> {
    if records(shape.body).any(|one| one.kind == kind::SHAPE_KIND && one.instance == LINE) {
        return None;
    }
    let anchor = records(shape.body).find(|one| one.kind == kind::PLACE_IN_GROUP)?;
    let (four, _) = anchor.body.as_chunks::<4>();
    let [left, top, _, bottom] = four.first_chunk::<4>()?.map(i32::from_le_bytes);
    let text_box = records(shape.body).find(|one| one.kind == kind::TEXT_BOX);
    let texts = text_box.into_iter().flat_map(|text_box| records(text_box.body));
    let texts: Vec<String> = texts.filter_map(|one| one.text()).collect();
    Some(CellShape { left, top, bottom, text: texts.join("\r") })
}

/// Positions where rows or columns begin.
fn edges(places: impl Iterator<Item = i32>) -> Vec<i32> {
    let mut edges: Vec<i32> = places.collect();
    edges.sort_unstable();
    edges.dedup_by(|next, edge| next.saturating_sub(*edge) <= JITTER);
    edges
}

/// Index of the last row or column that begins at or before a position.
fn place(edges: &[i32], at: i32) -> usize {
    edges.partition_point(|edge| *edge <= at.saturating_add(JITTER)).saturating_sub(1)
}

impl SlideTable {
    /// Whether these texts begin with those of the table.
    pub(super) fn begins<'a>(&self, mut texts: impl Iterator<Item = &'a str>) -> bool {
        self.texts.iter().all(|text| texts.next() == Some(text.as_str()))
    }

    /// The table, with the paragraphs of each cell on separate lines.
    pub(super) fn shown(mut self) -> TableElement {
        for cell in self.table.rows.iter_mut().flatten() {
            *cell = paragraphs(cell).collect::<Vec<_>>().join("\n");
        }
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: u16, kind: u16, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(body.len()).unwrap();
        [&version.to_le_bytes()[..], &kind.to_le_bytes(), &size.to_le_bytes(), body].concat()
    }

    /// A shape of some type at a position, with a text.
    fn shape(kind: u16, edges: [i32; 4], text: &str) -> Vec<u8> {
        let edges = edges.map(i32::to_le_bytes).concat();
        let text = record(0, 4008, text.as_bytes());
        let parts = [
            record((kind << 4) | 2, kind::SHAPE_KIND, &[0; 8]),
            record(0, kind::PLACE_IN_GROUP, &edges),
            record(0xf, kind::TEXT_BOX, &text),
        ];
        record(0xf, kind::SHAPE, &parts.concat())
    }

    /// A group on a slide whose properties have this value for tables.
    fn slide(says: u8, shapes: &[Vec<u8>]) -> Vec<u8> {
        let properties = [0x9f, 3, says, 0, 0, 0, 0xa0, 0xc3, 9, 0, 0, 0];
        let whole = record(0xf, kind::SHAPE, &record(0x23, kind::MORE_PROPERTIES, &properties));
        let group = record(0xf, kind::GROUP, &[whole, shapes.concat()].concat());
        record(0xf, 1006, &record(0xf, 1036, &record(0xf, kind::GROUP, &group)))
    }

    #[test]
    fn shape_groups_flagged_as_tables_are_tables() {
        let shapes = [
            shape(1, [0, 0, 100, 50], "Name"),
            shape(1, [100, 0, 300, 50], "Years"),
            shape(LINE, [0, 50, 300, 50], ""),
            shape(1, [1, 50, 100, 150], "Ada"),
            shape(1, [100, 50, 200, 100], "1815"),
            shape(1, [200, 50, 300, 100], "1852"),
            shape(1, [100, 100, 200, 150], ""),
            shape(1, [200, 100, 300, 150], "later"),
        ];
        let found = of(&slide(1, &shapes));
        let texts = ["Name", "Years", "Ada", "1815", "1852", "later"];
        let rows = [["Name", "Years", ""], ["Ada", "1815", "1852"], ["Ada", "", "later"]];
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0].texts[..], &found[0].table.rows[..]),
            (&texts.map(str::to_owned)[..], &rows.map(|row| row.map(str::to_owned).to_vec())[..])
        );
        assert!(of(&slide(0, &shapes)).is_empty());
        assert!(of(&slide(1, &[])).is_empty());
    }
}
