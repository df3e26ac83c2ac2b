"""Datasets through ragflow-sdk, with a running server: `datasets.py BASE_URL [TOKEN]`."""

import sys
import time

from ragflow_sdk import DataSet, RAGFlow

ENDINGS = {"DONE", "FAIL", "CANCEL"}
PATIENCE = 120

TEXTS = {
    "fox.txt": "The quick brown fox jumps over the lazy dog.\n",
    "bridges.md": "# Bridges\n\nThe old bridge over the river was built in 1823 of red stone.\n",
    "umlaute äöü.txt": "Die Prüfung der Brücke fand im Jahre 1911 statt.\n",
}


def read(dataset, documents):
    """Starts parsing documents and waits, as the examples of the SDK do."""
    dataset.async_parse_documents([document.id for document in documents])
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        now = {document.id: document for document in dataset.list_documents(page_size=100)}
        if all(now[document.id].run in ENDINGS for document in documents):
            return [now[document.id] for document in documents]
        time.sleep(0.2)
    raise AssertionError(f"not parsed in time: {[(d.name, d.run, d.progress_msg) for d in now.values()]}")


def refused(call, words):
    try:
        call()
    except Exception as error:
        assert words in str(error), f"{error} does not say {words}"
    else:
        raise AssertionError(f"the call was not refused with: {words}")


def datasets(rag):
    config = DataSet.ParserConfig(rag, {"chunk_token_num": 64, "raptor": {"use_raptor": False}})
    dataset = rag.create_dataset(name="peer", description="of the peer", parser_config=config)
    assert dataset.name == "peer" and dataset.chunk_method == "naive" and dataset.document_count == 0
    assert dataset.parser_config.chunk_token_num == 64, dataset.parser_config.to_json()
    assert rag.get_dataset(name="peer").id == dataset.id
    assert [one.id for one in rag.list_datasets(id=dataset.id)] == [dataset.id]
    assert dataset.update({"description": "changed", "pagerank": 3}).description == "changed"
    second = rag.create_dataset(name="peer")
    assert second.name == "peer(1)", second.name
    rag.delete_datasets(ids=[second.id])
    rag.delete_datasets()
    assert len(rag.list_datasets()) == 1, "nothing is removed without ids"
    refused(lambda: rag.create_dataset(name=""), "String should have at least 1 character")
    refused(lambda: rag.create_dataset(name="x", chunk_method="nonsense"), "Input should be 'naive'")
    refused(lambda: dataset.update({"name": 3}), "Input should be a valid string")
    refused(lambda: rag.get_dataset(name="none"), "lacks permission")
    return dataset


def documents(dataset):
    files = [{"display_name": name, "blob": text.encode()} for name, text in TEXTS.items()]
    uploaded = dataset.upload_documents(files)
    assert [document.name for document in uploaded] == list(TEXTS), [one.name for one in uploaded]
    assert all(document.run == "UNSTART" for document in uploaded)
    done = read(dataset, uploaded)
    for document in done:
        assert document.run == "DONE", f"{document.name}: {document.progress_msg}"
        assert document.progress == 1.0 and document.chunk_count >= 1, document.to_json()
    ids = [document.id for document in done]
    for one, run, chunks, _tokens in dataset.parse_documents(ids[:1]):
        assert (one, run) == (ids[0], "DONE") and chunks >= 1
    assert {document.id for document in dataset.list_documents(ids=ids[:2])} == set(ids[:2])
    assert [document.name for document in dataset.list_documents(keywords="BRIDGE")] == ["bridges.md"]
    fox = done[0]
    assert fox.download().decode() == TEXTS["fox.txt"]
    changed = fox.update({"meta_fields": {"author": "Ada", "year": 1950}, "name": "renamed.txt"})
    assert changed.name == "renamed.txt" and changed.meta_fields.author == "Ada", changed.to_json()
    refused(lambda: fox.update({"name": "renamed.md"}), "The extension of file can't be changed")
    refused(lambda: dataset.async_cancel_parse_documents([fox.id]), "has not started or already completed")
    refused(lambda: dataset.async_parse_documents(["none"]), "Documents not found: ['none']")
    return done


def chunks(document):
    listed = document.list_chunks()
    assert listed and "quick brown fox" in listed[0].content, [chunk.content for chunk in listed]
    assert all(len(place) == 5 for chunk in listed for place in chunk.positions)
    added = document.add_chunk("Hedgehogs sleep in winter.", important_keywords=["hedgehog"])
    assert added.content == "Hedgehogs sleep in winter." and added.document_id == document.id
    listed = {chunk.id: chunk for chunk in document.list_chunks()}
    listed[added.id].update({"content": "Hedgehogs wake up in spring.", "questions": ["When do they wake?"]})
    again = document.list_chunks(id=added.id)[0]
    assert again.content == "Hedgehogs wake up in spring." and again.questions == ["When do they wake?"]
    assert "<em>" in document.list_chunks(keywords="spring")[0].content
    return added


def searches(rag, dataset, document, added):
    found = rag.retrieve(dataset_ids=[dataset.id], question="who wakes up in spring", similarity_threshold=0.0)
    assert found and found[0].id == added.id, [chunk.content for chunk in found]
    assert 0.0 < found[0].similarity <= 1.0 and found[0].document_name == "renamed.txt"
    condition = {"conditions": [{"name": "author", "comparison_operator": "is", "value": "Ada"}]}
    within = rag.retrieve(
        dataset_ids=[dataset.id], question="bridge fox", similarity_threshold=0.0, metadata_condition=condition
    )
    assert within and {chunk.document_id for chunk in within} == {document.id}
    bridge = rag.retrieve(dataset_ids=[dataset.id], question="Brücke Prüfung", similarity_threshold=0.0)
    assert "1911" in bridge[0].content, [chunk.content for chunk in bridge]
    document.delete_chunks(ids=[added.id])
    found = rag.retrieve(dataset_ids=[dataset.id], question="who wakes up in spring", similarity_threshold=0.0)
    assert added.id not in [chunk.id for chunk in found]
    refused(lambda: rag.retrieve(dataset_ids=["none"], question="x"), "You don't own the dataset none.")


def removal(rag, dataset, kept):
    config = dataset.update_auto_metadata(metadata=[{"key": "author"}])
    assert config["metadata"] == dataset.get_auto_metadata()["metadata"] == [{"key": "author", "enum": None}]
    refused(lambda: dataset.delete_documents(), "should either provide doc ids or set delete_all(true)")
    dataset.delete_documents(ids=[kept[0].id])
    assert len(dataset.list_documents()) == len(kept) - 1
    dataset.delete_documents(delete_all=True)
    assert dataset.list_documents() == []
    rag.delete_datasets(ids=[dataset.id])
    assert rag.list_datasets() == []


def main():
    base, token = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "none"
    rag = RAGFlow(token, base)
    dataset = datasets(rag)
    kept = documents(dataset)
    added = chunks(kept[0])
    searches(rag, dataset, kept[0], added)
    removal(rag, dataset, kept)
    print("ragflow-sdk: datasets, documents, chunks and searches are as its users know them")


if __name__ == "__main__":
    main()
