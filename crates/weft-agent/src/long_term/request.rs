//! Recognizes requests to remember something, by a list of phrases: this costs nothing, and what it misses the model
//! can still store with a tool.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum number of bytes of a message that are examined.
const LOOKED_AT_MAX: usize = 64 * 1024;

/// Requests to remember something, at the beginning of a sentence: the first group is what to remember. A question
/// about memories ("do you remember …?") is not a request.
static REQUESTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let phrases = [
        // English
        r"(?:please[, ]+|and |also |can you |could you |i(?:'d| would) like you to )*(?:remember|memori[sz]e|keep in mind|(?:make|take) a note|note down|don(?:'|’)t forget)(?: (?:that|this|the following))?(?:\s*[:,-]\s*|\s+)(.+)",
        // German
        r"(?:bitte[, ]+)*(?:merke? dir|denk(?:e)? daran|vergiss nicht|notiere?(?: dir)?)(?: bitte)?[,:]?\s+(?:dass\s+)?(.+)",
        // French
        r"(?:s(?:'|’)il (?:te|vous) pla[iî]t[, ]+)?(?:souviens-toi|souvenez-vous|rappelle-toi|retiens|retenez|n(?:'|’)oublie pas|note)(?: bien)?(?: de| que| qu(?:'|’))?[ :]\s*(.+)",
        // Spanish, Portuguese
        r"(?:por favor[, ]+)?(?:recuerda|no olvides|ten en cuenta|lembre-se|lembra-te|n[aã]o (?:se )?esque[çc]a)(?: de)?(?: que)?[ :,]\s*(.+)",
        // Russian
        r"(?:пожалуйста[, ]+)?(?:запомни(?:те)?|не забудь(?:те)?|помни(?:те)?)[,:]?\s+(?:что\s+)?(.+)",
        // Chinese
        r"(?:请|請|麻烦|麻煩|你要|帮我|幫我)*(?:记住|記住|记得|記得|记下|記下|牢记|牢記|别忘了|別忘了|不要忘记|不要忘記)(?:这个|這個|一下|了)?[,,::\s]*(.+)",
        // Korean
        r"(.+?)(?:을|를|는 것을|다는 것을|라는 것을)?\s*(?:기억해|잊지 ?마)(?:\s*(?:줘|주세요|둬))?",
        // Japanese
        r"(.+?)(?:を|と|ことを|って)\s*(?:覚えて(?:おいて|いて)?|記憶して(?:おいて)?|忘れないで)(?:ください|下さい|ね)?",
    ];
    // At the start of a sentence: inside a sentence these words report something ("I never remember that").
    let whole = |phrase: &&str| Regex::new(&format!(r"(?is)(?:^|[.!?。!?\n])\s*{phrase}\s*$")).ok();
    phrases.iter().filter_map(whole).collect()
});

/// What a message asks to remember; `None` when it contains no such request.
pub fn asked_to_remember(message: &str) -> Option<&str> {
    // Each pattern scans the text once; a pasted document must not take a second.
    let end = message.floor_char_boundary(LOOKED_AT_MAX);
    let message = message.get(..end)?.trim();
    let found = REQUESTS.iter().find_map(|request| request.captures(message)?.get(1))?;
    let text = found.as_str().trim();
    // "Can you remember what I said?" asks about something already said.
    let asks = message.ends_with(['?', '?']);
    (!asks && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_remember_are_recognised_in_many_languages() {
        let check =
            |message: &str, text: &str| assert_eq!(asked_to_remember(message), Some(text), "{message}");
        check("Remember that I am allergic to nuts.", "I am allergic to nuts.");
        check("Hello! Please remember: my name is Ada", "my name is Ada");
        check("Thanks. Don't forget I leave on Monday", "I leave on Monday");
        check("Merk dir, dass ich Tee mag", "ich Tee mag");
        check("Souviens-toi que je suis végétarien", "je suis végétarien");
        check("Por favor, recuerda que vivo en Lima", "vivo en Lima");
        check("Запомни, что я живу в Риге", "я живу в Риге");
        check("请记住我喜欢绿茶", "我喜欢绿茶");
        check("私は猫が好きだと覚えておいてください", "私は猫が好きだ");
        check("저는 채식주의자라는 것을 기억해 주세요", "저는 채식주의자");
    }

    #[test]
    fn other_messages_are_not_requests_to_remember() {
        for message in [
            "",
            "What is the weather?",
            "Do you remember what I said?",
            "I can't remember that film",
            "Can you remember my name?",
            "Remember",
            "你还记得我的名字吗?",
            "The reminder that I wrote was short.",
        ] {
            assert_eq!(asked_to_remember(message), None, "{message}");
        }
        assert_eq!(asked_to_remember(&"remember ".repeat(100_000)).map(str::is_empty), Some(false));
    }
}
