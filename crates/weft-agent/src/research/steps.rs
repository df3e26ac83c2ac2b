//! The reasoning so far, shortened for requests that work on a part of it.

use super::tags;

/// The number of paragraphs at the end that are always kept.
// They say what the current query is for.
const LAST: usize = 4;
/// Replaces paragraphs that are left out.
const LEFT_OUT: &str = "...";

/// The first paragraph, the last ones, and those that contain queries or results; `...` for each run of others.
pub(super) fn shortened(steps: &[String]) -> String {
    let paragraphs: Vec<&str> = steps
        .iter()
        .flat_map(|step| step.split("\n\n"))
        .map(str::trim)
        .filter(|paragraph| !paragraph.is_empty())
        .collect();
    let keeps = |place: usize, paragraph: &str| {
        place == 0
            || place + LAST >= paragraphs.len()
            // Queries and results are what the rest reasons about.
            || [tags::QUERY, tags::RESULT].iter().any(|tag| paragraph.contains(tag))
    };
    let mut kept: Vec<&str> = Vec::new();
    for (place, paragraph) in paragraphs.iter().enumerate() {
        if keeps(place, paragraph) {
            kept.push(paragraph);
        } else if kept.last() != Some(&LEFT_OUT) {
            kept.push(LEFT_OUT);
        }
    }
    kept.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_the_last_and_tagged_steps_are_kept() {
        let mut steps: Vec<String> = (0..10).map(|step| format!("step {step}")).collect();
        steps[4] = tags::query("rain");
        let expected = format!(
            "step 0\n\n...\n\n{}\n\n...\n\nstep 6\n\nstep 7\n\nstep 8\n\nstep 9",
            tags::query("rain")
        );
        assert_eq!(shortened(&steps), expected);
        assert_eq!(
            shortened(&["a\n\n\n\nb".to_owned(), " ".to_owned(), "c\n\nd\n\ne".to_owned()]),
            "a\n\nb\n\nc\n\nd\n\ne"
        );
        assert_eq!(shortened(&[]), "");
    }
}
