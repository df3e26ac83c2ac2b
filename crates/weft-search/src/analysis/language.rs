//! Detects the language of a text, as far as the processing of its words depends on it.
//!
//! A script of its own has one stemmer, regardless of what surrounds it. Languages in Latin script are told
//! apart by their most common words, line by line; a line that gives no clue takes the language of the text,
//! and a text that gives no clue counts as English.

use std::collections::HashMap;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

use super::fold::fold;

/// Maximum number of bytes of a text that are examined: as many as any chunk has.
const LOOKED_AT: usize = 64 * 1024;
/// Minimum number of a language's common words that a line must have to reveal its language.
const LINE_WORDS_MIN: usize = 3;
/// The same minimum for a whole text.
const TEXT_WORDS_MIN: usize = 2;

/// A language in Latin script that has a stemmer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StemmedLanguage {
    /// English, and any unknown language.
    #[default]
    English,
    Danish,
    Dutch,
    Finnish,
    French,
    German,
    Hungarian,
    Italian,
    Norwegian,
    Portuguese,
    Romanian,
    Spanish,
    Swedish,
    Turkish,
}

use StemmedLanguage::{
    Danish, Dutch, English, Finnish, French, German, Hungarian, Italian, Norwegian, Portuguese, Romanian,
    Spanish, Swedish, Turkish,
};

/// What is known about a language.
struct KnownLanguage {
    language: StemmedLanguage,
    algorithm: Algorithm,
    /// Prefix of its terms in the index, so that a word of two languages is two terms. It never occurs in text.
    tag: &'static str,
    /// Its most common words, without diacritics.
    common: &'static str,
}

