//! Words that say nothing about the topic of a text.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::fold::fold;

/// English words before stemming, including the remains of `don't` and the like.
pub(super) const ENGLISH: &str = "a about after all also am an and any are as at be because been before being but by can could \
did do does doing don for from had has have having he her here hers him his how i if in into is isn it its me my no \
nor not of on or our ours s should so some such t than that the their theirs them then there these they this those \
through to too until very was we were what when where which while who whom whose why will with would you your yours";

/// Chinese words, as the dictionary segments them.
const CHINESE: &str = "的 了 是 在 和 与 或 及 也 都 就 而 着 过 吗 呢 吧 啊 呀 嘛 么 把 被 让 给 对 从 向 于 以 为 之 其 \
这 那 这个 那个 这些 那些 哪 哪个 哪些 哪里 哪儿 谁 什么 怎么 怎样 怎么样 如何 为什么 多少 几 我 你 他 她 它 我们 你们 他们 \
有 会 能 可以 请 请问 一个 以及 并 但 但是 因为 所以 是否 不 没 没有 很 又 还 个";

/// Russian and Arabic words; no other language here can be mistaken for these.
const OF_SCRIPTS: &str = "а без был была были было быть в вам вас во вот все всех вы где да даже для до его ее если есть еще ещё же за здесь и из \
или им их к как какая какие какой когда который кто куда ли меня мне много можно может мой мы на над надо не нее нет ни них но о об один \
он она они от под по при про с сам со так там то тоже только тот ты у уже чего чем что чтобы чьи эта эти это этого этом этот я \
في من إلى على عن مع هذا هذه ذلك تلك التي الذي الذين هو هي هم أن إن كان كانت كل ما ماذا متى أين كيف لماذا هل لا لم لن قد أو ثم بعد قبل بين عند \
حتى إذا كما لكن أي منذ غير و";

static COMMON: LazyLock<HashSet<String, foldhash::fast::FixedState>> = LazyLock::new(|| {
    let folded = |word: &str| {
        let mut folded = String::new();
        fold(word, &mut folded);
        folded
    };
    [ENGLISH, CHINESE, OF_SCRIPTS].into_iter().flat_map(str::split_whitespace).map(folded).collect()
});

/// Whether a folded word is a common word.
pub(super) fn is_common(word: &str) -> bool {
    COMMON.contains(word)
}
