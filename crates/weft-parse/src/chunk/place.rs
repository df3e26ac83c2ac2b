//! Positions of chunks on their pages.

use weft_core::seam::document_reader::Position;

/// Maximum gap, in points, between two rectangles that are merged: the distance of two lines.
const GAP_MAX: f32 = 16.0;

/// Adds rectangles; one that continues the last one is merged into it.
pub(crate) fn add(places: &mut Vec<Position>, more: &[Position]) {
    for position in more {
        let edges = [position.left, position.right, position.top, position.bottom];
        // The numbers come from the file, so they may be invalid.
        if !edges.into_iter().all(f32::is_finite) {
            continue;
        }
        match places.last_mut().filter(|last| continues(last, position)) {
            Some(_) if is_page(position) => {}
            Some(last) => {
                last.left = last.left.min(position.left);
                last.right = last.right.max(position.right);
                last.top = last.top.min(position.top);
                last.bottom = last.bottom.max(position.bottom);
            }
            None => places.push(*position),
        }
    }
}

/// Whether a rectangle continues another one: it is within it, or below it in the same column.
fn continues(last: &Position, next: &Position) -> bool {
    // A position that is a page without a rectangle adds nothing if the position within the page is known.
    if last.page == next.page && (is_page(last) || is_page(next)) {
        return is_page(next);
    }
    let shared = last.right.min(next.right) - last.left.max(next.left);
    let narrower = (last.right - last.left).min(next.right - next.left);
    last.page == next.page
        && shared >= narrower / 2.0
        && next.top - last.bottom <= GAP_MAX
        && next.top >= last.top
}

fn is_page(position: &Position) -> bool {
    *position == Position { page: position.page, ..Position::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(page: u32, left: f32, right: f32, top: f32, bottom: f32) -> Position {
        Position { page, left, right, top, bottom }
    }

    #[test]
    fn lines_of_a_column_are_one_rectangle() {
        let mut places = Vec::new();
        add(&mut places, &[at(1, 50., 280., 100., 112.), at(1, 50., 250., 114., 126.)]);
        add(&mut places, &[at(1, 300., 500., 100., 112.), at(2, 300., 500., 112., 120.)]);
        add(&mut places, &[at(2, f32::NAN, 1., 1., 1.), at(2, 300., 400., 200., 212.)]);
        assert_eq!(
            places,
            [
                at(1, 50., 280., 100., 126.),
                at(1, 300., 500., 100., 112.),
                at(2, 300., 500., 112., 120.),
                at(2, 300., 400., 200., 212.)
            ]
        );
    }

    #[test]
    fn a_page_without_rectangles_is_named_once() {
        let page = Position { page: 3, ..Position::default() };
        let mut places = Vec::new();
        add(&mut places, &[page]);
        add(&mut places, &[page]);
        assert_eq!(places, [page]);
        let known = at(3, 5., 6., 5., 6.);
        add(&mut places, &[known, page]);
        assert_eq!(places, [page, known]);
    }
}
