//! The members of `loop` in a template.

/// The members of `loop`.
pub(crate) const LOOP_MEMBERS: [&str; 11] = [
    "index",
    "index0",
    "first",
    "last",
    "length",
    "revindex",
    "revindex0",
    "previtem",
    "nextitem",
    "depth",
    "depth0",
];

/// Whether this is the path of a member that no `loop` has.
pub(crate) fn is_no_member_of_loop(path: &str) -> bool {
    let member = path.strip_prefix("loop.").and_then(|rest| rest.split('.').next());
    member.is_some_and(|member| !LOOP_MEMBERS.contains(&member))
}
