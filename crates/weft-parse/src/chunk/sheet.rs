//! Chunking of spreadsheets: rows with the names of their columns.

use super::draft::{Children, Cutting, PieceDraft};
use super::flow::{Flow, Placed, SpanRole, TablePlacement};
use super::settings::SheetStyle;
use super::source::ChunkSource;
use super::writer::PieceWriter;
use crate::element::{Element, ElementBody, TableElement};

/// Number of spreadsheet rows in one HTML table.
const ROWS_OF_HTML: usize = 12;
/// File name extensions of spreadsheets.
const ENDINGS: [&str; 12] =
    ["xlsx", "xls", "xlsm", "xlsb", "xltx", "ods", "fods", "csv", "tsv", "tab", "psv", "et"];

/// Whether a document is a spreadsheet: its extension is that of one, and it consists of tables only.
pub(crate) fn is_sheet(source: &ChunkSource<'_>) -> bool {
    ENDINGS.contains(&source.ending.as_str())
        && source.placed.iter().all(|placed| matches!(placed.element.body, ElementBody::Table(_)))
}

/// The names of the columns, and the number of rows that they take. Spreadsheets do not mark their headers; the first
/// row is taken for one if it contains texts and no number.
pub(crate) fn header(table: &TableElement) -> (Vec<String>, usize) {
    let first_is_header = || {
        let filled = |cell: &&String| !cell.trim().is_empty();
        let is_text = |cell: &String| cell.trim().parse::<f64>().is_err();
        let first = table.rows.first().map(Vec::as_slice).unwrap_or_default();
        table.rows.len() > 1 && first.iter().filter(filled).all(is_text) && first.iter().any(|c| filled(&c))
    };
    let count = match table.header_rows.min(table.rows.len()) {
        0 => usize::from(first_is_header()),
        count => count,
    };
    (names(&table.rows[..count]), count)
}

/// Column names of a header with several rows.
pub(crate) fn names(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let name = |column: usize| {
        let mut parts: Vec<&str> =
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.trim()).collect();
        // A cell that spans several rows is repeated in each of them.
        parts.dedup();
        parts.retain(|part| !part.is_empty());
        parts.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    (0..columns).map(name).collect()
}

/// Cuts a spreadsheet for the naive method.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Cutting {
    match source.settings.sheets {
        SheetStyle::Lines => lines(source),
        SheetStyle::Html => tables(source),
    }
}

/// Writes each row as a line. Only empty cells are left out; a cell with the value 0 is information like any other.
fn lines(source: &ChunkSource<'_>) -> Cutting {
    let mut flow = Flow { elements: &source.placed, ..Flow::default() };
    for (at, placed) in source.placed.iter().enumerate() {
        let ElementBody::Table(table) = &placed.element.body else { continue };
        let (names, count) = header(table);
        let sheet = placed.sheet.filter(|name| !is_default_name(name));
        if let Some(caption) = table.caption.as_deref().filter(|caption| !caption.trim().is_empty()) {
            flow.push(at, caption, "\n", SpanRole::Text);
        }
        let mut rows = table.rows[count..].iter().filter_map(|row| line(&names, row)).peekable();
        // A sheet may consist of its header only.
        if rows.peek().is_none() {
            flow.push(at, &names.join("; "), "\n", SpanRole::Text);
        }
        for row in rows {
            match sheet {
                Some(sheet) => flow.push(at, &format!("{row} ——{sheet}"), "\n", SpanRole::Text),
                None => flow.push(at, &row, "\n", SpanRole::Text),
            }
        }
    }
    let mut writer = PieceWriter::new(&flow, &source.settings);
    writer.all();
    Cutting { drafts: writer.drafts, ..Cutting::default() }
}

fn line(names: &[String], row: &[String]) -> Option<String> {
    let mut cells = Vec::with_capacity(row.len());
    for (at, cell) in row.iter().enumerate() {
        let cell = cell.trim();
        match names.get(at).filter(|name| !name.is_empty()) {
            _ if cell.is_empty() => {}
            Some(name) => cells.push(format!("{name}：{cell}")),
            None => cells.push(cell.to_owned()),
        }
    }
    (!cells.is_empty()).then(|| cells.join("; "))
}

