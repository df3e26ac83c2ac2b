"""The compatible API over HTTP, with the requests of its own test suites: `api BASE_URL TOKEN`. Needs a server with
`peers.toml` that requires tokens, and removes the data of the token's tenant."""

import sys
import time

import agents
import chats
import chunks
import datasets
import documents
import memories
from asking import Api

GROUPS = {
    "datasets": datasets, "documents": documents, "chunks": chunks, "chats": chats, "agents": agents, "memories": memories,
}


def main() -> None:
    base, token, only = sys.argv[1], sys.argv[2], sys.argv[3:]
    api, begun = Api(base, token), time.monotonic()
    for name, group in GROUPS.items():
        if not only or name in only:
            api.group(name, group.cases)
    for line in api.failed:
        print(line, file=sys.stderr)
    taken = time.monotonic() - begun
    print(f"the compatible API: {api.held} expectations hold, {len(api.failed)} do not, in {taken:.0f} s")
    sys.exit(bool(api.failed))


if __name__ == "__main__":
    main()