/// All languages but English, whose terms have no tag.
static OTHERS: [KnownLanguage; 13] = [
    KnownLanguage {
        language: Danish,
        algorithm: Algorithm::Danish,
        tag: "\u{1}k",
        common: "af alle at blev blive da de dem den der deres det dette dig din disse dog du efter eller en end er et for fra \
            han hans har havde hende hendes her hun hvad hvis hvor hvordan hvornar i ikke ind jeg jer jo kunne man mange \
            med meget men mig min mit nar noget nogle nu og ogsa om op os over pa sadan sig sin skal skulle som ti til ud \
            under var vi vil ville vor",
    },
    KnownLanguage {
        language: Dutch,
        algorithm: Algorithm::Dutch,
        tag: "\u{1}l",
        common: "aan al alles als ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen geweest haar \
            had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je kan kon kunnen maar me meer men met \
            mij mijn moet na naar niet niets nog nu of om omdat onder ons ook op over reeds te tegen toch toen tot u uit \
            uw van veel voor waar waarom wanneer want waren was wat welke werd wie wij wil worden wordt zal ze zelf zich \
            zij zijn zo zonder zou",
    },
    KnownLanguage {
        language: Finnish,
        algorithm: Algorithm::Finnish,
        tag: "\u{1}f",
        common: "ei eivat emme en ette han hanen hanta he heidan ja jos joka jota josta jotka kaikki kanssa keta kuin kuka \
            kun kuinka me mika miksi milloin minka minun mita missa mista mutta myos mutta ne niiden niin nyt oli \
            olen olemme olet olette oli olivat olla on ovat se sen seka siella siina sita tai taman tama tassa tasta tata \
            te tuo vaan vain voi jo han saa",
    },
    KnownLanguage {
        language: French,
        algorithm: Algorithm::French,
        tag: "\u{1}r",
        common: "a ai au aucun aussi autre aux avec avoir c ce ceci cela celle ces cet cette chez comme comment d dans de depuis \
            des deux dont du elle elles en entre est et etaient etait ete etre eu eux il ils j je jusque l la le les leur \
            leurs lui m ma mais me meme mes moi mon n ne nos notre nous on ont ou par pas pendant plus pour pourquoi qu \
            quand que quel quelle quelles quels qui quoi s sa sans se selon ses si son sont sous sur t ta te tes toi ton \
            tous tout toute toutes tres tu un une vers vos votre vous y",
    },
    KnownLanguage {
        language: German,
        algorithm: Algorithm::German,
        tag: "\u{1}g",
        common: "aber alle als also am an auch auf aus bei beim bin bis bitte da damit dann das dass dein dem den der des dessen \
            deshalb die dies diese dieser dieses doch dort du durch ein eine einem einen einer eines er es etwas euch euer \
            fur gegen haben hat hatte hatten hier ich ihm ihn ihnen ihr ihre ihrer im in ist ja jede jeder jedes jener kann \
            kein keine konnen man mein mehr mich mit mir muss nach nicht noch nun nur ob oder ohne sehr sein seine seit sich \
            sie sind so soll sollte sondern sowie uber um und uns unser unter vom von vor wann war waren warum was wegen weil \
            welche welcher welches wenn wer werden wie wieder will wir wird wo wurde wurden zu zum zur zwischen",
    },
    KnownLanguage {
        language: Hungarian,
        algorithm: Algorithm::Hungarian,
        tag: "\u{1}h",
        common: "a az azok azt az azonban az ahol aki akik akkor alatt ami amely amelyek amikor annak de e egy egyes egyik el \
            elott es ez ezek ezen ezt ezert fel ha hanem hogy hogyan igen is itt jo kell ki kivul le lesz lett maga majd \
            meg mert mi mely melyik mikor mind minden miert most nagyon ne nem nincs olyan ott pedig s sem sok szerint \
            szinten talan tehat ugy utan vagy van vannak volt voltak",
    },
    KnownLanguage {
        language: Italian,
        algorithm: Algorithm::Italian,
        tag: "\u{1}i",
        common: "a ad agli ai al alla alle allo anche c che chi ci come con contro cosa cui d da dagli dai dal dalla dalle degli \
            dei del della delle dello di dov dove e ed era erano essere fino gli ha hanno i il in io l la le lei li lo loro \
            lui ma mentre mi mia mio ne negli nei nel nella nelle nello noi non nostra nostro o ogni per perche piu poi \
            qual quale quali quando quanto quella quelle quelli quello questa queste questi questo qui se senza si sia sono \
            sopra sotto sta stata stato su sua sue sugli sui sul sulla sulle suo suoi tra tu tutti tutto un una uno voi",
    },
    KnownLanguage {
        language: Norwegian,
        algorithm: Algorithm::Norwegian,
        tag: "\u{1}n",
        common: "alle at av bare ble bli blir da de deg dei dem den denne der dere deres det dette din disse du eller en enn er \
            et etter for fordi fra ha hadde han hans har hennes her hun hva hvem hvis hvor hvordan hvorfor i ikke inn jeg \
            kan kom kunne man mange med meg meget men mot na nar noe noen nei og ogsa om opp oss over pa sa seg selv sin \
            sine sitt ska skal skulle som til ut uten var ved vi vil ville vore",
    },
    KnownLanguage {
        language: Portuguese,
        algorithm: Algorithm::Portuguese,
        tag: "\u{1}p",
        common: "a ao aos aquela aquele as ate com como da das de dela dele deles depois do dos e ela elas ele eles em entre \
            era essa esse esta estao estas estava este estes eu foi foram ha isso isto ja lhe mais mas me mesmo meu minha \
            muito na nao nas nem no nos nossa nosso num numa o onde os ou para pela pelas pelo pelos por porque qual quais \
            quando quem que se sem ser sera seu seus so sobre sua suas tambem te tem tinha todos tudo um uma umas uns voce",
    },
    KnownLanguage {
        language: Romanian,
        algorithm: Algorithm::Romanian,
        tag: "\u{1}o",
        common: "a acea aceasta aceste acest acesta aceea acel al ale am ar are as asta atunci au avea ca care carei carui catre \
            ce cel cea cei cele cine cu cum cand da daca dar de deci din dintre doar dupa ea ei el ele era este eu fara fi \
            fie fiecare fost iar ii il in insa intr intre isi la le lor lui mai mult ne nici noi nostru nu o ori pe pentru \
            poate prin sa sai sau se si sub sunt tot toate un una unde unei unui va voi vor",
    },
    KnownLanguage {
        language: Spanish,
        algorithm: Algorithm::Spanish,
        tag: "\u{1}s",
        common: "a al algo algunas algunos ante antes aquel aquella como con contra cual cuales cuando de del desde donde \
            durante e el ella ellas ellos en entre era eran es esa ese eso esta estaba estan estas este esto estos fue fueron \
            ha haber habia han hasta hay la las le les lo los mas me mi mis mucho muy nada ni no nos nosotros o os otra otro \
            otros para pero poco por porque que quien quienes se sea ser si sido sin sobre son su sus tambien tanto te \
            tiene todo todos tu un una uno unos usted y ya yo",
    },
    KnownLanguage {
        language: Swedish,
        algorithm: Algorithm::Swedish,
        tag: "\u{1}w",
        common: "alla allt att av blev bli blir da de dem den denna deras dess dessa det detta dig din dina du efter ej eller en \
            er ett fran for han hans har henne hennes hon hur i icke in ingen inte ja jag kan kunde man manga med mellan \
            men mig min mina mot mycket nar ni nu nagon nagot nagra och om oss pa sa sadan sig sin sina ska skulle som till \
            under upp ut utan vad var vara varfor varit vem vi vid vilka vilken vill",
    },
    KnownLanguage {
        language: Turkish,
        algorithm: Algorithm::Turkish,
        tag: "\u{1}t",
        common: "acaba ama ancak asla az bana bazi belki ben beni benim bile bir biri biz bizim bu buna bunda bundan bunlar bunu \
            bunun burada cok cunku da daha de defa degil diye en gibi hangi hem hep hepsi her hic icin ile ise kadar kez ki \
            kim mi mu nasil ne neden nedir nerede nicin niye o olan olarak oldu olur ona onlar onun sadece sanki sey siz \
            sonra su tum uzere var ve veya ya yani yok",
    },
];