/// The tables of a spreadsheet, each with the name of its sheet as its caption.
pub(crate) fn captioned(source: &ChunkSource<'_>) -> Vec<Element> {
    let captioned = |placed: &Placed<'_>| match &placed.element.body {
        ElementBody::Table(table) => {
            let table = TableElement { caption: caption(placed, table), ..table.clone() };
            Element::new(ElementBody::Table(table), placed.element.positions.clone())
        }
        _ => placed.element.clone(),
    };
    source.placed.iter().map(captioned).collect()
}

/// Caption of a table, otherwise the name of its sheet if a user has set one.
fn caption(placed: &Placed<'_>, table: &TableElement) -> Option<String> {
    let sheet = placed.sheet.filter(|name| !is_default_name(name));
    table.caption.clone().or_else(|| sheet.map(str::to_owned))
}

/// Writes tables of a few rows each.
fn tables(source: &ChunkSource<'_>) -> Cutting {
    let mut drafts: Vec<PieceDraft> = Vec::new();
    for (at, placed) in source.placed.iter().enumerate() {
        let ElementBody::Table(table) = &placed.element.body else { continue };
        let (_, count) = header(table);
        let (head, rows) = table.rows.split_at(count);
        // A table that has only a header forms one group as well.
        let groups: Vec<&[Vec<String>]> =
            if rows.is_empty() { vec![rows] } else { rows.chunks(ROWS_OF_HTML).collect() };
        for group in groups {
            let rows = head.iter().chain(group).cloned().collect();
            let caption = caption(placed, table);
            let body = ElementBody::Table(TableElement { caption, header_rows: count, rows });
            let element = Element::new(body, placed.element.positions.clone());
            let part = [Placed { element: &element, ..*placed }];
            let flow = Flow::new(&part, TablePlacement::Apart);
            let mut writer = PieceWriter::new(&flow, &source.settings);
            writer.all();
            // The writer numbers elements within this part, but in the document they are the table's element.
            let owned =
                |draft: PieceDraft| PieceDraft { elements: at..at + 1, children: Children::None, ..draft };
            drafts.extend(writer.drafts.into_iter().map(owned));
        }
    }
    Cutting { drafts, ..Cutting::default() }
}

/// Whether a sheet still has its default name.
fn is_default_name(name: &str) -> bool {
    let name = name.trim().to_lowercase();
    name.is_empty()
        || ["sheet", "工作表", "tabelle", "feuil", "hoja"].iter().any(|default| name.starts_with(default))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::{ChunkMethod, PieceKind};

    use crate::chunk::testing::{contents, cut};

    const NAIVE: ChunkMethod = ChunkMethod::Naive;

    #[test]
    fn rows_are_lines_with_the_names_of_columns() {
        let text = "=== 1 Sheet1\n\n|name|stock|note|\n|pen|0||\n|ink|12|blue|\n|||\n\n=== 2 Orders\n\n|id|pen|\n|7|1|";
        let document = cut(text, "a.xlsx", NAIVE, json!({}));
        assert_eq!(
            contents(&document),
            ["name：pen; stock：0\nname：ink; stock：12; note：blue\nid：7; pen：1 ——Orders"]
        );
        let pages: Vec<u32> = document.pieces[0].positions.iter().map(|position| position.page).collect();
        assert_eq!(pages, [1, 2]);
        let document = cut(text, "a.xlsx", NAIVE, json!({ "chunk_token_num": 14 }));
        assert_eq!(document.pieces.len(), 3);
    }

    #[test]
    fn files_with_any_separator_are_spreadsheets() {
        for name in ["a.csv", "a.tsv", "a.tab", "a.psv"] {
            let document = cut("|name|stock|\n|pen|0|", name, NAIVE, json!({}));
            assert_eq!(contents(&document), ["name：pen; stock：0"], "{name}");
        }
    }

    #[test]
    fn rows_become_tables_on_request() {
        let rows: Vec<String> = (0..25).map(|row| format!("|{row}|v{row}|")).collect();
        let text = format!("=== 1 Stock\n\n|id|value|\n{}", rows.join("\n"));
        let document = cut(&text, "a.csv", NAIVE, json!({ "html4excel": true }));
        let counts: Vec<usize> =
            contents(&document).iter().map(|content| content.matches("<tr><td>").count()).collect();
        assert_eq!(counts, [12, 12, 1]);
        assert!(document.pieces.iter().all(|piece| piece.kind == PieceKind::Table));
        assert!(contents(&document).iter().all(
            |content| content.contains("<caption>Stock</caption>") && content.contains("<th>value</th>")
        ));
    }
}
