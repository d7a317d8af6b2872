"""Facts of more recorded sets, read by hand from their files: session, time (UTC), kind, and what the event must hold.

`text`: how the content begins; `holds`: what stands in it; `agent`: the sub-agent; the other names are columns or
fields of the tool. Tools stand at the time of their result.
"""

from __future__ import annotations

from typing import Any

Fact = tuple[str, str, str, dict[str, Any]]

ATTIO: list[Fact] = [
    (
        "9fa9888f",
        "2025-08-06T20:49:12.848",
        "compact",
        {"text": "Analysis:\nLooking through the conversation"},
    ),
    (
        "9fa9888f",
        "2025-08-06T20:49:26.315",
        "prompt",
        {"text": "OK @agent-project-delegator-orchestrator work"},
    ),
    (
        "9fa9888f",
        "2025-08-06T21:27:35.440",
        "prompt",
        {"text": "Review feedback at https://github.com/dev/attio"},
    ),
    ("9fa9888f", "2025-08-06T22:02:42.010", "prompt", {"text": "merge PR"}),
    (
        "9fa9888f",
        "2025-08-06T22:40:45.099",
        "prompt",
        {"text": "can u check if its on another branch still?"},
    ),
    ("278a2245", "2025-08-07T01:21:55.124", "session_start", {}),
    (
        "278a2245",
        "2025-08-07T01:21:55.124",
        "tool",
        {"use_id": "toolu_01FgAv7HEc2WU9KE4rAR9esj", "holds": "3954325"},
    ),
    (
        "278a2245",
        "2025-08-07T01:21:55.124",
        "tool",
        {"use_id": "toolu_01XR8p2BLfrRVNDpQMNf9GvF", "holds": "Deleted branch feature/issue-271"},
    ),
    (
        "278a2245",
        "2025-08-07T01:21:55.124",
        "tool",
        {"use_id": "toolu_01AT82W6XW38vNbfgjthmetm", "holds": "performance-tests.yml"},
    ),
    (
        "278a2245",
        "2025-08-07T01:22:59.388",
        "response",
        {"text": "I can see the universal directory exists", "agent": "sidechain"},
    ),
    (
        "278a2245",
        "2025-08-07T01:25:12.646",
        "tool",
        {"name": "MultiEdit", "files": ["src/config/deal-defaults.ts edit"], "agent": "sidechain"},
    ),
    (
        "278a2245",
        "2025-08-07T01:29:30.580",
        "response",
        {"text": "Let me check more error", "agent": "sidechain"},
    ),
    ("278a2245", "2025-08-07T01:32:01.310", "tool", {"name": "MultiEdit", "ok": True, "agent": "sidechain"}),
    (
        "278a2245",
        "2025-08-07T01:36:04.469",
        "response",
        {"text": "Some tests are failing.", "agent": "sidechain"},
    ),
    (
        "278a2245",
        "2025-08-07T01:38:33.725",
        "response",
        {"text": "## Summary\n\nI have", "agent": "sidechain"},
    ),
    (
        "278a2245",
        "2025-08-07T01:39:42.489",
        "tool",
        {"name": "Read", "files": ["src/objects/batch-companies.ts read"]},
    ),
    ("278a2245", "2025-08-07T01:45:02.743", "response", {"text": "Now let's create an example .env file"}),
    (
        "278a2245",
        "2025-08-07T01:46:37.905",
        "tool",
        {"use_id": "toolu_01U5xkAMBKRfbsptKCNURtzP", "ok": False, "agent": "sidechain"},
    ),
    (
        "278a2245",
        "2025-08-07T01:48:46.472",
        "tool",
        {"use_id": "toolu_01BQy3zGytQyGtfMgE3nUcTe", "agent": None},
    ),
    ("278a2245", "2025-08-07T01:54:02.189", "response", {}),
]