/// For each common word, one bit per language in `OTHERS`, in order, and the last bit for English.
static COMMON: LazyLock<HashMap<&'static str, u16, foldhash::fast::FixedState>> = LazyLock::new(|| {
    let mut words: HashMap<&'static str, u16, foldhash::fast::FixedState> = HashMap::default();
    let lists = OTHERS.iter().map(|known| known.common).chain([super::common_words::ENGLISH]);
    for (bit, list) in lists.enumerate() {
        for word in list.split_whitespace() {
            *words.entry(word).or_default() |= 1 << bit;
        }
    }
    words
});

static ENGLISH_STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
static STEMMERS: LazyLock<Vec<Stemmer>> =
    LazyLock::new(|| OTHERS.iter().map(|known| Stemmer::create(known.algorithm)).collect());

/// Number of common words seen, by language.
#[derive(Default)]
struct LanguageCounts([usize; OTHERS.len() + 1]);

impl LanguageCounts {
    fn read(&mut self, text: &str, folded: &mut String) {
        let end = text.floor_char_boundary(LOOKED_AT);
        for word in text[..end].split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
            // The most common words are short. A single letter is as often a name as a word.
            if word.len() > 24 || word.chars().nth(1).is_none() {
                continue;
            }
            folded.clear();
            fold(word, folded);
            let mut bits = COMMON.get(folded.as_str()).copied().unwrap_or_default();
            while bits != 0 {
                self.0[bits.trailing_zeros() as usize] += 1;
                bits &= bits - 1;
            }
        }
    }

    /// Returns the language with the most common words; `None` if none has enough.
    fn best(&self, least: usize) -> Option<StemmedLanguage> {
        let (others, english) = (&self.0[..OTHERS.len()], self.0[OTHERS.len()]);
        let mut best: Option<(usize, StemmedLanguage)> = (english >= least).then_some((english, English));
        for (known, count) in OTHERS.iter().zip(others) {
            // English wins a tie: it is the default where nothing is known.
            let more = best.map_or(english, |(most, _)| most);
            if *count >= least && *count > more {
                best = Some((*count, known.language));
            }
        }
        best.map(|(_, language)| language)
    }
}

/// Returns the language of most of a text.
pub(super) fn of_text(text: &str) -> StemmedLanguage {
    let (mut seen, mut folded) = (LanguageCounts::default(), String::new());
    seen.read(text, &mut folded);
    seen.best(TEXT_WORDS_MIN).unwrap_or_default()
}

/// Returns the language of a line, if the line reveals one.
pub(super) fn of_line(line: &str) -> Option<StemmedLanguage> {
    let (mut seen, mut folded) = (LanguageCounts::default(), String::new());
    seen.read(line, &mut folded);
    seen.best(LINE_WORDS_MIN)
}

/// Returns the language of a question. A single word is not enough: `dog` is among the most common words of
/// Danish, and a question of two nouns would lose one of them.
pub(super) fn of_question(question: &str) -> StemmedLanguage {
    of_text(question)
}

