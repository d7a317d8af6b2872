"""A project is the work tree that a folder belongs to, told from `.git` files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headwater.surface.projects import resolve_project


def git(*words: str, cwd: Path) -> None:
    """Run git without anybody's settings."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "t",
        "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "t",
        "GIT_COMMITTER_EMAIL": "t@example.org",
    }
    command = ["git", "-c", "protocol.file.allow=always", *words]
    subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit and a sub-folder."""
    repository = tmp_path.resolve() / "repo"
    (repository / "src" / "deep").mkdir(parents=True)
    git("init", "-q", cwd=repository)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=repository)
    return repository


def test_sub_folder_belongs_to_its_repository(root: Path) -> None:
    """The root of the work tree stands for all folders in it, also those gone by now."""
    for folder in (root, root / "src" / "deep", root / "src" / "gone" / "for long", root / ".git" / "refs"):
        assert resolve_project(str(folder)) == str(root)


def test_linked_worktree_belongs_to_its_main_repository(root: Path) -> None:
    """A worktree beside the repository is the same project, also when the repository is not there any more."""
    tree = root.parent / "tree"
    git("worktree", "add", "-q", str(tree), cwd=root)
    (tree / "sub").mkdir()

    assert resolve_project(str(tree / "sub")) == str(root)
    (root / ".git").rename(root / "moved")
    assert resolve_project(str(tree / "sub")) == str(root)


@pytest.mark.parametrize("name", [".bare", "store.git"])
def test_worktree_of_a_bare_repository(tmp_path: Path, root: Path, name: str) -> None:
    """A hidden bare repository stands in its project; another one is the project."""
    bare = tmp_path.resolve() / "work" / name
    git("clone", "-q", "--bare", str(root), str(bare), cwd=tmp_path)
    git("worktree", "add", "-q", str(bare.parent / "one"), cwd=bare)

    assert resolve_project(str(bare.parent / "one")) == str(bare.parent if name == ".bare" else bare)


def test_submodule_and_second_clone_are_their_own(root: Path, tmp_path: Path) -> None:
    """Two clones of one name are two projects, and a submodule is not its parent."""
    git("clone", "-q", str(root), str(tmp_path / "other" / "repo"), cwd=tmp_path)
    git("submodule", "add", "-q", str(root), "inner", cwd=tmp_path / "other" / "repo")
    clone = tmp_path.resolve() / "other" / "repo"

    assert resolve_project(str(clone)) == str(clone)
    assert resolve_project(str(clone / "inner")) == str(clone / "inner")


def test_without_git_the_folder_is_the_project(tmp_path: Path) -> None:
    """No repository, an empty `.git` folder, a broken `.git` file: the folder itself."""
    for name in ("plain", "empty", "broken"):
        (tmp_path / name).mkdir()
    (tmp_path / "empty" / ".git").mkdir()
    (tmp_path / "broken" / ".git").write_bytes(b"\xff\xfe nonsense")
    for name in ("plain", "empty", "broken", "missing"):
        assert resolve_project(str(tmp_path / name)) == str(tmp_path.resolve() / name)


def test_links_are_resolved(root: Path) -> None:
    """A link to a folder of the repository is that folder."""
    link = root.parent / "link"
    link.symlink_to(root / "src")

    assert resolve_project(str(link)) == str(root)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ""),
        ("C:\\Users\\Jane Doe\\repo\\", "C:/Users/Jane Doe/repo"),
        ("c:/Users/Jane Doe/x/../repo", "C:/Users/Jane Doe/repo"),
        ("\\\\wsl$\\Ubuntu\\home", "//wsl$/Ubuntu/home"),
        ("/nonexistent/a/../b/", "/nonexistent/b"),
        ("/nonexistent/a\x00b", "/nonexistent/a\x00b"),
        ("/nonexistent/\ud83d", "/nonexistent/\ud83d"),
    ],
)
def test_odd_paths_never_raise(path: str, expected: str) -> None:
    """Paths of other machines and broken ones are normalised as far as they go."""
    assert resolve_project(path) == expected


def test_deleted_worktree_belongs_to_the_repository_that_has_it_on_record(root: Path) -> None:
    """A worktree that was deleted is the repository's until git prunes it; then nothing tells any more whose it was."""
    tree = root.parent / "trees" / "one"
    git("worktree", "add", "-q", str(tree), cwd=root)
    shutil.rmtree(tree)
    for folder in (tree, tree / "src" / "deep"):
        assert resolve_project(str(folder)) == str(root)
    assert resolve_project(str(root.parent / "trees" / "two")) == str(root.parent / "trees" / "two")

    git("worktree", "prune", cwd=root)
    assert resolve_project(str(tree)) == str(tree)


def test_worktree_inside_its_repository_belongs_to_it_also_when_removed(root: Path) -> None:
    """Agents make worktrees below the repository; what is left of their paths is still inside it."""
    tree = root / ".claude" / "worktrees" / "fix"
    git("worktree", "add", "-q", str(tree), cwd=root)
    assert resolve_project(str(tree)) == str(root)
    git("worktree", "remove", str(tree), cwd=root)
    assert resolve_project(str(tree)) == str(root)


def test_renamed_repository_is_a_new_project_and_its_worktrees_keep_the_old_name(root: Path) -> None:
    """A `.git` file names its repository by path, so that one decision about the old name moves all that had it."""
    tree = root.parent / "tree"
    git("worktree", "add", "-q", str(tree), cwd=root)
    renamed = root.rename(root.parent / "renamed")

    assert resolve_project(str(renamed / "src")) == str(renamed)
    assert resolve_project(str(tree)) == str(root)
    git("worktree", "repair", str(tree), cwd=renamed)
    assert resolve_project(str(tree)) == str(renamed)