TEMPLAR: list[Fact] = [
    ("ee2ab929", "2025-07-22T07:59:53.752", "session_start", {}),
    ("ee2ab929", "2025-07-22T07:59:53.752", "prompt", {"text": "avoid security tasks"}),
    ("ee2ab929", "2025-07-22T09:07:54.840", "prompt", {"text": "continue, do not return do all your tasks"}),
    (
        "b9712494",
        "2025-07-22T13:34:33.001",
        "prompt",
        {"text": "solve backlog tasks not marked as completed"},
    ),
    ("b9712494", "2025-07-22T13:34:33.001", "response", {"text": "Let me check the validation.go file:"}),
    (
        "b9712494",
        "2025-07-22T13:34:33.002",
        "tool",
        {"use_id": "toolu_01W4uBE876CH6qMtjh7ASdRw", "files": ["internal/config/wizard.go edit"]},
    ),
    (
        "b9712494",
        "2025-07-22T13:34:33.002",
        "response",
        {"text": "Excellent! Now let me check the generated"},
    ),
    (
        "b9712494",
        "2025-07-22T13:34:33.002",
        "response",
        {"text": "Now let me add an implementation plan for Task-150:"},
    ),
    (
        "b9712494",
        "2025-07-22T13:34:33.002",
        "tool",
        {"use_id": "toolu_012Z9LSZ96LwTGKmnNum5aqw", "files": ["cmd/flags.go edit"]},
    ),
    ("b9712494", "2025-07-22T13:34:38.030", "prompt", {"text": "continue"}),
    ("b9712494", "2025-07-22T13:35:15.153", "compact", {"text": "Analysis:\nLet me analyze"}),
    ("b9712494", "2025-07-22T13:35:39.102", "response", {"text": "Let me check the existing playground"}),
    ("b9712494", "2025-07-22T13:36:20.679", "response", {"text": "Now I'll implement the enhanced search"}),
    (
        "b9712494",
        "2025-07-22T13:40:35.594",
        "response",
        {"text": "Now let me update the task completion status:"},
    ),
    ("b9712494", "2025-07-22T13:42:10.634", "response", {"text": "Let me build again:"}),
    ("b9712494", "2025-07-22T13:42:41.424", "response", {"text": "Let me build again:"}),
    ("b9712494", "2025-07-22T13:43:10.276", "tool", {"name": "TodoWrite", "ok": True}),
    (
        "b9712494",
        "2025-07-22T14:05:19.443",
        "tool",
        {"use_id": "toolu_01TigSAnoZBm8fskpsoXYznk", "agent": "sidechain", "holds": "task-132"},
    ),
    ("b9712494", "2025-07-22T14:06:30.141", "response", {"text": "Excellent! I can see that significant"}),
    ("b9712494", "2025-07-22T14:10:23.020", "tool", {"use_id": "toolu_01LMCXtu2xdBbP959qf4dRid", "ok": True}),
    ("b9712494", "2025-07-22T14:04:29.937", "prompt", {"text": "continue"}),
]

LOCALPUSH: list[Fact] = [
    ("019c8a70", "2026-02-23T12:19:38.535", "session_start", {"project": "/redacted/path/da0ba47443"}),
    (
        "019c8a70",
        "2026-02-23T12:19:42.563",
        "prompt",
        {"text": "[REDACTED_MESSAGE len=86 sha=2239bcba]", "turn_id": "019c8a70-ebe7-7e83-92b2-f77ddd49c5f9"},
    ),
    ("019c8a70", "2026-02-23T12:19:51.441", "response", {"text": "[REDACTED_TEXT len=124 sha=7a220b7e]"}),
    (
        "019c8a70",
        "2026-02-23T12:19:52.620",
        "tool",
        {"use_id": "call_UtYwHmwWekzvq83m8Rb9K8jJ", "ok": None, "role": "function_call"},
    ),
    ("019c8bfe", "2026-02-23T19:34:25.573", "session_start", {}),
    ("019c8bfe", "2026-02-23T19:34:26.099", "prompt", {"text": "[REDACTED_MESSAGE len=98 sha=c002ff99]"}),
    ("019c8bfe", "2026-02-23T19:34:39.069", "response", {"text": "[REDACTED_TEXT len=156 sha=2a40230f]"}),
    (
        "019c8bfe",
        "2026-02-23T19:34:39.532",
        "tool",
        {"name": "mcp__cloud-associates__search_workflows", "use_id": "call_OIMY41RetdVChp5U51mMLGOD"},
    ),
    ("019c8bfe", "2026-02-23T19:34:42.978", "response", {"text": "[REDACTED_TEXT len=133 sha=887f8104]"}),
    ("019c8bfe", "2026-02-23T19:34:44.223", "tool", {"use_id": "call_SengCcPYInk46d62DPE6eqqb"}),
    ("019c8bfe", "2026-02-23T19:34:50.900", "response", {"text": "[REDACTED_TEXT len=111 sha=ab28dc05]"}),
    ("019c8bfe", "2026-02-23T19:34:51.629", "tool", {"name": "mcp__cloud-associates__execute_workflow"}),
    ("019c8bfe", "2026-02-23T19:34:55.430", "response", {"text": "[REDACTED_TEXT len=136 sha=886b43c3]"}),
    ("019c8bfe", "2026-02-23T19:34:55.957", "tool", {"use_id": "call_wt673E9ScmRn47BB5LRf0kwk"}),
    (
        "019c8bfe",
        "2026-02-23T19:35:54.774",
        "tool",
        {"use_id": "call_kTYGACDKLb03RGgGqdx4XgBl", "asked_by": "[REDACTED_MESSAGE len=98 sha=c002ff99]"},
    ),
    (
        "019c8a4c",
        "2026-02-23T11:40:29.279",
        "prompt",
        {"text": "[REDACTED_MESSAGE len=516", "turn_id": "019c8a4d-0330-71a2-b22b-785a3a27ed20"},
    ),
    ("019c8a4c", "2026-02-23T11:40:42.346", "tool", {"use_id": "call_pOeDz7Zbi8sTHazcDXghLt7O"}),
    (
        "019c8a59",
        "2026-02-23T12:38:40.008",
        "prompt",
        {"text": "[REDACTED_MESSAGE len=335", "turn_id": "019c8a82-4873-7fb0-b9ed-2c59c5477d47"},
    ),
    (
        "019c8a59",
        "2026-02-23T18:49:51.943",
        "tool",
        {"name": "apply_patch", "use_id": "call_SvmzZwbwYThEueiWvikBGkio"},
    ),
    ("019c8a59", "2026-02-24T09:51:48.878", "compact", {"text": "[REDACTED_MESSAGE len=0"}),
]

