"""Facts of recorded sets, read by hand from their files: session, time (UTC), kind, and what the event must hold.

`text`: how the content begins; `holds`: what stands in it; `agent`: the sub-agent; the other names are columns or
fields of the tool. Tools stand at the time of their result.
"""

from __future__ import annotations

from typing import Any

Fact = tuple[str, str, str, dict[str, Any]]

SPOTTER: list[Fact] = [
    ("55604662", "2026-02-10T21:11:52.438", "session_start", {"role": "SessionStart:startup"}),
    ("55604662", "2026-02-10T21:11:56.846", "prompt", {"text": "mix phx.server doesnt seem to start"}),
    (
        "55604662",
        "2026-02-10T21:12:00.373",
        "response",
        {"text": "Let me check the project structure and try"},
    ),
    (
        "55604662",
        "2026-02-10T21:12:02.480",
        "tool",
        {
            "use_id": "toolu_0116Hyi5v8ut7Ffb7d8qV1Sc",
            "name": "Bash",
            "ok": False,
            "text": "$ mix phx.server 2>&1 | head -80",
            "holds": "The user doesn't want to proceed",
            "asked_by": "mix phx.server doesnt seem to start",
        },
    ),
    (
        "55604662",
        "2026-02-10T21:12:02.480",
        "tool",
        {"use_id": "toolu_01FdQ8qTyVyZjE3Kw4dguQGx", "name": "Glob", "ok": False},
    ),
    ("d6e0bada", "2026-02-10T22:57:54.684", "prompt", {"text": "start phoenix in background"}),
    (
        "d6e0bada",
        "2026-02-10T22:57:59.113",
        "tool",
        {"name": "Bash", "ok": True, "text": "$ mix phx.server  # Start Phoenix server in background"},
    ),
    (
        "d6e0bada",
        "2026-02-10T22:58:02.040",
        "response",
        {"text": "Phoenix server is starting in the background."},
    ),
    (
        "d6e0bada",
        "2026-02-10T22:58:02.972",
        "tool",
        {"name": "Bash", "holds": "REFUSED JOIN", "asked_by": "start phoenix in background"},
    ),
    (
        "d6e0bada",
        "2026-02-10T22:59:22.893",
        "prompt",
        {"text": "scrolling back in xterm.js still does not work"},
    ),
    (
        "d6e0bada",
        "2026-02-10T22:59:27.386",
        "tool",
        {"name": "Glob", "holds": "assets/js/app.js", "ok": True},
    ),
    ("d6e0bada", "2026-02-10T22:59:33.333", "tool", {"name": "WebSearch", "ok": True}),
    (
        "d6e0bada",
        "2026-02-10T22:59:36.162",
        "tool",
        {
            "name": "Read",
            "files": ["assets/js/app.js read"],
            "asked_by": "scrolling back in xterm.js still does not work",
        },
    ),
    (
        "d6e0bada",
        "2026-02-10T22:59:42.850",
        "tool",
        {"name": "WebFetch", "holds": "xtermjs/xterm.js/issues/1343"},
    ),
    (
        "491e126e",
        "2026-02-10T21:54:53.186",
        "prompt",
        {"text": "/handgemacht:create-beads websearch to learn how to fastest setup credo"},
    ),
    ("491e126e", "2026-02-10T21:54:56.784", "response", {"text": "I'll research the setup options"}),
    ("491e126e", "2026-02-10T22:01:10.248", "tool", {"name": "ExitPlanMode", "ok": True}),
    ("491e126e", "2026-02-10T22:01:14.815", "prompt", {"text": "create the beads"}),
    (
        "258c7280",
        "2026-02-11T20:36:45.618",
        "prompt",
        {"text": "Implement spotter-gqc", "project": "/home/USER/projects/spotter-worktrees/spotter-gqc"},
    ),
    ("258c7280", "2026-02-11T20:45:51.668", "response", {"text": "Clean compile. Now run tests."}),
    ("258c7280", "2026-02-11T21:18:41.543", "compact", {"role": "Compact:auto", "text": "Analysis:\nLet me"}),
    ("ae4a77f8", "2026-02-12T14:48:36.922", "compact", {"role": "Compact:manual"}),
]

REPIQ: list[Fact] = [
    ("c64419bd", "2026-02-24T18:48:49.333", "session_start", {}),
    ("c64419bd", "2026-02-24T18:52:58.829", "response", {"text": "ビジョンが非常に明確です。"}),
    (
        "c64419bd",
        "2026-02-24T18:56:01.612",
        "prompt",
        {"text": "Markdownの表を出力する機能は欲しいかも、人間用に"},
    ),
    ("c64419bd", "2026-02-24T18:57:21.250", "prompt", {"text": "/kitchen:menu core"}),
    (
        "c64419bd",
        "2026-02-24T18:57:26.292",
        "response",
        {"text": "### Step 0: ブランチ確認", "asked_by": "/kitchen:menu core"},
    ),
    ("c64419bd", "2026-02-24T19:04:46.443", "tool", {"name": "Read", "holds": "# Scope: Core"}),
    (
        "c64419bd",
        "2026-02-24T19:05:48.087",
        "tool",
        {
            "use_id": "toolu_01Dw86KCq4fYycZhK65xf1at",
            "ok": False,
            "holds": "error: Exit code 1\nzoxide: detected",
        },
    ),
    (
        "c64419bd",
        "2026-02-24T19:06:54.146",
        "response",
        {"text": "worktree が orphan ブランチになっています。"},
    ),
    (
        "43511c41",
        "2026-02-24T22:44:25.417",
        "tool",
        {"holds": "fb2a14b docs(specs): add PR title convention"},
    ),
    (
        "43511c41",
        "2026-02-24T22:47:26.495",
        "tool",
        {"holds": "https://github.com/yutakobayashidev/repiq/pull/5"},
    ),
    ("43511c41", "2026-02-24T22:57:06.048", "prompt", {"text": "pr名英語に"}),
    ("43511c41", "2026-02-24T22:59:51.934", "tool", {"use_id": "toolu_017MW6RbgoWKJMbtW72bsZjq", "ok": True}),
    ("43511c41", "2026-02-24T23:30:54.142", "compact", {"role": "Compact:auto"}),
    ("e82ef922", "2026-02-25T03:04:30.408", "compact", {"role": "Compact:auto"}),
    ("4daebc19", "2026-02-24T23:43:16.875", "prompt", {"text": "何が問題だったの？"}),
    ("9ac35f70", "2026-02-25T06:25:45.397", "tool", {"name": "Read", "holds": "# Contributing to repiq"}),
    ("9ac35f70", "2026-02-25T06:26:51.077", "tool", {"name": "Edit", "files": ["README.md edit"]}),
    ("9ac35f70", "2026-02-25T06:27:54.396", "prompt", {"text": "no verify"}),
    (
        "9ac35f70",
        "2026-02-25T06:28:42.374",
        "response",
        {"text": "コミット完了しました (`da16ecc`)。", "asked_by": "no verify"},
    ),
    ("c64419bd", "2026-02-24T18:48:49.333", "prompt", {"text": "/kitchen:open"}),
]
