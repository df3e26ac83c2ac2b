//! Queries and texts in many languages: inflected forms match, and stop words do not.

use weft_core::id::{ChunkId, DatasetKey, DocumentId, TenantId};
use weft_core::seam::Index;
use weft_core::seam::index::{IndexChange, IndexQuery, IndexedChunk, IndexedDocument, TextQuery};
use weft_search::{MemoryChunkIndex, TantivyIndex};

/// A text, and queries that only it answers, with inflected forms of its words.
struct Passage(&'static str, &'static str, &'static [&'static str]);

const PASSAGES: &[Passage] = &[
    Passage(
        "de-pump",
        "Die Pumpen der beiden Kessel werden alle neunzig Tage von der Werkstatt gewartet.",
        &["Wann ist die Wartung der Pumpe fällig?", "Kesselpumpe: gewartete Pumpe", "Werkstätten"],
    ),
    Passage(
        "de-house",
        "In den alten Häusern am Hafen gibt es keine Aufzüge, und die Treppen sind steil.",
        &["Hat das Haus einen Aufzug?", "Wie steil ist die Treppe?", "steile Treppe"],
    ),
    Passage(
        "fr-contract",
        "Les contrats de location sont renouvelés chaque année si les locataires ne les résilient pas.",
        &[
            "Comment le contrat est-il renouvelé ?",
            "un locataire qui résilie",
            "location annuelle, locataire",
        ],
    ),
    Passage(
        "fr-school",
        "Les élèves étudiaient dans des écoles rurales avant la construction du collège.",
        &["Où étudie un élève ?", "l'école rurale", "ecole"],
    ),
    Passage(
        "es-insurance",
        "Las reclamaciones del seguro deben presentarse en un plazo de quince días por los asegurados.",
        &["¿Cuál es el plazo para presentar una reclamación?", "reclamacion del asegurado", "seguros"],
    ),
    Passage(
        "es-garden",
        "Los jardines de la ciudad están abiertos durante el verano y las fuentes funcionan por la noche.",
        &["¿Está abierto el jardín en verano?", "una fuente que funciona"],
    ),
    Passage(
        "ru-delivery",
        "Доставка товаров осуществляется в течение пяти рабочих дней после подтверждения заказа.",
        &["Когда доставят товар?", "сроки доставки", "подтверждённые заказы"],
    ),
    Passage(
        "ru-library",
        "В городских библиотеках можно бесплатно пользоваться компьютерами и читать журналы.",
        &["Есть ли компьютер в библиотеке?", "читать журнал"],
    ),
    Passage(
        "ar-library",
        "تفتح المكتبات العامة أبوابها للطلاب كل يوم من الساعة التاسعة صباحا.",
        &["متى تفتح المكتبة للطالب؟", "مكتبة عامة"],
    ),
    Passage(
        "ar-market",
        "يبيع المزارعون الخضروات والفواكه في الأسواق القديمة وسط المدينة.",
        &["أين السوق القديم؟", "مزارع يبيع الفاكهة"],
    ),
    Passage(
        "ja-warranty",
        "この製品の保証期間は購入日から三年間です。修理はサービスセンターで受け付けています。",
        &["保証期間はどのくらいですか", "製品の修理を受け付けるセンター", "保証"],
    ),
    Passage(
        "ja-station",
        "東京駅から会場までは地下鉄で十五分かかります。出口は北側が便利です。",
        &["会場まで地下鉄で何分ですか", "東京駅の北出口"],
    ),
    Passage(
        "ko-refund",
        "환불은 구매일로부터 칠일 이내에 고객센터에서 신청할 수 있습니다.",
        &["환불을 신청하려면 어떻게 하나요?", "고객센터의 전화"],
    ),
    Passage(
        "ko-house",
        "우리 집은 강가에 있고 마을에서 가장 오래되었다. 지붕이 빨간색이다.",
        &["집", "마을의 지붕"],
    ),
    Passage(
        "zh-return",
        "商品签收之日起七天内可以无理由退货，运费由买家承担。",
        &["退货的期限是多久？", "运费谁承担"],
    ),
    Passage(
        "en-visa",
        "Applications for working visas are processed within thirty days by the consulate in Geneva.",
        &["How long does it take to process a visa application?", "working at the consulates"],
    ),
    Passage(
        "en-code",
        "Call getUserName() to greet whoever has signed in.",
        &["user name", "getusername", "getUserName", "get_user_name"],
    ),
    Passage(
        "en-standard",
        "Methods of HTTP are laid down in RFC7231, after those of RFC 2616.",
        &["RFC 7231", "rfc 7231", "RFC7231", "RFC2616"],
    ),
    Passage(
        "mixed",
        "The supplier KX Hydraulik GmbH delivers spare valves.\nDie Ventile werden vom Lieferanten in Kisten verpackt und \
         mit der Bahn geschickt.\nLes soupapes sont vérifiées par les ingénieurs de la société avant l'envoi.",
        &["spare valve", "Wie wird ein Ventil verpackt?", "une soupape vérifiée par un ingénieur"],
    ),
];

