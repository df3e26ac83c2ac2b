//! Words that say nothing about what a text is about.

use std::collections::HashSet;
use std::sync::LazyLock;

/// English, as they stand before endings are taken off, with what is left of `don't` and its like.
const ENGLISH: &str = "a about after all also am an and any are as at be because been before being but by can could \
did do does doing don for from had has have having he her here hers him his how i if in into is isn it its me my no \
nor not of on or our ours s should so some such t than that the their theirs them then there these they this those \
through to too until very was we were what when where which while who whom whose why will with would you your yours";

/// Chinese, as the dictionary cuts them.
const CHINESE: &str = "的 了 是 在 和 与 或 及 也 都 就 而 着 过 吗 呢 吧 啊 呀 嘛 么 把 被 让 给 对 从 向 于 以 为 之 其 \
这 那 这个 那个 这些 那些 哪 哪个 哪些 哪里 哪儿 谁 什么 怎么 怎样 怎么样 如何 为什么 多少 几 我 你 他 她 它 我们 你们 他们 \
有 会 能 可以 请 请问 一个 以及 并 但 但是 因为 所以 是否 不 没 没有 很 又 还 个";

static COMMON: LazyLock<HashSet<&str, foldhash::fast::FixedState>> =
    LazyLock::new(|| ENGLISH.split_whitespace().chain(CHINESE.split_whitespace()).collect());

/// Whether a folded word is one of them.
pub fn is_common(word: &str) -> bool {
    COMMON.contains(word)
}
