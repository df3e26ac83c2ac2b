//! What people have remarked on cells of an OpenDocument spreadsheet.

use super::COMMENTS_MAX;
use crate::format::Unreadable;
use crate::markup::{Tag, Xml, XmlNode};

/// Cells and remarks, for each sheet that has some.
pub(super) fn of_sheets(content: &str) -> Result<Vec<Vec<Vec<String>>>, Unreadable> {
    let mut xml = Xml::new(content);
    let (mut sheets, mut remarks) = (Vec::new(), Vec::new());
    // The cell that is being read, how many such rows and cells there are, and what is remarked on it.
    let (mut row, mut column, mut rows, mut columns) = (0_u32, 0_u32, 1, 1);
    let (mut remark, mut is_text) = (None::<String>, false);
    while let Some(node) = xml.next()? {
        match node {
            XmlNode::Open(tag) => match tag.name() {
                "table" => row = 0,
                "table-row" => (column, rows) = (0, repeated(&tag, "number-rows-repeated")),
                "table-cell" | "covered-table-cell" => columns = repeated(&tag, "number-columns-repeated"),
                "annotation" => remark = Some(String::new()),
                "p" => {
                    is_text = remark.is_some();
                    remark.iter_mut().for_each(|remark| remark.push(' '));
                }
                "s" | "tab" | "line-break" => remark.iter_mut().for_each(|remark| remark.push(' ')),
                _ => {}
            },
            XmlNode::Text(text) => {
                if let Some(remark) = remark.as_mut().filter(|_| is_text) {
                    remark.push_str(&text);
                }
            }
            XmlNode::Close(name) => match name.as_str() {
                "p" => is_text = false,
                "annotation" => {
                    let said = remark.take().unwrap_or_default();
                    if !said.trim().is_empty() && remarks.len() < COMMENTS_MAX {
                        remarks.push(vec![cell(row, column), said]);
                    }
                }
                "table-cell" | "covered-table-cell" => column = column.saturating_add(columns),
                "table-row" => row = row.saturating_add(rows),
                "table" if !remarks.is_empty() => sheets.push(std::mem::take(&mut remarks)),
                _ => {}
            },
        }
    }
    Ok(sheets)
}

fn repeated(tag: &Tag<'_>, name: &str) -> u32 {
    tag.attribute(name).and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// The name of a cell, such as `B3`.
fn cell(row: u32, mut column: u32) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + u8::try_from(column % 26).unwrap_or_default()));
        if column < 26 {
            break;
        }
        column = column / 26 - 1;
    }
    let letters: String = letters.into_iter().rev().collect();
    format!("{letters}{}", u64::from(row) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_stand_with_their_cells() {
        let content = "<table:table><table:table-row table:number-rows-repeated='3'><table:table-cell/></table:table-row>
            <table:table-row><table:table-cell table:number-columns-repeated='27'/><table:table-cell>
            <office:annotation><dc:creator>Ada</dc:creator><text:p>Too<text:s/>low.</text:p><text:p>Or <text:span>not</text:span>?</text:p>
            </office:annotation><text:p>5</text:p></table:table-cell></table:table-row></table:table>
            <table:table><table:table-row><table:table-cell><text:p>1</text:p></table:table-cell></table:table-row></table:table>";
        let sheets = of_sheets(content).unwrap();
        assert_eq!(sheets, [[["AB4", " Too low. Or not?"].map(str::to_owned)]]);
        assert_eq!((cell(0, 0), cell(9, 25), cell(0, 702)), ("A1".into(), "Z10".into(), "AAA1".into()));
    }
}
