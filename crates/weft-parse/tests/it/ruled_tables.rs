//! Tables of PDFs with ruling lines between their cells.

use crate::build::{pdf_of, read, shown};

/// Text at a position on a page.
fn at(left: u32, height: u32, text: &str) -> String {
    format!("BT /F1 10 Tf {left} {height} Td ({text}) Tj ET\n")
}

/// A line from one point to another.
fn rule(left: u32, top: u32, right: u32, bottom: u32) -> String {
    format!("{left} {top} m {right} {bottom} l S\n")
}

/// A grid with lines at these positions.
fn grid(xs: &[u32], ys: &[u32]) -> String {
    let (left, right, top, bottom) = (xs[0], xs[xs.len() - 1], ys[0], ys[ys.len() - 1]);
    let across = ys.iter().map(|y| rule(left, *y, right, *y));
    across.chain(xs.iter().map(|x| rule(*x, top, *x, bottom))).collect()
}

/// The tables of a page that is drawn by these commands.
fn tables(drawn: &[String]) -> Vec<String> {
    let all = shown(&read("a.pdf", &pdf_of(&[drawn.concat()])));
    all.into_iter().filter(|part| part.starts_with("table")).collect()
}

#[test]
fn a_wrapped_cell_stays_whole() {
    let drawn = [
        grid(&[50, 110, 300, 380], &[740, 720, 680, 652]),
        at(55, 726, "No") + &at(115, 726, "What it says") + &at(305, 726, "Days"),
        at(55, 700, "A-1") + &at(115, 706, "The seller replaces the parts that") + &at(305, 700, "30"),
        at(115, 694, "are broken when they arrive") + &at(115, 682, "at the buyer"),
        at(55, 670, "A-2") + &at(115, 670, "Whoever returns a parcel pays for") + &at(305, 670, "14 or"),
        at(115, 658, "its way back") + &at(305, 658, "60"),
    ];
    assert_eq!(
        tables(&drawn),
        [
            "table(1) No|What it says|Days / A-1|The seller replaces the parts that are broken when they arrive at the \
          buyer|30 / A-2|Whoever returns a parcel pays for its way back|14 or 60"
        ]
    );
}

#[test]
fn cells_with_one_digit_and_with_dashes_are_kept() {
    let row = |height: u32, cells: [&str; 3]| -> String {
        cells.iter().zip([55, 115, 215]).map(|(cell, left)| at(left, height, cell)).collect()
    };
    let drawn = [
        grid(&[50, 110, 210, 300], &[740, 720, 700, 680]),
        row(726, ["1", "2", "3"]),
        row(706, ["4", "5", "6"]),
        row(686, ["7", "2 x-ray units", "--"]),
    ];
    assert_eq!(tables(&drawn).len(), 1);
    assert!(tables(&drawn)[0].ends_with("1|2|3 / 4|5|6 / 7|2 x-ray units|--"), "{:?}", tables(&drawn));
}

#[test]
fn rows_without_rulings_are_separated_by_their_text() {
    let row = |height: u32, cells: [&str; 3]| -> String {
        cells.iter().zip([55, 155, 305]).map(|(cell, left)| at(left, height, cell)).collect()
    };
    let drawn = [
        grid(&[50, 150, 300, 400], &[740, 720]),
        grid(&[50, 150, 300, 400], &[720, 620]),
        row(726, ["Town", "River", "People"]),
        row(706, ["Bern", "Aare", "134,000"]),
        row(692, ["Basel", "Rhein", "178,000"]),
        row(678, ["Sankt Gallen", "Steinach and the", "76,000"]),
        at(155, 664, "lake"),
        row(650, ["Biel", "", "56,000"]),
    ];
    assert_eq!(
        tables(&drawn),
        [
            "table(1) Town|River|People / Bern|Aare|134,000 / Basel|Rhein|178,000 / Sankt Gallen|Steinach and the \
          lake|76,000 / Biel||56,000"
        ]
    );
}

#[test]
fn spanning_cells_are_one_cell() {
    let drawn = [
        // Each cell is a separate box, half a point from the next one.
        "50 720 300 20 re S\n".to_owned(),
        "50 680 99.5 39.5 re S\n150 700 99.5 19.5 re S\n250 700 100 19.5 re S\n".to_owned(),
        "150 680 99.5 19.5 re S\n250 680 100 19.5 re S\n".to_owned(),
        at(160, 726, "Over all of it"),
        at(55, 696, "both") + &at(155, 706, "a") + &at(255, 706, "b"),
        at(155, 686, "c") + &at(255, 686, "d"),
    ];
    let tables = tables(&drawn);
    assert!(tables[0].ends_with("Over all of it|| / both|a|b / |c|d"), "{tables:?}");
}

