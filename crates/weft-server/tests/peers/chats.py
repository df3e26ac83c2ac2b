"""Chat assistants and their sessions through ragflow-sdk and openai: `chats.py BASE_URL [TOKEN]`. Needs the server with
`peers.toml`. Versions of the SDK up to 0.24 use the older names for the fields of an assistant, and expect lists of
assistants in a form that this server does not have."""

import sys

from ragflow_sdk import RAGFlow

from datasets import read, refused

NEW = hasattr(RAGFlow, "get_chat")
QUESTION = "quick brown fox"
FOX = {"display_name": "fox.txt", "blob": b"The quick brown fox jumps over the lazy dog.\n"}


def text(messages):
    return "".join(message.content for message in messages)


def assistant(rag, dataset):
    chat = rag.create_chat("peer", dataset_ids=[dataset.id])
    assert chat.name == "peer" and chat.id, chat
    refused(lambda: rag.create_chat("PEER", dataset_ids=[dataset.id]), "uplicated chat name in creating chat")
    refused(lambda: rag.create_chat("other", dataset_ids=["none"]), "You don't own the dataset none")
    if NEW:
        assert rag.get_chat(chat.id).prompt_config.system == chat.prompt_config.system
        assert [one.id for one in rag.list_chats(name="peer")] == [chat.id]
        assert [one.id for one in rag.list_chats(keywords="EE", orderby="update_time")] == [chat.id]
        assert rag.list_chats(id="none") == []
        chat.update({"name": "renamed", "llm_setting": {"temperature": 0.5}})
        assert rag.get_chat(chat.id).llm_setting.temperature == 0.5
        made = rag.create_chat("second", llm_id="m", prompt_config={"system": "Be brief.", "prologue": "Hi"}, top_n=3)
        assert (made.llm_id, made.top_n, made.prompt_config.prologue) == ("m", 3, "Hi"), made
        refused(lambda: rag.create_chat("third", rerank_id="none"), "`rerank_id` none doesn't exist")
    else:
        assert chat.prompt.keywords_similarity_weight == 0.7, chat.prompt
        assert (chat.llm.max_tokens, chat.prompt.top_n) == (512, 8), chat
        chat.update({"name": "renamed", "llm": {"temperature": 0.5}, "prompt": {"top_n": 3}})
        made = rag.create_chat("second")
    rag.delete_chats(ids=[made.id])
    refused(lambda: rag.delete_chats(ids=[made.id]), "not found")
    refused(lambda: chat.update({"name": ""}), "`name` cannot be empty")
    rag.delete_chats()
    return chat


def conversations(chat):
    session = chat.create_session("mine")
    assert session.name == "mine" and session.messages[0]["role"] == "assistant", session.messages
    other = chat.create_session()
    assert {one.id for one in chat.list_sessions()} == {session.id, other.id}
    assert [one.id for one in chat.list_sessions(name="mine")] == [session.id]
    session.update({"name": "ours"})
    assert chat.list_sessions(id=session.id)[0].name == "ours"
    refused(lambda: session.update({"name": ""}), "`name` can not be empty")
    chat.delete_sessions(ids=[other.id])
    chat.delete_sessions()
    assert [one.id for one in chat.list_sessions()] == [session.id], "nothing is removed without ids"
    return session


def answers(chat, session):
    whole = next(iter(session.ask(QUESTION, stream=False)))
    assert whole.content == "at once", whole.content
    assert "quick brown fox" in whole.reference[0]["content"], whole.reference
    messages = list(session.ask(QUESTION, stream=True))
    assert text(messages) == "at once", [message.content for message in messages]
    assert messages[-1].reference[0]["document_name"] == "fox.txt", messages[-1].reference
    told = chat.list_sessions(id=session.id)[0].messages
    assert [message["role"] for message in told] == ["assistant"] + 2 * ["user", "assistant"], told
    # Two streams that are read concurrently: the second waits for the first.
    pair = [session.ask(f"{QUESTION} {nth}", stream=True) for nth in range(2)]
    assert [text(stream) for stream in pair] == ["at once"] * 2
    for message in session.ask("long", stream=True):
        if message.content:
            break
    assert text(session.ask(QUESTION, stream=True)) == "at once", "an abandoned answer gives way"


def openai_client(base, token, chat):
    import openai

    question = [{"role": "user", "content": QUESTION}]
    for path in ["openai", "chats_openai"]:
        client = openai.OpenAI(base_url=f"{base}/api/v1/{path}/{chat}", api_key=token, max_retries=0)
        extra = {"reference": True}
        whole = client.chat.completions.create(model="model", messages=question, extra_body=extra)
        assert whole.choices[0].message.content == "at once", whole
        assert "fox" in whole.choices[0].message.reference[0]["content"], whole
        chunks = list(client.chat.completions.create(model="model", messages=question, stream=True, extra_body=extra))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "at once", chunks
        assert chunks[-1].choices[0].finish_reason == "stop" and chunks[-1].usage.total_tokens, chunks[-1]
        assert chunks[-1].choices[0].delta.final_content == "at once", chunks[-1]
        try:
            client.chat.completions.create(model="model", messages=[{"role": "assistant", "content": "x"}])
        except openai.APIStatusError as error:
            assert "not from user" in str(error), error
        else:
            raise AssertionError("a request without a user question was accepted")


def main():
    base, token = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "none"
    rag = RAGFlow(token, base)
    dataset = rag.create_dataset(name="chats")
    read(dataset, dataset.upload_documents([FOX]))
    chat = assistant(rag, dataset)
    session = conversations(chat)
    answers(chat, session)
    if NEW:
        openai_client(base, token, chat.id)
        chat.delete_sessions(delete_all=True)
        assert chat.list_sessions() == []
        rag.delete_chats(delete_all=True)
        assert rag.list_chats() == []
    else:
        chat.delete_sessions(ids=[session.id])
        rag.delete_chats(ids=[chat.id])
    rag.delete_datasets(ids=[dataset.id])
    print("ragflow-sdk: every method of chat assistants and their sessions")


if __name__ == "__main__":
    main()
