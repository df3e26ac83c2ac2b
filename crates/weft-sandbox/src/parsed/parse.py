import ast
import warnings

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def main(source, given):
    warnings.simplefilter("ignore")
    try:
        tree = compile(source, "program.py", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        wrong = no_main(tree) or other_parameters(tree, set(given))
        # Calls of `main` at the end may be left out of a run, so whether they could be carried out does not count.
        while tree.body and isinstance(tree.body[-1], ast.Expr) and names_main(tree.body[-1]):
            tree.body.pop()
        compile(tree, "program.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        return fault(f"{type(error).__name__}: {error.msg}", error.lineno, error.offset)
    return wrong


def fault(message, line, column):
    return {"message": message, "line": line or 0, "column": column or 0}


def names_main(node):
    return any(isinstance(part, ast.Name) and part.id == "main" for part in ast.walk(node))


def no_main(tree):
    """Of a program that imports modules, defines functions and does nothing else: without a `main` it gives nothing."""
    functions = [node for node in tree.body if isinstance(node, FUNCTIONS)]
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if not functions or len(functions) + len(imports) < len(tree.body):
        return None
    # What stands around a function is carried out, and may print.
    if any(node.decorator_list or node.args.defaults or any(node.args.kw_defaults) for node in functions):
        return None
    names = [node.name for node in functions]
    # Some modules print when they are imported.
    if not aliases(tree).union(names).isdisjoint({"main", "result", "*", "this", "__hello__"}):
        return None
    # One of them may make a `main` or a `result`, if something calls it: a decorator, a parameter, a type.
    if any(isinstance(part, ast.Global) for part in ast.walk(tree)):
        return None
    listed = ", ".join(f"`{name}`" for name in names[:5])
    return fault(f"it defines no function `main`, and nothing calls {listed}", functions[-1].lineno, 1)


def other_parameters(tree, given):
    """Of a `main` that cannot be called with these arguments, neither by their names nor with all of them as one."""
    mains = [node for node in tree.body if isinstance(node, FUNCTIONS) and node.name == "main"]
    # Another one may take its place, and one that the program calls itself need not be called again.
    others = sum(getattr(node, "name", None) == "main" for node in ast.walk(tree)) > 1
    if len(mains) != 1 or others or mains[0].decorator_list or names_main(tree) or {"main", "*"} & aliases(tree):
        return None
    parameters = mains[0].args
    positional = parameters.posonlyargs + parameters.args
    required = positional[:len(positional) - len(parameters.defaults)]
    keywords = [one.arg for one, default in zip(parameters.kwonlyargs, parameters.kw_defaults) if default is None]
    known = {one.arg for one in parameters.args + parameters.kwonlyargs}
    missing = [one.arg for one in required if one in parameters.posonlyargs or one.arg not in given]
    missing += [name for name in keywords if name not in given]
    unknown = [] if parameters.kwarg else sorted(given - known)
    if not missing and not unknown:
        return None
    alone = len(positional) == 1 or len(required) == 1
    if positional and alone and not keywords and positional[0].arg not in given:
        return None
    if parameters.vararg and not required:
        return None
    listed = ", ".join(f"`{name}`" for name in sorted(given)[:20]) or "none"
    what = f"it needs `{missing[0]}`" if missing else f"it takes no `{unknown[0]}`"
    return fault(f"`main` cannot be called: {what}, and `arguments` has {listed}", mains[0].lineno, mains[0].col_offset + 1)


def aliases(tree):
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {alias.asname or alias.name for node in imports for alias in node.names}
