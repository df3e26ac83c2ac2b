//! Tables with ruled lines between their cells.
//!
//! Crossing lines form a grid. Fields of the grid without a line between them are one cell, whose text is everything
//! within it, line by line, so that a wrapped text stays together.

use std::collections::BTreeMap;

use weft_core::seam::document_reader::Position;

use super::frame::PageFrame;
use super::line::{PageLine, PlacedTable};
use super::order;
use super::pieces::TextTurn;
use super::rules::{RuledLine, Rules, root, unite};
use crate::words::{join, line};

/// Maximum number of columns of a table.
const COLUMNS_MAX: usize = 64;
/// Maximum number of rows between the lines of a table.
const ROWS_MAX: usize = 1_000;
/// Lines that extend this far, in points, beyond the last line of the other direction enclose another row or column
/// there, whose outer edge is not drawn.
const OPEN_END: f32 = 8.0;
/// Minimum proportion of cells with text, as one in this many; otherwise it is a drawing.
const FILLED_MIN: usize = 10;
/// Minimum number of cells with text.
const CELLS_MIN: usize = 4;
/// Minimum number of cells in a table that fills its page to the edges; fewer are the parts of a slide or a poster.
const PAGE_CELLS_MIN: usize = 24;
/// Maximum average number of characters in a cell; longer ones are a page laid out in boxes.
const CELL_CHARS_MAX: usize = 800;
/// Maximum number of horizontal lines, not counting the last one, of a table in which most rows have none.
const FEW_BANDS: usize = 5;
/// Minimum number of text rows between two lines that can be rows of the table.
const SPLIT_MIN: usize = 3;

/// Lines of a page that may form a table.
pub(super) struct RuledArea {
    place: Position,
    rules: Rules,
    /// Whether they fill the page from one edge to the other.
    is_page: bool,
}

/// The areas of a page that may contain tables, smallest first, because one may be in a cell of another.
pub(super) fn areas(rules: &Rules, frame: PageFrame) -> Vec<RuledArea> {
    let groups = rules.groups().into_iter().filter(|group| group.across.len() > 1);
    let areas = groups.map(|rules| {
        let place = rules.place(frame.page);
        RuledArea { is_page: area(place) > frame.area() * 0.9, place, rules }
    });
    let mut areas: Vec<RuledArea> = areas.collect();
    areas.sort_by(|one, other| area(one.place).total_cmp(&area(other.place)));
    areas
}

fn area(place: Position) -> f32 {
    (place.right - place.left) * (place.bottom - place.top)
}

impl RuledArea {
    /// Whether the centre of a rectangle lies in the area.
    pub(super) fn holds(&self, place: Position) -> bool {
        let (x, y) = middle(place);
        (self.place.left..=self.place.right).contains(&x) && (self.place.top..=self.place.bottom).contains(&y)
    }

    /// Positions where vertical lines cut a piece of text, from left to right.
    pub(super) fn through(&self, piece: Position) -> Vec<f32> {
        self.rules.through(piece)
    }

    /// Builds the table, if the lines form one with this text in it.
    pub(super) fn table(&self, pieces: &[(TextTurn, PageLine)]) -> Option<PlacedTable> {
        let turn = usual_turn(pieces)?;
        let upright = pieces.iter().map(|(_, piece)| {
            let mut piece = piece.clone();
            piece.place = turn.upright(piece.place);
            piece
        });
        let grid = TableGrid::of(&self.rules.upright(turn))?;
        if self.is_page && grid.cells().count() < PAGE_CELLS_MIN {
            return None;
        }
        let rows = grid.rows(upright)?;
        Some((rows, self.place))
    }
}

/// The most frequent turn, by the number of letters.
fn usual_turn(pieces: &[(TextTurn, PageLine)]) -> Option<TextTurn> {
    let mut letters: BTreeMap<TextTurn, usize> = BTreeMap::new();
    for (turn, piece) in pieces {
        *letters.entry(*turn).or_default() += piece.text.len();
    }
    let most = letters.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(turn, _)| turn).filter(|turn| *turn != TextTurn::Slanted)
}

