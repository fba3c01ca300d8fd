"""The mutants that mutmut makes of a module, and how one takes the place of its function in this process.

mutmut writes all mutants of a module into one text. Importing that text makes every call of every function slower, by
so much that a whole campaign would take days; so only the code of one function is exchanged, in a fork.
"""

import ast
import difflib
import hashlib
import importlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

from mutmut.mutation.file_mutation import mutate_file_contents

from tests.conftest import REPOSITORY

KEPT = REPOSITORY / ".crash" / "mutants"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutant(NamedTuple):
    """One change of one function.

    module     its name inside kafka_offsets, as `storage.log`
    function   its name in the module, as `Class.method`
    text       the function as changed; `original` is the one that mutmut copied
    code       of the changed function
    defaults   of its arguments, and of those by keyword alone, as expressions
    """

    module: str
    function: str
    number: int
    original: str
    text: str
    code: CodeType
    defaults: list[ast.expr]
    keyword_defaults: dict[str, ast.expr]

    @property
    def name(self) -> str:
        return f"{self.module}.{self.function}#{self.number}"

    @property
    def key(self) -> str:
        """The same for the same change of the same function, wherever it stands in the file."""
        return hashlib.sha256(f"{self.module}.{self.function}\n{self.text}".encode()).hexdigest()[:16]

    def difference(self) -> str:
        lines = difflib.unified_diff(self.original.splitlines(), self.text.splitlines(), n=2, lineterm="")
        return "\n".join([f"# {self.name}", *list(lines)[2:]])

    def write(self, root: Path) -> None:
        """Change the function in the file of a copy of the repository."""
        path = root.joinpath("kafka_offsets", *self.module.split(".")).with_suffix(".py")
        *classes, name = self.function.split(".")
        scope: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
        for wanted in [*classes, name]:
            scope = next(node for node in ast.iter_child_nodes(scope) if getattr(node, "name", "") == wanted)
        assert isinstance(scope, FUNCTIONS)
        lines = path.read_text(encoding="utf-8").splitlines()
        lines[scope.lineno - 1 : scope.end_lineno] = [
            self.text.replace(f"def {self.function}(", f"def {name}(")
        ]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")

    def plant(self) -> None:
        """Exchange the code of the function, wherever it is referred to from."""
        function = function_of(self.module, self.function)
        names = function.__globals__
        function.__code__ = self.code
        if self.defaults:
            function.__defaults__ = tuple(_value(default, names) for default in self.defaults)
        if self.keyword_defaults:
            function.__kwdefaults__ = {
                name: _value(default, names) for name, default in self.keyword_defaults.items()
            }


def function_of(module: str, name: str) -> FunctionType:
    """Return the function of that name, below what makes it a static or a class method."""
    *classes, last = name.split(".")
    scope = vars(importlib.import_module(f"kafka_offsets.{module}"))
    for owner in classes:
        scope = vars(scope[owner])
    found = scope[last]
    found = getattr(found, "__func__", found)
    assert isinstance(found, FunctionType), f"{module}.{name} is {found!r}"
    return found


def module_of(path: Path) -> str:
    """Return the name of a module inside kafka_offsets."""
    return ".".join(path.relative_to(REPOSITORY / "kafka_offsets").with_suffix("").parts)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield the mutants of a module, in the order that mutmut gives them."""
    changed = _changed(path)
    codes = dict(_codes(compile(changed, str(path), "exec")))
    lines = changed.splitlines()
    nodes = {node.name: node for node in ast.walk(ast.parse(changed)) if isinstance(node, FUNCTIONS)}
    texts = {name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for name, node in nodes.items()}
    for name, node in nodes.items():
        mangled, mark, number = name.partition("__mutmut_")
        if mark and number.isdigit():
            function = mangled[2:].replace("ǁ", ".")
            arguments = node.args
            yield Mutant(
                module=module_of(path),
                function=function,
                number=int(number),
                original=texts[f"{mangled}__mutmut_orig"]
                .replace("__mutmut_orig", "", 1)
                .replace(mangled, function, 1),
                text=texts[name].replace(f"{mark}{number}", "", 1).replace(mangled, function, 1),
                code=codes[name],
                defaults=arguments.defaults,
                keyword_defaults={
                    argument.arg: default
                    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
                    if default is not None
                },
            )


def _changed(path: Path) -> str:
    """The text of a module with all its mutants; making it takes seconds, so it is kept."""
    text = path.read_text(encoding="utf-8")
    digest = hashlib.sha256(f"{version('mutmut')} {text}".encode()).hexdigest()
    kept = KEPT / f"{path.stem}-{digest[:16]}"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(mutate_file_contents(str(path.relative_to(REPOSITORY)), text).code, encoding="utf-8")
    return kept.read_text(encoding="utf-8")


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The functions of a module and of its classes, by the names that mutmut gives them."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if "__mutmut_" in constant.co_name:
                yield constant.co_name, constant
            else:
                yield from _codes(constant)


def _value(default: ast.expr, names: dict[str, object]) -> object:
    return eval(compile(ast.Expression(default), "<default>", "eval"), names)