fn key() -> DatasetKey {
    DatasetKey::new(&TenantId::new("t"), "k")
}

async fn filled(index: &dyn Index) {
    let id = DocumentId::new("d");
    let document = IndexedDocument {
        id: id.clone(),
        name: id.to_string(),
        metadata: Default::default(),
        available: true,
    };
    let chunk = |Passage(name, text, _): &Passage| {
        (ChunkId::new(*name), IndexedChunk { content: (*text).to_owned(), ..IndexedChunk::default() })
    };
    let chunks = PASSAGES.iter().map(chunk).collect();
    index
        .write(&key(), vec![IndexChange::Document(document), IndexChange::Chunks(id, chunks)])
        .await
        .unwrap();
}

async fn found(index: &dyn Index, question: &str) -> Vec<String> {
    let query = IndexQuery {
        datasets: vec![key().id],
        text: Some(TextQuery { text: question.to_owned(), keywords: Vec::new() }),
        count_max: 10,
        ..IndexQuery::default()
    };
    let answer = index.search(&TenantId::new("t"), &query).await.unwrap();
    let mut hits = answer.hits;
    hits.sort_by_key(|hit| hit.text_rank);
    hits.into_iter().map(|hit| hit.chunk.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn inflected_words_are_found_in_every_language() {
    let folder = tempfile::tempdir().unwrap();
    let (large, small) = (TantivyIndex::in_folder(folder.path()), MemoryChunkIndex::new());
    filled(&large).await;
    filled(&small).await;
    let mut missed = Vec::new();
    for Passage(name, _, questions) in PASSAGES {
        for question in *questions {
            let hits = found(&large, question).await;
            assert_eq!(hits, found(&small, question).await, "both indexes agree: {question}");
            if hits.first().map(String::as_str) != Some(*name) {
                missed.push(format!("{question} finds {hits:?}, not {name}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Text found by its stop words alone would be found by everything.
#[tokio::test(flavor = "multi_thread")]
async fn stop_words_of_a_language_are_not_searched() {
    let index = MemoryChunkIndex::new();
    filled(&index).await;
    for question in
        ["Wo ist die Universität?", "Où est la banque de l'île ?", "¿Dónde está el hospital de la isla?"]
    {
        assert_eq!(found(&index, question).await, Vec::<String>::new(), "{question}");
    }
}

/// Names are the same in every language, so a query in one finds texts in others.
#[tokio::test(flavor = "multi_thread")]
async fn names_are_found_across_languages() {
    let index = MemoryChunkIndex::new();
    filled(&index).await;
    assert_eq!(found(&index, "Wer bearbeitet Visa in Geneva?").await, ["en-visa"]);
    assert_eq!(found(&index, "Where is Hydraulik GmbH?").await, ["mixed"]);
    assert_eq!(found(&index, "What is a Kessel?").await, ["de-pump"]);
}

/// Data written by an older program is rebuilt, and its files are removed.
#[tokio::test(flavor = "multi_thread")]
async fn folders_of_older_versions_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    filled(&TantivyIndex::in_folder(folder.path())).await;
    let tenant = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let own = std::fs::read_dir(&tenant).unwrap().next().unwrap().unwrap().path();
    let older = own.with_extension("v1");
    std::fs::rename(&own, &older).unwrap();
    let index = TantivyIndex::in_folder(folder.path());
    assert_eq!(index.size(&key()).await.unwrap().chunks, 0, "it is rebuilt by whoever finds it missing");
    filled(&index).await;
    assert!(!older.exists() && own.exists());
}