fn middle(place: Position) -> (f32, f32) {
    ((place.left + place.right) / 2.0, (place.top + place.bottom) / 2.0)
}

/// The grid that the lines of a table form.
struct TableGrid {
    /// Edges of its columns: one more than there are columns.
    xs: Vec<f32>,
    /// Edges of its rows.
    ys: Vec<f32>,
    /// For each field, row by row, the index of the first field of its cell.
    cells: Vec<usize>,
}

impl TableGrid {
    fn of(rules: &Rules) -> Option<Self> {
        let xs = edges(&rules.down, &rules.across);
        let ys = edges(&rules.across, &rules.down);
        let (columns, rows) = (xs.len().checked_sub(1)?, ys.len().checked_sub(1)?);
        if !(2..=COLUMNS_MAX).contains(&columns) || !(1..=ROWS_MAX).contains(&rows) {
            return None;
        }
        let mut cells: Vec<usize> = (0..columns * rows).collect();
        let between = |rules: &[RuledLine], at: f32, from: f32, to: f32| {
            rules.iter().any(|rule| (rule.at - at).abs() < 1.0 && rule.covers(from, to))
        };
        for row in 0..rows {
            for column in 0..columns {
                let field = row * columns + column;
                if column + 1 < columns && !between(&rules.down, xs[column + 1], ys[row], ys[row + 1]) {
                    unite(&mut cells, field, field + 1);
                }
                if row + 1 < rows && !between(&rules.across, ys[row + 1], xs[column], xs[column + 1]) {
                    unite(&mut cells, field, field + columns);
                }
            }
        }
        for field in 0..cells.len() {
            cells[field] = root(&mut cells, field);
        }
        let grid = Self { xs, ys, cells };
        grid.has_straight_cells().then_some(grid)
    }

    /// The cells, each identified by its first field.
    fn cells(&self) -> impl Iterator<Item = usize> {
        self.cells.iter().enumerate().filter(|(field, cell)| field == *cell).map(|(field, _)| field)
    }

    fn columns(&self) -> usize {
        self.xs.len() - 1
    }

    /// Whether nearly all cells have four corners: the space around the boxes of a drawing has more.
    fn has_straight_cells(&self) -> bool {
        let columns = self.columns();
        let mut parts: BTreeMap<usize, (usize, [usize; 4])> = BTreeMap::new();
        for (field, cell) in self.cells.iter().enumerate() {
            let (row, column) = (field / columns, field % columns);
            let (count, ends) = parts.entry(*cell).or_insert((0, [row, row, column, column]));
            *count += 1;
            *ends = [ends[0].min(row), ends[1].max(row), ends[2].min(column), ends[3].max(column)];
        }
        let odd = parts
            .values()
            .filter(|(count, [top, bottom, left, right])| (bottom - top + 1) * (right - left + 1) != *count);
        odd.map(|(count, _)| count).sum::<usize>() * 5 <= self.cells.len()
    }

    /// Divides the text of a cell that spans several columns if each part of it keeps to one column: in striped tables
    /// every other row has no lines.
    fn divide(&self, texts: &mut BTreeMap<usize, Vec<PageLine>>) {
        let columns = self.columns();
        for cell in texts.keys().copied().collect::<Vec<_>>() {
            let (first, row) = (cell % columns, cell / columns);
            let last = (first..columns).take_while(|at| self.cells[row * columns + at] == cell).last();
            let Some(last) = last.filter(|last| *last > first) else { continue };
            let parts = order::parts(texts.get(&cell).cloned().unwrap_or_default());
            let of = |x: f32| interval(&self.xs, x).clamp(first, last);
            let is_apart = |part: &PageLine| of(part.place.left + 1.0) == of(part.place.right - 1.0);
            let mut divided: BTreeMap<usize, Vec<PageLine>> = BTreeMap::new();
            if parts.iter().all(is_apart) {
                for part in parts {
                    divided.entry(row * columns + of(part.place.left + 1.0)).or_default().push(part);
                }
            }
            if divided.len() > 1 {
                texts.remove(&cell);
                texts.extend(divided);
            }
        }
    }