#[test]
fn a_string_crossing_a_ruling_is_split_there() {
    let drawn = [
        grid(&[50, 95, 300, 380], &[740, 720, 700]),
        at(55, 726, "Number") + &at(115, 726, "Name") + &at(305, 726, "Sum"),
        // Drawn as one string, with slightly more than a space at the line.
        "BT /F1 10 Tf 55 706 Td [(1204558) -300 (Meyer and sons) ] TJ ET\n".to_owned(),
        at(305, 706, "17"),
    ];
    let tables = tables(&drawn);
    assert!(tables[0].ends_with("1204558|Meyer and sons|17"), "{tables:?}");
}

#[test]
fn tables_without_outer_rulings_and_rotated_tables_are_recognised() {
    let cells = |height: u32, cells: [&str; 3]| -> String {
        cells.iter().zip([55, 155, 255]).map(|(cell, left)| at(left, height, cell)).collect()
    };
    let text = cells(726, ["Size", "Colour", "Price"]) + &cells(706, ["M", "red", "12.00"]);
    let inner = rule(50, 720, 350, 720) + &rule(50, 700, 350, 700) + &grid(&[150, 250], &[740, 680]);
    let expected = "table(1) Size|Colour|Price / M|red|12.00";
    assert_eq!(
        tables(&[inner, text.clone(), cells(686, ["L", "blue", "13.00"])]),
        [format!("{expected} / L|blue|13.00")]
    );
    // Upwards on its page, as wide tables are printed.
    let whole = grid(&[50, 150, 250, 350], &[740, 720, 700]);
    assert_eq!(tables(&[format!("q 0 1 -1 0 780 20 cm\n{whole}{text}Q\n")]), [expected]);
}

#[test]
fn drawings_and_text_boxes_are_not_tables() {
    let boxed = |left: u32, height: u32, text: &str| {
        format!("{left} {height} 100 30 re S\n") + &at(left + 10, height + 10, text)
    };
    // Boxes connected by lines.
    let chart = [
        boxed(50, 700, "Begin"),
        boxed(250, 700, "Ask again"),
        boxed(50, 600, "Answer"),
        boxed(250, 600, "Give up"),
        rule(150, 715, 250, 715),
        rule(100, 700, 100, 630),
        rule(300, 700, 300, 630),
        rule(150, 615, 250, 615),
    ];
    assert_eq!(tables(&chart), Vec::<String>::new());
    // A chart with its grid, with the numbers beside it.
    let axes = grid(&[100, 150, 200, 250, 300], &[700, 660, 620, 580])
        + &(0..4).map(|line| at(80, 578 + line * 40, &line.to_string())).collect::<String>()
        + &at(120, 640, "sales");
    assert_eq!(tables(&[axes]), Vec::<String>::new());
    // A note in a frame with a line below its title.
    let note =
        grid(&[50, 350], &[740, 720, 660]) + &at(60, 726, "Note") + &at(60, 700, "This is said in a frame.");
    assert_eq!(tables(&[note]), Vec::<String>::new());
}

#[test]
fn an_overlong_word_in_a_cell_stays_whole() {
    let drawn = [
        grid(&[50, 95, 300, 380], &[740, 720, 700]),
        at(55, 726, "Name") + &at(115, 726, "Seen") + &at(305, 726, "Sum"),
        "BT /F1 10 Tf 52 706 Td (reference-manual 110) Tj ET\n".to_owned(),
        at(305, 706, "17"),
    ];
    let tables = tables(&drawn);
    assert!(tables[0].ends_with("reference-manual|110|17"), "{tables:?}");
}

#[test]
fn slide_layout_boxes_are_not_a_table() {
    let slide = [
        // Header, sidebar and footer, each painted up to the edges of the page.
        "0.9 g 0 740 600 60 re f\n0.8 g 450 0 150 740 re f\n0.9 g 0 0 450 40 re f\n0 g\n".to_owned(),
        at(20, 760, "What a heron eats") + &at(470, 760, "Birds") + &at(470, 700, "Contents"),
        at(20, 600, "Fish that are not too large") + &at(20, 580, "Frogs") + &at(20, 15, "Page seven"),
    ];
    assert_eq!(tables(&slide), Vec::<String>::new());
}