LIVE: list[Fact] = [
    ("af004aec", "2026-11-30T02:57:17.748", "prompt", {"text": "Please write b.txt (DOMAIN test 안녕)"}),
    ("af004aec", "2026-11-30T02:57:17.890", "response", {"text": "I will write a file and run a command."}),
    ("af004aec", "2026-11-30T02:57:18.126", "tool", {"name": "Write", "files": ["b.txt write"], "ok": True}),
    ("af004aec", "2026-11-30T02:57:18.423", "tool", {"name": "Edit", "holds": "- world\n+ 세계", "ok": True}),
    (
        "af004aec",
        "2026-11-30T02:57:18.555",
        "tool",
        {
            "name": "Bash",
            "ok": False,
            "error": "Exit code 3",
            "asked_by": "Please write b.txt (DOMAIN test 안녕)",
        },
    ),
    ("af004aec", "2026-11-30T02:57:18.627", "tool", {"name": "Read", "holds": "[image]"}),
    ("af004aec", "2026-11-30T02:57:18.916", "response", {"text": "looking", "agent": "a07cb74b863583ea3"}),
    (
        "af004aec",
        "2026-11-30T02:57:19.013",
        "tool",
        {"name": "Read", "files": ["a.txt read"], "agent": "a07cb74b863583ea3"},
    ),
    (
        "af004aec",
        "2026-11-30T02:57:19.073",
        "response",
        {"text": "Subagent found: ", "agent": "a07cb74b863583ea3"},
    ),
    ("af004aec", "2026-11-30T02:57:19.190", "tool", {"name": "Agent", "ok": True, "agent": None}),
    ("af004aec", "2026-11-30T02:57:19.240", "response", {"text": "All done: wrote b.txt, edited it to 세계"}),
    ("af004aec", "2026-11-30T02:57:56.820", "prompt", {"text": "SAY hello twice"}),
    (
        "af004aec",
        "2026-11-30T02:57:57.437",
        "prompt",
        {"text": "SAY hello twice", "turn_id": "63620b92-811a-4ff6-b3cd-2c8f12d00330"},
    ),
    (
        "af004aec",
        "2026-11-30T02:57:59.164",
        "compact",
        {"text": "said: SAY hello twice", "role": "Compact:manual"},
    ),
    ("af004aec", "2026-11-30T02:57:58.984", "prompt", {"text": "/compact keep the file names"}),
    (
        "035f7ddd",
        "2026-11-30T02:57:58.107",
        "session_start",
        {"prev_session_id": "af004aec-f1e1-4a3a-b13d-75103ac8bdbe", "role": "SessionStart:fork"},
    ),
    (
        "035f7ddd",
        "2026-11-30T02:57:58.167",
        "prompt",
        {"text": "SAY forked", "turn_id": "8d9a8c2e-994c-4602-b8bf-4fc52ccae149"},
    ),
    (
        "fec6f471",
        "2026-11-30T03:01:34.732",
        "session_start",
        {"role": "SessionStart:clear", "prev_session_id": "80ded3a5-f7bb-414f-bdb2-efc66ff20d2a"},
    ),
    ("fec6f471", "2026-11-30T03:01:37.720", "prompt", {"text": "SAY two"}),
    (
        "67b93cc8",
        "2026-11-30T03:07:32.333",
        "tool",
        {"name": "Edit", "ok": False, "error": "File has been modified since read"},
    ),
    ("bd22d9c9", "2026-11-30T03:00:42.838", "response", {"holds": "SAY stopblock"}),
]

CODEX_LIVE: list[Fact] = [
    ("01a22a69", "2026-11-30T03:05:04.611", "session_start", {"project": "/home/dev/live/cxproj"}),
    (
        "01a22a69",
        "2026-11-30T03:05:04.913",
        "prompt",
        {"text": "say hi 안녕", "turn_id": "01a22a69-c5bb-7760-a6aa-2d98b0af9767"},
    ),
    (
        "01a22a69",
        "2026-11-30T03:05:05.136",
        "tool",
        {
            "name": "Bash",
            "use_id": "call_4cede3a1",
            "ok": True,
            "text": "$ echo hi from codex\nhi from codex",
        },
    ),
    (
        "01a22a69",
        "2026-11-30T03:05:05.156",
        "response",
        {"text": "Codex mock done 완료", "asked_by": "say hi 안녕"},
    ),
]