    /// Whether two cells with text share an edge. The boxes of a drawing do not.
    fn has_neighbours(&self, texts: &BTreeMap<usize, Vec<PageLine>>) -> bool {
        self.cells.chunks_exact(self.columns()).any(|row| {
            row.windows(2).any(|two| two[0] != two[1] && two.iter().all(|cell| texts.contains_key(cell)))
        })
    }

    /// The rows of the table with their text; `None` if this is not a table.
    fn rows(&self, pieces: impl Iterator<Item = PageLine>) -> Option<Vec<Vec<String>>> {
        let mut texts: BTreeMap<usize, Vec<PageLine>> = BTreeMap::new();
        for piece in pieces {
            let (x, y) = middle(piece.place);
            let column = interval(&self.xs, x);
            let row = interval(&self.ys, y);
            let cell = self.cells[row * self.columns() + column];
            texts.entry(cell).or_default().push(piece);
        }
        self.divide(&mut texts);
        let cells = self.cells().count();
        let letters: usize = texts.values().flatten().map(|piece| piece.text.len()).sum();
        if texts.len() < CELLS_MIN
            || texts.len() * FILLED_MIN < cells
            || letters > texts.len() * CELL_CHARS_MAX
        {
            return None;
        }
        if !self.has_neighbours(&texts) {
            return None;
        }
        let mut lines: BTreeMap<usize, Vec<PageLine>> =
            texts.into_iter().map(|(cell, pieces)| (cell, order::lines(pieces))).collect();
        let bands = self.ys.len() - 1;
        let mut rows = Vec::new();
        for band in 0..bands {
            let cells = (0..self.columns())
                .map(|column| lines.remove(&(band * self.columns() + column)).unwrap_or_default());
            rows.extend(self.band(&cells.collect::<Vec<_>>(), bands)?);
        }
        without_blanks(&mut rows);
        let most = rows.iter().map(|row| row.iter().filter(|cell| !cell.is_empty()).count()).max();
        (rows.len() > 1 && most > Some(1)).then_some(rows)
    }

    /// The rows between two lines: one row, unless only the header and the end of the table have lines below them.
    /// `None` if such rows have more columns than the lines separate: their positions then tell more than the lines.
    fn band(&self, cells: &[Vec<PageLine>], bands: usize) -> Option<Vec<Vec<String>>> {
        let starts = if bands <= FEW_BANDS { self.starts(cells) } else { Vec::new() };
        if starts.len() < SPLIT_MIN {
            return Some(vec![cells.iter().map(text).collect()]);
        }
        let has_columns =
            |lines: &Vec<PageLine>| lines.iter().filter(|line| line.has_cells).count() * 2 > lines.len();
        if cells.iter().any(has_columns) {
            return None;
        }
        let of_row = |number: usize, line: &&PageLine| {
            let y = middle(line.place).1;
            let is_above = |start: &f32| *start <= y;
            starts.partition_point(is_above).max(1) - 1 == number
        };
        let row = |number: usize| {
            let part = |lines: &Vec<PageLine>| text(lines.iter().filter(|line| of_row(number, line)));
            cells.iter().map(part).collect()
        };
        Some((0..starts.len()).map(row).collect())
    }

