//! The reply of a turn without an answer, in the language of the question as far as its script tells.

use super::state::StopReason;

/// Maximum number of characters of a question that are examined.
// A question shows its script in its first sentences; a pasted document may follow.
const LOOKED_AT_MAX: usize = 1_000;

#[derive(Clone, Copy)]
enum QuestionLanguage {
    English,
    Chinese,
    Japanese,
    Korean,
    Russian,
}

/// The language of the first known script in the question. Japanese also uses Chinese characters, so its own letters
/// count wherever they occur.
fn language(question: &str) -> QuestionLanguage {
    let of = |c: char| match c {
        '\u{3040}'..='\u{30ff}' => Some(QuestionLanguage::Japanese),
        '\u{ac00}'..='\u{d7af}' => Some(QuestionLanguage::Korean),
        '\u{4e00}'..='\u{9fff}' => Some(QuestionLanguage::Chinese),
        '\u{400}'..='\u{4ff}' => Some(QuestionLanguage::Russian),
        _ => None,
    };
    let mut found: Vec<QuestionLanguage> = question.chars().take(LOOKED_AT_MAX).filter_map(of).collect();
    if let Some(place) = found.iter().position(|language| matches!(language, QuestionLanguage::Japanese)) {
        // Japanese text often starts with Chinese characters, which would be taken for the language.
        found.swap(0, place);
    }
    found.first().copied().unwrap_or(QuestionLanguage::English)
}

/// The text that says why there is no answer.
pub(super) fn explanation(reason: StopReason, question: &str) -> &'static str {
    use QuestionLanguage::{Chinese, English, Japanese, Korean, Russian};
    match (reason, language(question)) {
        (StopReason::MaxSteps, English) => "I used up my steps before I had an answer.",
        (StopReason::MaxSteps, Chinese) => "在得出答案之前,我已用完了可用的步骤。",
        (StopReason::MaxSteps, Japanese) => "答えが出る前に、使えるステップを使い切りました。",
        (StopReason::MaxSteps, Korean) => "답을 얻기 전에 사용할 수 있는 단계를 모두 썼습니다.",
        (StopReason::MaxSteps, Russian) => "Шаги закончились раньше, чем нашёлся ответ.",
        (StopReason::LoopDetected, English) => {
            "I stopped because my last steps gave the same results again and again."
        }
        (StopReason::LoopDetected, Chinese) => "最近几步反复得到相同的结果,因此我停了下来。",
        (StopReason::LoopDetected, Japanese) => "同じ結果が繰り返されたため、処理を止めました。",
        (StopReason::LoopDetected, Korean) => "같은 결과가 반복되어 작업을 멈췄습니다.",
        (StopReason::LoopDetected, Russian) => {
            "Последние шаги давали одно и то же, поэтому работа остановлена."
        }
        (StopReason::Cancelled, English) => "The work was cancelled.",
        (StopReason::Cancelled, Chinese) => "任务已取消。",
        (StopReason::Cancelled, Japanese) => "処理は取り消されました。",
        (StopReason::Cancelled, Korean) => "작업이 취소되었습니다.",
        (StopReason::Cancelled, Russian) => "Работа отменена.",
        (StopReason::ContentFilter, English) => "The model's provider held the answer back.",
        (StopReason::ContentFilter, Chinese) => "模型服务商拦截了这个回答。",
        (StopReason::ContentFilter, Japanese) => "モデルの提供元が回答を差し止めました。",
        (StopReason::ContentFilter, Korean) => "모델 제공자가 답변을 차단했습니다.",
        (StopReason::ContentFilter, Russian) => "Поставщик модели задержал ответ.",
        (StopReason::Length, English) => "The model reached its limit of tokens before it answered.",
        (StopReason::Length, Chinese) => "模型在回答之前达到了长度上限。",
        (StopReason::Length, Japanese) => "回答の前にモデルのトークン上限に達しました。",
        (StopReason::Length, Korean) => "모델이 답하기 전에 토큰 한도에 도달했습니다.",
        (StopReason::Length, Russian) => "Модель исчерпала лимит токенов раньше, чем ответила.",
        (StopReason::None | StopReason::Completed | StopReason::EmptyResponse, English) => {
            "The model gave no answer."
        }
        (StopReason::None | StopReason::Completed | StopReason::EmptyResponse, Chinese) => {
            "模型没有给出回答。"
        }
        (StopReason::None | StopReason::Completed | StopReason::EmptyResponse, Japanese) => {
            "モデルから回答がありませんでした。"
        }
        (StopReason::None | StopReason::Completed | StopReason::EmptyResponse, Korean) => {
            "모델이 답을 주지 않았습니다."
        }
        (StopReason::None | StopReason::Completed | StopReason::EmptyResponse, Russian) => {
            "Модель не дала ответа."
        }
    }
}
