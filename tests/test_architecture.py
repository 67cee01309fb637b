"""The house rules that can be checked, checked."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.api.errors import STATUS, status_of_class
from app.domain import errors
from app.domain.errors import Refused
from app.wsgi import routes

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for folder in ("app", "workers") for path in (ROOT / folder).rglob("*.py"))
MIGRATIONS = sorted((ROOT / "app/store/migrations/versions").glob("*.sql"))
MAX_LINES = 300
MAX_FUNCTION_LINES = 50


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        yield path, ast.parse(path.read_text("utf-8"))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def texts(tree: ast.Module) -> Iterator[str]:
    """The string literals of a module; of an f-string, its fixed parts and ``{}`` for the others."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def test_knowledge_runs_one_way() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_no_import_hides_in_a_function() -> None:
    hidden = [
        f"{named(path)}:{node.lineno}"
        for path, tree in trees()
        for function in functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert hidden == []


def test_files_and_functions_are_short() -> None:
    counts = {named(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    assert {name: count for name, count in counts.items() if count > MAX_LINES} == {}
    long = {
        f"{named(path)}:{function.name}": lines
        for path, tree in trees()
        for function in functions(tree)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_one_place_commits() -> None:
    found = {
        named(path)
        for path, tree in trees()
        if any(re.fullmatch(r"\s*COMMIT\s*;?\s*", text) for text in texts(tree)) or ".commit(" in ast.unparse(tree)
    }
    assert found == {"app/transaction.py", "app/store/migrate.py"}, "the second before there is a service"


def tenant_tables() -> set[str]:
    made = re.findall(r"CREATE TABLE (\w+) \((.*?)\n\);", "\n".join(map(Path.read_text, MIGRATIONS)), re.DOTALL)
    return {name for name, columns in made if re.search(r"\btenant_id\b", columns)}


def statements(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each string literal with the source of the function or constant that it stands in."""
    for node in tree.body:
        parts = node.body if isinstance(node, ast.ClassDef) else [node]
        for part in parts:
            for text in texts(ast.Module([part], [])):
                yield text, ast.unparse(part)


def test_every_statement_carries_the_tenant() -> None:
    """Of those whose conditions stand in them: assembled ones get the tenant where they are assembled."""
    tables = tenant_tables()
    assert {"corrections", "runs", "tokens", "outbox"} <= tables
    touches = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|ONLY)\s+({'|'.join(sorted(tables))})\b")
    without = [
        f"{named(path)}: {' '.join(text.split())[:90]}"
        for path, tree in trees()
        if "store" in path.parts
        for text, around in statements(tree)
        if touches.search(text) and "tenant" not in around and not re.search(r"WHERE {", text)
    ]
    assert without == [], "name the tenant, or say `-- every tenant` in the statement where it serves all alike"


def test_importing_runs_nothing() -> None:
    script = (
        "import sys, threading, pkgutil, importlib, app, workers\n"
        "for package in (app, workers):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if '.migrations.' not in module.name and not module.name.endswith('__main__'):\n"
        "            importlib.import_module(module.name)\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, env={}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""


def every_error(kind: type[Refused] = Refused) -> Iterator[type[Refused]]:
    for child in kind.__subclasses__():
        yield child
        yield from every_error(child)


@pytest.mark.parametrize("kind", [kind for kind in every_error() if kind.__module__ == errors.__name__])
def test_every_error_has_a_status_and_a_code_of_its_own(kind: type[Refused]) -> None:
    assert 400 <= status_of_class(kind) <= 599
    assert "code" in vars(kind), "name what is wrong"
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code)


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in every_error()]
    assert sorted(codes) == sorted(set(codes))
    assert all(issubclass(kind, Refused) for kind in STATUS)


def test_every_operation_is_told_in_words() -> None:
    for route in routes():
        assert not route.summary.startswith("/"), f"{route.method} {route.path} needs a docstring"
        assert route.answers, f"{route.method} {route.path} declares no answer"
        assert "{" not in route.path or route.hidden or route.missing.code != "route-not-found", (
            f"{route.method} {route.path} declares no `missing`: what an id that can't be answers"
        )