    /// Vertical positions where rows begin that have no lines between them: where a line of the first column is next to
    /// lines of at least half of the other columns. Empty if the lines of a cell form one text.
    fn starts(&self, cells: &[Vec<PageLine>]) -> Vec<f32> {
        let filled: Vec<(usize, &Vec<PageLine>)> =
            cells.iter().enumerate().filter(|(_, lines)| !lines.is_empty()).collect();
        let Some((_, first)) = filled.first() else { return Vec::new() };
        let breaks = filled.iter().flat_map(|(column, lines)| {
            let width = self.xs[column + 1] - self.xs[*column];
            lines.windows(2).map(move |two| is_end(&two[0], &two[1], width))
        });
        let (ends, all) = breaks.fold((0, 0), |(ends, all), is_end| (ends + usize::from(is_end), all + 1));
        if filled.len() < 2 || ends * 2 <= all {
            return Vec::new();
        }
        let is_beside = |line: &PageLine, lines: &[PageLine]| {
            lines.iter().any(|other| {
                let overlap = line.place.bottom.min(other.place.bottom) - line.place.top.max(other.place.top);
                overlap > 0.5 * (line.place.bottom - line.place.top)
            })
        };
        let starts = first.iter().filter(|line| {
            let beside = filled.iter().filter(|(_, lines)| is_beside(line, lines)).count();
            beside > 1 && beside * 2 >= filled.len()
        });
        starts.map(|line| line.place.top).collect()
    }
}

/// Whether a line ends although the first word of the next one would have fitted into a cell of this width. Numbers,
/// and entries with dot leaders, never continue.
fn is_end(line: &PageLine, next: &PageLine, width: f32) -> bool {
    let letters = next.text.chars().count().max(1);
    let word = next.text.split_whitespace().next().map_or(0, |word| word.chars().count());
    #[expect(clippy::cast_precision_loss, reason = "the length of a line")]
    let room = (next.place.right - next.place.left) * (word + 1) as f32 / letters as f32;
    let are_numbers = ![line, next].iter().any(|line| line.text.contains(char::is_alphabetic));
    let has_leader = line.text.trim_end().ends_with(['.', '…']) && line.text.contains("....");
    // Cells have a padding of about half the type size on both sides.
    are_numbers || has_leader || line.place.right - line.place.left + room + line.size < width
}

/// Text of a cell.
fn text<'a>(lines: impl IntoIterator<Item = &'a PageLine>) -> String {
    lines.into_iter().fold(String::new(), |text, next| join(text, &line(&next.text)))
}

/// Removes rows and columns without any text.
fn without_blanks(rows: &mut Vec<Vec<String>>) {
    rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
    let columns = rows.first().map_or(0, Vec::len);
    for column in (0..columns).rev() {
        if rows.iter().all(|row| row[column].is_empty()) {
            for row in rows.iter_mut() {
                row.remove(column);
            }
        }
    }
}

/// Edges of rows or columns: the positions of lines, and the ends of those in the other direction.
fn edges(rules: &[RuledLine], beside: &[RuledLine]) -> Vec<f32> {
    let mut edges: Vec<f32> = rules.iter().map(|rule| rule.at).collect();
    edges.dedup();
    let (Some(first), Some(last)) = (edges.first().copied(), edges.last().copied()) else { return edges };
    // Negated, so that both sides are measured outwards.
    if let Some(open) = open_end(beside.iter().map(|rule| -rule.from), -first) {
        edges.insert(0, -open);
    }
    if let Some(open) = open_end(beside.iter().map(|rule| rule.to), last) {
        edges.push(open);
    }
    edges
}

/// Position of an outer edge that is not drawn: where lines extend beyond the last one of the other direction. A single
/// line among many that extends farther does not count.
fn open_end(ends: impl Iterator<Item = f32>, last: f32) -> Option<f32> {
    let mut ends: Vec<f32> = ends.collect();
    ends.sort_by(|one, other| other.total_cmp(one));
    let farthest = *ends.first()?;
    let there = ends.iter().filter(|end| farthest - **end < OPEN_END).count();
    let open = if there * 3 >= ends.len() { farthest } else { *ends.get(1)? };
    (open > last + OPEN_END).then_some(open)
}

/// Index of the interval that contains a number; the first or last one if it is outside.
fn interval(edges: &[f32], at: f32) -> usize {
    edges.partition_point(|edge| *edge <= at).clamp(1, edges.len() - 1) - 1
}
