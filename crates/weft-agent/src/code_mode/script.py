# Runs `source` until it ends or calls a tool that has no answer yet.
import ast
import asyncio
import inspect
import json
import random
import time


class _Waits(BaseException):
    """Ends a run at a call without an answer. No `except Exception` of a script catches it."""


class _Ready(ast.NodeTransformer):
    """Lets a script wait for what is there already: calls of tools give their values at once."""

    def visit_Await(self, node):
        self.generic_visit(node)
        node.value = ast.Call(ast.Name("__ready", ast.Load()), [node.value], [])
        return node


async def _ready(value):
    return await value if inspect.isawaitable(value) else value


def _settled(value):
    return asyncio.run(_ready(value)) if inspect.isawaitable(value) else value


def _value(source, scope):
    """Runs a script: its variable `result`, its last expression, or what its `main` returns that it does not call itself."""
    tree = ast.parse(source, "script.py")
    calls_main = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "main" for node in ast.walk(tree)
    )
    last = "__last"
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        tree.body[-1] = ast.Assign([ast.Name(last, ast.Store())], tree.body[-1].value)
    tree = ast.fix_missing_locations(_Ready().visit(tree))
    code = compile(tree, "script.py", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    _settled(eval(code, scope))
    result = _settled(scope.get("result"))
    if result is None:
        result = _settled(scope.get(last))
    if result is None and callable(scope.get("main")) and not calls_main:
        result = _settled(scope["main"]())
    return result


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

    scope = {"__name__": "__main__", "tools": Tools(), "__ready": _ready}
    try:
        result = _value(source, scope)
    except _Waits:
        return {"asked": asked}
    # A script may have caught even what ends its run.
    return {"asked": asked} if asked else {"result": result}
