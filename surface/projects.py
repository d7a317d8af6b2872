"""Which project a folder belongs to, told from `.git` files alone: no git process, no write, no error.

Standard library only: the hook loads it.
"""
# Paths are plain strings: importing pathlib takes longer than all that is done here.
# ruff: noqa: PTH110, PTH112, PTH113, PTH118, PTH119, PTH120, PTH123, PTH208

import os

_POINTER_CHARS = 4096  # of a `.git` or `commondir` file: they hold one path
_NEIGHBOURS_MAX = 256  # folders in which a repository is looked for that still knows a removed worktree
_PARENTS_MAX = (
    128  # folders looked at on the way up: a path has at most PATH_MAX / 2 of them, real ones far fewer
)


def resolve_project(project_dir: str) -> str:
    """Return the root of the project that `project_dir` lies in, as an absolute normalised path.

    The work tree root of the git common directory, so sub-folders and linked worktrees are one project, while a
    submodule and a second clone are their own; without git, and for folders that do not exist here, the folder itself.
    A worktree that was deleted belongs to its repository as long as that stands near it and git has not pruned it.
    Symbolic links are resolved. Windows paths keep their drive and get forward slashes. "" stays "". Never raises.
    """
    if not project_dir:
        return ""
    if _is_windows(project_dir):
        return _normalise_windows(project_dir)
    try:
        start = os.path.realpath(project_dir)
        return _root_above(start) or _root_of_removed(start) or start
    except (OSError, ValueError):  # a NUL or a lone surrogate in the path, a loop of links
        return os.path.normpath(project_dir)


def _is_windows(path: str) -> bool:
    return path.startswith("\\\\") or (
        path[1:2] == ":" and path[:1].isalpha() and path[2:3] in ("\\", "/", "")
    )


def _normalise_windows(path: str) -> str:
    import ntpath  # transcripts of other machines only

    text = ntpath.normpath(path).replace("\\", "/")
    return text[:1].upper() + text[1:]


def _root_above(start: str) -> str | None:
    folder = start
    for _ in range(_PARENTS_MAX):
        git = os.path.join(folder, ".git")
        if os.path.isdir(git):
            if os.path.exists(os.path.join(git, "HEAD")):  # an empty folder of that name is no repository
                return folder
        elif os.path.isfile(git):
            root = _root_of_pointer(folder, git)
            if root:
                return root
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return None


def _root_of_pointer(folder: str, git: str) -> str | None:
    """Follow a `.git` file; None when it is not one."""
    text = _read(git)
    if not text.startswith("gitdir:"):
        return None
    git_dir = os.path.normpath(os.path.join(folder, text[len("gitdir:") :].strip()))
    common = _read(os.path.join(git_dir, "commondir")).strip()
    if common:
        return _root_of_common(os.path.realpath(os.path.join(git_dir, common)))
    main, found, _ = git_dir.rpartition("/.git/worktrees/")
    return main if found and main else folder  # the main repository may not be mounted here


def _root_of_removed(start: str) -> str | None:
    """Return the repository that has a deleted folder on record as a worktree: looked for where it lay and above."""
    gone: list[str] = []
    folder = start
    while not os.path.isdir(folder) and len(gone) < _PARENTS_MAX:
        gone.append(os.path.join(folder, ".git"))
        folder = os.path.dirname(folder)
    for near in dict.fromkeys((folder, os.path.dirname(folder))) if gone else ():
        for name in sorted(_names(near))[:_NEIGHBOURS_MAX]:
            for hidden in (".git", ".bare", ""):
                common = os.path.normpath(os.path.join(near, name, hidden))
                if any(pointer in gone for pointer in _worktrees(common)):
                    return _root_of_common(common)
    return None


def _worktrees(common: str) -> "list[str]":
    """Return the `.git` files of the worktrees that a git folder has on record."""
    records = os.path.join(common, "worktrees")
    return [
        _read(os.path.join(records, name, "gitdir")).strip() for name in _names(records)[:_NEIGHBOURS_MAX]
    ]


def _names(folder: str) -> "list[str]":
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _root_of_common(common: str) -> str:
    """`.git` and hidden bare folders (`.bare`) stand in their project; another bare repository is the project."""
    return os.path.dirname(common) if os.path.basename(common).startswith(".") else common


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_POINTER_CHARS)
    except OSError:
        return ""
