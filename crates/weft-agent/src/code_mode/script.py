# Runs `source` until it ends or calls a tool that has no answer yet.
import json
import random
import time


class _Waits(BaseException):
    """Ends a run at a call without an answer. No `except Exception` of a script catches it."""


def main(source, names, answers, now):
    random.seed(2463534242)
    time.time = lambda: now / 1000
    asked = []
    place = 0

    def call(name, given):
        nonlocal place
        given = json.loads(json.dumps(given))
        if place >= len(answers):
            asked.append({"name": name, "arguments": given})
            raise _Waits()
        answer = answers[place]
        place += 1
        if answer["name"] != name:
            raise RuntimeError(
                f"the script called {answer['name']} before where it calls {name} now; it has to do the same each time"
            )
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    class Tools:
        def __getattr__(self, name):
            if name not in names:
                raise AttributeError(f"there is no tool {name}; there are {', '.join(names)}")

            def tool(*given, **named):
                if given and not (len(given) == 1 and isinstance(given[0], dict) and not named):
                    raise TypeError(f"tools.{name} takes its arguments by name")
                return call(name, given[0] if given else named)

            return tool

    scope = {"__name__": "__main__", "tools": Tools()}
    try:
        exec(compile(source, "script.py", "exec"), scope)
        result = scope.get("result")
        if result is None and callable(scope.get("main")):
            result = scope["main"]()
    except _Waits:
        return {"asked": asked}
    # A script may have caught even what ends its run.
    return {"asked": asked} if asked else {"result": result}
