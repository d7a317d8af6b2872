from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flows.tool_text import flatten, patch_files, relative, tool_content, tool_files
from headwater.schemas.events import FileOp, FileRef

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("a", "a"),
        (3, "3"),
        (2.5, "2.5"),
        (True, "true"),
        ([], ""),
        ({}, "{}"),
        (["a", None, "b"], "a\nb"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ({"stdout": "out", "stderr": "err", "interrupted": False}, "out\nerr"),
        ({"type": "text", "file": {"filePath": "/a", "content": "body", "numLines": 1}}, "body"),
        ({"type": "image", "file": {"base64": "iVBOR", "type": "image/png"}}, "[image]"),
        ({"base64": "iVBOR"}, "[image]"),
        ({"status": "completed", "content": [{"type": "text", "text": "said"}]}, "said"),
        ({"count": 3}, '{"count": 3}'),
    ],
)
def test_flatten_gives_the_text_of_any_shape(value: Any, text: str) -> None:
    """Strings stay, blocks give their text, images a placeholder, the rest compact JSON."""
    assert flatten(value) == text


@given(JSON, JSON)
def test_no_shape_raises(asked: Any, answered: Any) -> None:
    """Any JSON value can stand as a tool's input and answer, for any tool."""
    for name in ("Bash", "Edit", "Write", "Read", "MultiEdit", "apply_patch", "mcp__x__y"):
        assert isinstance(tool_content(name, asked, answered, None), str)
        assert isinstance(tool_files(name, asked, "/p"), tuple)


def test_command_stands_first_with_its_description() -> None:
    """A shell call's text begins with what was typed."""
    asked = {"command": "ls -la", "description": "List"}
    assert tool_content("Bash", asked, {"stdout": "a.txt", "stderr": ""}, None) == "$ ls -la  # List\na.txt"


def test_error_stands_last() -> None:
    """A failed call's text ends with its error."""
    assert tool_content("Bash", {"command": "exit 3"}, None, "Exit code 3") == "$ exit 3\nerror: Exit code 3"


def test_edit_is_told_once() -> None:
    """An edit's text holds the change, not the answer that repeats it."""
    asked = {"file_path": "/p/a.py", "old_string": "one", "new_string": "two"}
    answered = {
        "filePath": "/p/a.py",
        "oldString": "one",
        "newString": "two",
        "originalFile": "whole old file",
    }
    assert tool_content("Edit", asked, answered, None) == "Edit /p/a.py\n- one\n+ two"


def test_multi_edit_tells_every_change() -> None:
    """Each of several edits of one call is in its text."""
    asked = {"file_path": "/a", "edits": [{"old_string": "x", "new_string": "y"}, {"new_string": "z"}, 3]}
    assert tool_content("MultiEdit", asked, {"filePath": "/a"}, None) == "MultiEdit /a\n- x\n+ y\n+ z"


@pytest.mark.parametrize("answer", ["text", ["text"], [{"type": "text", "text": "text"}]])
def test_edit_with_an_answer_in_words_keeps_it(answer: Any) -> None:
    """Older agents answer an edit in words."""
    assert tool_content("Edit", {"file_path": "/a"}, answer, None) == "Edit /a\ntext"


def test_image_of_a_shell_call_is_a_placeholder() -> None:
    """A picture on standard output is not text."""
    assert (
        tool_content("Bash", {"command": "x"}, {"stdout": "iVBOR", "isImage": True}, None) == "$ x\n[image]"
    )


@pytest.mark.parametrize(
    ("name", "asked", "files"),
    [
        ("Read", {"file_path": "/p/src/a.py"}, [FileRef("src/a.py", FileOp.READ)]),
        ("Write", {"file_path": "/p/b"}, [FileRef("b", FileOp.WRITE)]),
        ("Edit", {"file_path": "/q/b"}, [FileRef("/q/b", FileOp.EDIT)]),
        ("NotebookEdit", {"notebook_path": "/p/n.ipynb"}, [FileRef("n.ipynb", FileOp.EDIT)]),
        ("Edit", {"file_path": 3}, []),
        ("Edit", {"file_path": ""}, []),
        ("Edit", None, []),
        ("Grep", {"path": "/p/src"}, []),
        ("Bash", {"command": "cat /p/a"}, []),
    ],
)
def test_files_of_a_call(name: str, asked: Any, files: list[FileRef]) -> None:
    """File tools name their file, relative to the project; others name none."""
    assert tool_files(name, asked, "/p") == tuple(files)


PATCH = "*** Begin Patch\n*** Update File: /p/a.py\n@@\n*** Add File: b.py\n*** Delete File: /q/c.py\n*** End Patch"


@pytest.mark.parametrize("asked", [{"command": PATCH}, {"input": PATCH}, {"patch": PATCH}, PATCH])
def test_patch_names_its_files(asked: Any) -> None:
    """A patch's files come with what was done to them, wherever its text stands."""
    expected = (
        FileRef("a.py", FileOp.EDIT),
        FileRef("b.py", FileOp.WRITE),
        FileRef("/q/c.py", FileOp.DELETE),
    )
    assert tool_files("apply_patch", asked, "/p") == expected
    assert tuple(patch_files(PATCH, "/p")) == expected


@pytest.mark.parametrize(
    ("path", "project", "wanted"),
    [
        ("/p/a", "/p", "a"),
        ("/p", "/p", "."),
        ("/p/", "/p", "."),
        ("/p/./a//b", "/p", "a/b"),
        ("/pp/a", "/p", "/pp/a"),
        ("/a", "/", "/a"),
        ("a/b", "/p", "a/b"),
        ("/p/a", "", "/p/a"),
        ("", "/p", ""),
        ("C:\\Users\\Jane Doe\\r\\a.py", "C:/Users/Jane Doe/r", "a.py"),
        ("c:\\Users\\Jane Doe\\r\\a.py", "C:/Users/Jane Doe/r", "a.py"),
        ("c:/Users/r/a.py", "C:/Users/r", "a.py"),
        ("\\\\wsl$\\Ubuntu\\r\\a.py", "//wsl$/Ubuntu/r", "a.py"),
        ("src\\a.py", "C:/r", "src/a.py"),
    ],
)
def test_paths_are_relative_to_the_project(path: str, project: str, wanted: str) -> None:
    """A path inside the project loses its root, whichever way it is written."""
    assert relative(path, project) == wanted