impl StemmedLanguage {
    /// Returns all languages that have a tag.
    pub(crate) fn others() -> impl Iterator<Item = Self> {
        OTHERS.iter().map(|known| known.language)
    }

    /// Returns its index in `OTHERS`; `None` for English.
    fn place(self) -> Option<usize> {
        OTHERS.iter().position(|known| known.language == self)
    }

    /// Whether a folded word is among its most common words.
    pub(crate) fn is_common(self, folded: &str) -> bool {
        let bit = self.place().unwrap_or(OTHERS.len());
        COMMON.get(folded).is_some_and(|bits| bits & (1 << bit) != 0)
    }

    /// Appends the form of a word by which it is found, with the language's tag. `lower` is the word in lower
    /// case with its diacritics, which stemmers need.
    pub(crate) fn form(self, lower: &str, folded: &str, form: &mut String) {
        // English was supported before the others: without a tag, its texts are found as before.
        let Some(place) = self.place() else {
            form.push_str(&ENGLISH_STEMMER.stem(folded));
            return;
        };
        form.push_str(OTHERS[place].tag);
        if self.is_common(folded) { form.push_str(folded) } else { fold(&STEMMERS[place].stem(lower), form) }
    }
}

/// Returns the stemmer of a script that is used by only one of the languages with a stemmer.
pub(super) fn of_script(c: char) -> Option<&'static Stemmer> {
    static OF_SCRIPTS: LazyLock<[Stemmer; 4]> = LazyLock::new(|| {
        [Algorithm::Russian, Algorithm::Greek, Algorithm::Arabic, Algorithm::Tamil].map(Stemmer::create)
    });
    let place = match u32::from(c) {
        0x0400..=0x052f => 0,
        0x0370..=0x03ff | 0x1f00..=0x1fff => 1,
        0x0600..=0x06ff | 0x0750..=0x077f => 2,
        0x0b80..=0x0bff => 3,
        _ => return None,
    };
    Some(&OF_SCRIPTS[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_detected_by_stop_words() {
        for (text, language) in [
            ("The pump of the boiler has to be looked after every ninety days.", English),
            ("Die Pumpe des Kessels muss alle neunzig Tage gewartet werden.", German),
            ("La pompe de la chaudière doit être contrôlée tous les quatre-vingt-dix jours.", French),
            ("La bomba de la caldera se debe revisar cada noventa días por el personal.", Spanish),
            ("La pompa della caldaia deve essere controllata ogni novanta giorni.", Italian),
            ("A bomba da caldeira deve ser verificada a cada noventa dias pelos técnicos.", Portuguese),
            ("De pomp van de ketel moet om de negentig dagen worden nagekeken.", Dutch),
            ("Pannans pump ska ses över var nittionde dag och inte oftare än så.", Swedish),
            ("Kattilan pumppu on huollettava kun se on ollut käytössä, mutta ei useammin.", Finnish),
            ("Kazan pompası her doksan günde bir gözden geçirilir ve bu iş için bir ekip var.", Turkish),
            ("KX-200, 4711, DIN 19226", English),
            ("", English),
        ] {
            assert_eq!(of_text(text), language, "{text}");
        }
    }

    #[test]
    fn one_word_does_not_determine_a_language() {
        for question in ["cat dog", "die casting", "war museum"] {
            assert_eq!(of_question(question), English, "{question}");
        }
        assert_eq!(of_question("Wann ist die Wartung?"), German);
    }

    #[test]
    fn english_wins_ties() {
        for text in ["to die in an accident", "was in Berlin"] {
            assert_eq!(of_text(text), English, "{text}");
        }
        assert_eq!(of_line("Vielen Dank"), None);
        assert_eq!(of_question("Wo liegt die Stadt Bonn?"), German);
        assert_eq!(of_question("Bonn"), English);
    }

    #[test]
    fn language_tags_are_distinct() {
        let tags: std::collections::BTreeSet<&str> = OTHERS.iter().map(|known| known.tag).collect();
        assert_eq!(tags.len(), OTHERS.len());
        for known in &OTHERS {
            for word in known.common.split_whitespace() {
                let mut folded = String::new();
                fold(word, &mut folded);
                assert_eq!(folded, word, "{:?}", known.language);
            }
        }
    }
}
