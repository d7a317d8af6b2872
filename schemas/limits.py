"""Every limit, each with its reason.

The capture hook imports nothing but the standard library and holds its own copies of the first group; a test compares.
"""

from __future__ import annotations

# --- capture (mirrored in surface/hook.py) ---
CLIP_CHARS = 64 * 1024  # of one string: an agent's context never held more of one tool output
ENVELOPE_TEXT_CHARS = 256 * 1024  # of all strings of one payload: one call must not fill the journal
FILE_NAME_CHARS = 120  # of a journal file name: file systems allow 255 bytes, and there is a suffix

# --- journal reading ---
SHARDS = 8  # parts of the journal source; frozen, for recovery keys are part names
READ_LINES = 1_000  # a read of one shard: upserts stop getting cheaper per row above it (27,000 rows/s)
READ_BYTES = 1024 * 1024  # a read of one file: bounds memory while a backlog is worked off
LINE_BYTES = 32 * 1024 * 1024  # a longer line is quarantined: the hook never writes one
TICK_S = 0.01  # how often a shard looks whether watchfiles named one of its files
TICK_IDLE_S = 0.05  # the same when nothing came for a while; a longer tick would stall the other inputs
QUIET_S = 1.0  # after so long without a line the longer tick is taken: halves what waiting costs
READ_PACE_S = 0.1  # between two reads that found something: 10 commits a second at most
RESCAN_S = 5.0  # how often all files are looked at: file events get lost (43 % in new folders)
WATCH_STEP_MS = 10  # watchfiles: wait this long for more changes
WATCH_DEBOUNCE_MS = 50  # watchfiles: hold changes at most this long
EPOCH_S = 1.0  # between two snapshots of the flow
HEAD_BYTES = 4096  # of a file's first line that identify it beside its path

# --- events ---
FUTURE_S = 600.0  # a time further ahead of its own receipt is replaced by it
OLDEST_YEAR = 2020  # a time before it is replaced: no coding agent had hooks then
DELIVERY_S = 2.0  # equal content without an id within this is one delivery
CONTENT_CHARS = 64 * 1024  # of one event's text, as the hook clips
SESSION_IDLE_S = 24 * 3600.0  # a silent session leaves the flow's state; event time decides
EXCERPT_CHARS = 200  # of a bad line kept in the quarantine
NESTING_MAX = 64  # depth of JSON that is looked into

# --- tables ---
FTS_DELTA_ROWS = 500  # rows without an index cost every full-text query 45 us each
FTS_MERGE_DELTAS = 32  # many small deltas slow queries a little; one merge costs seconds
COMPACT_COMMITS = 200  # commits between two compactions: a commit is one version and three files
VERSION_KEEP_S = 1800.0  # old table versions stay so long: a reader may still hold them
VECTOR_INDEX_ROWS = 50_000  # below, a scan is fast enough and exact
IDS_PER_FILTER = 500  # ids in one Lance filter: longer lists are split
COMPACT_ROWS = (
    20_000  # a fragment of so many rows is not rewritten again: a compaction stays below a second or two
)
INDEX_CACHE_BYTES = 256 * 1024 * 1024  # of open indexes per store: Lance would take up to 6 GB
METADATA_CACHE_BYTES = 64 * 1024 * 1024  # of fragments and manifests per store
VERSION_KEEP_BUSY_S = (
    60.0  # the same when commits come fast: a query takes a tenth of a second, and looks again once
)
VERSIONS_MAX = 500  # commits after which old versions are removed at once: each is three files
CLEAN_EVERY_S = 300.0  # between two looks for old versions: each look lists the folder
COMMIT_TRIES = 5  # of a write that another writer overtook; Lance itself tries ten times before it says so
TOKEN_CHARS = 128  # of one indexed word: a SHA-256 has 64, a long path or dotted name more than Lance's 40

# --- outbox and embedding ---
LEASE_S = 300.0  # a claim lasts so long unless renewed
RETRIES_MAX = 3  # new tries of a job after its first; then it stays failed
BACKOFF_S = (1.0, 5.0, 30.0)  # wait before each new try: a busy store passes soon, a full disk does not
CLAIM_JOBS = 50  # jobs per claim
ENCODE_BATCH_S = 0.1  # aim of one encode call: a query waits no longer than this
ENCODE_TOKENS_MAX = 8_192  # padded tokens of one encode call: more is not faster and only takes memory
EMBED_CLAIM_S = 2.0  # aim of one claim's work: a stop waits for it, and a commit of its vectors is 1 % of it
EMBED_CLAIM_FIRST = 8  # jobs of the first claim, before the speed of this machine is known
EMBED_ERRORS_KEPT = 100  # of one run's report: a broken model fails every job with the same text
CHUNKS_TOOL = 2  # head and tail of a tool's text: the middle is output
CHUNKS_ITEM = 16  # of any other item
CHUNK_TOKENS = 220  # below MiniLM's 256, which are cut without a word
CHUNK_OVERLAP_TOKENS = 32  # so that a sentence at a border is whole in one chunk
SQLITE_BUSY_MS = 10_000  # wait for another writer's transaction

# --- query ---
TOP_K_MAX = 100  # rows of one search: more is a scan, not a search
CANDIDATES = 100  # per arm before fusion
QUERY_CHARS = 10_000  # of a query that are looked at
TIMELINE_WINDOW_MAX = 50  # events on each side of a target
SUMMARY_CHARS = 100  # of an index line (the seeds' limit)
SUMMARY_TERMS = 64  # words of a query that a summary looks for: a pasted page must not cost a second
EXACT_WORDS = 16  # identifiers of a query that must stand in the best rows: nobody types more
PREVIEW_CHARS = 200  # of a timeline line (the seeds' limit)
DETAILS_MAX = 50  # ids of one details call

# --- doctor ---
DISK_FREE_BYTES = 500 * 1000 * 1000  # less is an alarm: tables need room to be compacted
LAG_BYTES = 1024 * 1024  # of unread journal worth a word: more than a busy minute

# --- processes ---
LOCK_TRIES = 6  # of a lock that looks held: it may only be looked at, which takes microseconds
LOCK_PAUSE_S = 0.01  # between them: a lock that is really held is reported after 50 ms
SOCKET_PATH_BYTES = 100  # sun_path holds 104 bytes on macOS and 108 on Linux
READY_S = 60.0  # a process that is not ready by then is reported, not waited for
STOP_S = 10.0  # a process that has not ended by then is killed
RESTART_BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)  # the supervisor's waits between restarts of one child
STEADY_S = 60.0  # a child that ran so long starts its waits anew
LOG_BYTES = 1024 * 1024  # of one log file; one older one is kept
REQUEST_BYTES = 1024 * 1024  # of one request over the socket
REQUEST_S = 60.0  # a client waits so long for an answer
POLL_JOBS_S = 0.25  # how often the server looks for vector jobs

assert READ_PACE_S > TICK_S  # relations between constants are asserted at import
assert TICK_IDLE_S <= 0.1  # stack: a longer wake-up stalls every other input
assert CHUNK_OVERLAP_TOKENS < CHUNK_TOKENS  # else chunking would not advance
assert len(BACKOFF_S) == RETRIES_MAX  # each new try has its wait
