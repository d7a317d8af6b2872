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
READ_LINES_BOUNDED = 2_000  # the same of a run that reads what is there: indexes and registers cost per batch
READ_SHARD_BYTES = 4 * 1024 * 1024  # a read of one shard ends at so much: eight of them are held at once
READ_BYTES = 1024 * 1024  # a read of one file: bounds memory while a backlog is worked off
LINE_BYTES = 32 * 1024 * 1024  # a longer line is quarantined: the hook never writes one
TICK_S = 0.01  # how often a shard looks whether watchfiles named one of its files
TICK_IDLE_S = 0.05  # the same when nothing came for a while; a longer tick would stall the other inputs
QUIET_S = 1.0  # after so long without a line the longer tick is taken: halves what waiting costs
READ_PACE_S = 0.1  # between two reads that found something: 10 commits a second at most
SCAN_SHARED_S = 0.5  # one look at the folder serves all shards; they ask one after the other
RESCAN_S = 5.0  # how often all files are looked at: file events get lost (43 % in new folders)
WATCH_STEP_MS = 10  # watchfiles: wait this long for more changes
WATCH_DEBOUNCE_MS = 50  # watchfiles: hold changes at most this long
GC_THRESHOLDS = (100_000, 50, 100)  # new objects between two looks for cycles: 10,000 events left none
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

# --- transcripts ---
OPEN_CALLS = 4_096  # calls of one file whose result is awaited: an agent runs a dozen at once
SMALL_FIELD_CHARS = 256  # of an unknown field of a transcript line that is kept: ids and names, no text
CLEAR_GAP_S = (
    5.0  # between a cleared session's end and the start of the next: 57 ms were measured, hooks may be slow
)
RESTORED_LINES = 64  # lines that a compaction's boundary waits for its summary: it is the next one

# --- tables ---
FTS_DELTA_ROWS = 500  # rows without an index cost every full-text query 45 us each
FTS_MERGE_DELTAS = 32  # many small deltas slow queries a little; one merge costs seconds
COMPACT_COMMITS = 200  # commits between two compactions: a commit is one version and three files
VERSION_KEEP_S = 1800.0  # old table versions stay so long: a reader may still hold them
SCALAR_INDEX_ROWS = 200  # below, a scan is as fast, and seven tables of a new home need no thirteen indexes
VERSIONS_YOUNG = (
    20  # a table with fewer versions is not looked through for old ones: there is nothing to gain
)
VECTOR_INDEX_ROWS = 50_000  # below, a scan is fast enough and exact
IDS_PER_FILTER = 500  # ids in one Lance filter: longer lists are split
COMPACT_ROWS = (
    20_000  # a fragment of so many rows is not rewritten again: a compaction stays below a second or two
)
DELETED_SHARE_MAX = 0.1  # a fragment with a larger share of deleted rows is rewritten: Lance's own default
INDEX_CACHE_BYTES = 256 * 1024 * 1024  # of open indexes per store: Lance would take up to 6 GB
METADATA_CACHE_BYTES = 64 * 1024 * 1024  # of fragments and manifests per store
VERSION_KEEP_BUSY_S = (
    60.0  # the same when commits come fast: a query takes a tenth of a second, and looks again once
)
VERSIONS_MAX = 500  # commits after which old versions are removed at once: each is three files
CLEAN_EVERY_S = 300.0  # between two looks for old versions: each look lists the folder
COMMIT_TRIES = 5  # of a write that another writer overtook; Lance itself tries ten times before it says so
TOKEN_CHARS = 128  # of one indexed word: a SHA-256 has 64, a long path or dotted name more than Lance's 40

HANDLES_LEFT = 64  # file handles that must be free before a table that cannot be opened is held to be damaged

# --- outbox and embedding ---
LEASE_S = 300.0  # a claim lasts so long unless renewed
RETRIES_MAX = 3  # new tries of a job after its first; then it stays failed
BACKOFF_S = (1.0, 5.0, 30.0)  # wait before each new try: a busy store passes soon, a full disk does not
OUTAGE_WAIT_S = (
    5.0  # before jobs are tried again that a broken model or store gave back: not a loop, soon enough
)
DISK_PROBE_BYTES = (
    64 * 1024
)  # written to see whether the disk takes anything: more than a small file hides in
REEMBED_COMPARE_S = 10.0  # of work between two looks for what came in: the newest is to come first
REEMBED_TELL_S = 3.0  # of work between two words about how far it is
PROBE_PROMPTS = 50  # stored prompts over which two embedding versions are compared: a second's work
PROBE_NEIGHBOURS = 10  # of each that are compared: what a search shows
EMBED_WAIT_S = (
    120.0  # without any job moving while another worker is waited for: the longest wait of a job is 30 s
)
CLAIM_JOBS = 50  # jobs per claim
ENCODE_BATCH_S = 0.1  # aim of one encode call: a query waits no longer than this
ENCODE_TOKENS_MAX = 8_192  # padded tokens of one encode call: more is not faster and only takes memory
EMBED_CLAIM_S = 2.0  # aim of one claim's work: a stop waits for it, and a commit of its vectors is 1 % of it
EMBED_CLAIM_FIRST = 8  # jobs of the first claim, before the speed of this machine is known
EMBED_ERRORS_KEPT = 100  # of one run's report: a broken model fails every job with the same text
HUB_CONNECT_S = 3.0  # to see whether the model hub can be reached: an answer within a second is usual
MODEL_MADE_S = 120.0  # another process that makes the same model is waited for: it takes about 5 s
CHUNKS_TOOL = 2  # head and tail of a tool's text: the middle is output
CHUNKS_ITEM = 16  # of any other item
CHUNK_TOKENS = 220  # below MiniLM's 256, which are cut without a word
CHUNK_OVERLAP_TOKENS = 32  # so that a sentence at a border is whole in one chunk
JOBS_DONE_KEPT_S = 7 * 86_400.0  # done jobs stay so long to be looked at; their vectors say the same
JOBS_CLEAN_EVERY_S = 3600.0  # between two removals of such jobs: each looks at all of them
JOBS_SHOWN = 5  # failed jobs that `vector status` shows with their errors
SQLITE_BUSY_MS = 10_000  # wait for another writer's transaction
SQLITE_CACHE_BYTES = (
    32 * 1024 * 1024
)  # pages of one connection: what a batch of 5,000 events changes among 300,000, each page written once
SQLITE_WAL_PAGES = (
    1_000  # before they go to the file itself, or half as many as that has: 4 MB, SQLite's own number
)
SQLITE_WAL_PAGES_MAX = (
    16_000  # of a large file: its batches change many pages, and often the same ones again; 64 MB
)

# --- query ---
TOP_K_MAX = 100  # rows of one search: more is a scan, not a search
CANDIDATES = 100  # memories per arm before fusion
SEARCH_CANDIDATES = 200  # events per arm: those after the best tell of neighbours and sessions, too
SEARCH_NEAREST_OF_MANY = (
    100  # events by meaning from VECTOR_INDEX_ROWS on: four chunks each, compared five times over
)
FOLD_CHARS = (
    2_000  # of a text that are compared with another's: longer ones that begin alike and are as long are one
)
CANDIDATE_TEXTS = 700  # events whose text is looked at for one search, neighbours with them
LEXICON_CHARS = 8_000  # of a text in which the words of a query are counted: the rest is output
QUERY_TERMS = 48  # words of a query that are counted: a pasted page must not cost a second
QUERY_PAIRS = 12  # of words side by side in a query that are looked for: each is one more pass over the texts
POSITIONS_KEPT = 8  # projects whose order of events is kept in memory: 18 MB for 100,000 events
SHORT_ID_CHARS = 8  # of an id that a row shows at least: of 100,000 events nine in ten need no more
QUERY_CHARS = 10_000  # of a query that are looked at
TIMELINE_WINDOW_MAX = 50  # events on each side of a target
SUMMARY_CHARS = 100  # of an index line (the seeds' limit)
SUMMARY_TERMS = 64  # words of a query that a summary looks for: a pasted page must not cost a second
EXACT_WORDS = 16  # identifiers of a query that must stand in the best rows: nobody types more
PREVIEW_CHARS = 200  # of a timeline line (the seeds' limit)
TIMELINE_ROWS = 50  # of a stretch of time unless asked for otherwise: two screens
TIMELINE_ROWS_MAX = 1_000  # of a stretch of time: a busy day
RELATED = 5  # nearest of the same thread that details name; more would be a timeline
DETAILS_MAX = 50  # ids of one details call
EXPAND_MAX = 10  # highest setting of how many results are expanded at once: more is a list, not an answer
CACHE_LAYER1 = 100  # searches kept in memory: about 1 MB; the numbers of this and the next two were published
CACHE_LAYER2 = 500  # timelines kept in memory: about 1 MB
CACHE_LAYER3 = 200  # details kept in memory: about 2 MB
CACHE_DETAILS_CHARS = 64 * 1024  # of one answer that is kept: two hundred of them are 26 MB at most
ANSWER_TOKENS_MAX = 100_000  # highest budget of one search: the window of a small model is filled then
MCP_TOKENS = 8_000  # of one answer to an agent's tool: 4 % of a window of 200,000; the rest comes by cursor
LEFT_OUT_NAMED = 5  # ids of what found no room that room is kept for: all of them would take the answer's

# --- keeping ---
BACKUP_GZIP_LEVEL = (
    3  # of a backup: journal lines shrink to a sixth; the default level takes twice as long for 8 %
)
EXPORT_ROWS = 500  # events held at once by an export: of the longest texts 32 MB

# --- imports ---
IMPORT_NICE = (
    10  # how much an import gives way while a stream is up: hooks, whom an agent waits for, go first
)

# --- archive and generations ---
ARCHIVE_SILENT_S = (
    30 * 86_400.0
)  # a journal file silent for so long leaves for the archive: few sessions wake up later
ARCHIVE_EVERY_S = 86_400.0  # between two looks for such files: they are days old anyway
ARCHIVE_QUIET_S = (
    5.0  # the flow must have had nothing to read for so long before it is interrupted for the archive
)
ARCHIVE_GRACE_S = 1.0  # where writers cannot be seen: a hook writes within a millisecond of opening its file
ARCHIVE_WRITERS_S = (
    5.0  # a writer that has a silent file open for longer is stopped: the file waits for the next run
)
ARCHIVE_FILE_NAME_BYTES = (
    240  # of a sealed file's name: file systems allow 255, and a temporary one is longer
)
DAY_CLOSED_S = 3600.0  # a day is exported so long after its end: clocks of agents differ a little
DAY_ROWS = 2_000  # rows of a day that are exported at once: of the longest texts 128 MB
HANDOVER_LOOK_S = 0.1  # how often the ingest flow looks whether somebody wants its tables
HANDOVER_S = 60.0  # a flow that has not let go by then is reported, and nothing is switched
CATCH_UP_RUNS = (
    5  # of a new generation after the lines that came meanwhile; the last ones are read while ingest waits
)
GENERATIONS_KEPT = 1  # old ones after a switch: to go back when the new one disappoints

# --- doctor ---
DISK_FREE_BYTES = 500 * 1000 * 1000  # less is an alarm: tables need room to be compacted
LAG_BYTES = 1024 * 1024  # of unread journal worth a word: more than a busy minute

SCRIPT_EVENTS = 500  # newest prompts and answers whose script is looked at: more would only take time
OTHER_SCRIPT_SHARE = 0.1  # of their letters; above, a model for English misses what people ask for

# --- processes ---
LOCK_TRIES = 6  # of a lock that looks held: it may only be looked at, which takes microseconds
CURRENT_WAIT_S = 10.0  # for another process that renames CURRENT: that takes milliseconds
WRITE_WAIT_S = (
    60.0  # for another writer of the same vectors: a commit takes milliseconds, on a busy disk seconds
)
LOCK_WAIT_S = 0.1  # between two looks of somebody who waits for a lock: nobody notices a tenth of a second
LOCK_PAUSE_S = 0.01  # between them: a lock that is really held is reported after 50 ms
SOCKET_PATH_BYTES = 100  # sun_path holds 104 bytes on macOS and 108 on Linux
START_TRIES = 2  # of a program that ends by itself while it starts: then `up` says why instead of waiting
READY_S = 60.0  # a process that is not ready by then is reported, not waited for
STOP_S = 10.0  # a process that has not ended by then is killed
RESTART_BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)  # the supervisor's waits between restarts of one child
STEADY_S = 60.0  # a child that ran so long starts its waits anew
DIFF_LINE_CHARS = 300  # of one line that `install` shows: settings of one line have megabytes
IDLE_LOOK_S = (
    60.0  # between two looks whether anybody uses the stream: it may run a minute longer than it has to
)
PAUSE_MAX_S = 366 * 86_400.0  # of a pause that ends by itself: a longer one is meant to have no end
LOG_BYTES = 1024 * 1024  # of one log file; one older one is kept
REQUEST_BYTES = 1024 * 1024  # of one request over the socket
REQUEST_S = 60.0  # a client waits so long for an answer
POLL_JOBS_S = 0.25  # how often the server looks for vector jobs

assert READ_PACE_S > TICK_S  # relations between constants are asserted at import
assert TICK_IDLE_S <= 0.1  # stack: a longer wake-up stalls every other input
assert CHUNK_OVERLAP_TOKENS < CHUNK_TOKENS  # else chunking would not advance
assert len(BACKOFF_S) == RETRIES_MAX  # each new try has its wait

# --- features, threads and memories ---
FEATURE_CHARS = 16_000  # of one text that are looked at: what a text is about is said by then
FEATURE_TOOL_CHARS = 2_000  # of a tool's text: the call and the head of its output; the rest names everything
FEATURE_TOPICS = 32  # of one text: a long answer would else overlap with everything
FEATURE_FILES = 32  # the same; a listing of a folder is no subject
FEATURE_ENTITIES = 32  # the same: a log names hundreds
CONTEXT_ITEMS = 20  # newest items of each group of a context: what was named before them no longer goes on
SHORT_PAUSE_S = (
    2 * 3600.0
)  # a longer pause before another subject is a break: a meal or a meeting is over by then
RELEVANCE_HALF_LIFE_H = 12.0  # of recency in the working set: a quarter is left when its 24 hours end
THREAD_OPEN_S = 14 * 86_400.0  # a thread without a turn for so long is over: two weeks are a sprint
THREADS_OPEN = 64  # of one project: nobody has more subjects in hand, and each costs time per turn
THREAD_TERMS = 512  # newest terms kept of a thread: about 20 turns
TURN_IDLE_S = 1_800.0  # a turn that has no answer by then is taken as it stands
TURN_KEEP_S = (
    2 * 86_400.0
)  # a turn's thread is remembered so long after its last event: sub-agents may come late
TURNS_KEPT = 512  # of one project at once, the newest
PIECE_CHARS = 4_000  # of a prompt or answer kept until its window closes: a memory is a quarter of that
MEMORY_CHARS = 1_000  # of a memory's summary (the seeds' limit): ten of them still fit a prompt
MEMORY_TOPICS = 12  # of a memory: more would describe anything
MEMORY_FILES = 6  # named as changed in a summary
STATEMENTS_KEPT = 24  # turns of one memory, for seeing later that one was reversed
MEMORIES_COMPARED = 64  # newest of a project that a new one is compared with
CODE_SPAN_CHARS = (
    320  # of a sentence whose code mark is open that another part is joined to: a stray mark joins one
)
STATEMENT_CHARS = 800  # of a turn's prompt, and of its answer: a decision is not buried deeper

# --- working set, memory flow and injection ---
WORKING_SET_MAX = 1_000  # highest setting of the working set's size: each member is compared at each turn
WINDOW_EVENTS_MAX = 1_000  # highest setting of a window's events: they wait in the flow's state
INJECT_TOKENS_MAX = (
    4_000  # highest setting of what a hook brings in: 9,500 characters are the agents' own limit
)
SESSION_HEAD_PIECES = (
    8  # first prompts and answers of a session that its summary is made of: what it was to do
)
SESSION_TAIL_PIECES = 24  # last ones: what came of it
SUMMARY_PIECES_KEPT = 512  # pieces whose sentences are kept: those of the sessions that go on, about 1 MB
SESSION_PIECE_CHARS = 800  # of each: the state of a hundred sessions stays below two megabytes
THREAD_TITLE_CHARS = 80  # of a thread's title: a line of a terminal
REORDER_S = 2.0  # events of a project wait so long for earlier ones: deliveries of one moment come within it
HISTORY_EVENTS = (
    1_000  # of a project that wait in a bounded run: it reads a history, derived as a whole and once
)
BEHIND_EVENTS = (
    20_000  # of such a history behind what was handed on that are held: 60 MB; more are read again
)
WAITING_EVENTS = 20_000  # the same of a live one: ten times what the fastest stream brings within REORDER_S
TIMER_S = (
    30.0  # between two looks at what the passing of time makes: windows close within a minute of their time
)
REBUILD_QUIET_S = (
    2.0  # a project is derived anew when nothing came for so long: an import makes it late many times
)
REBUILD_WAIT_S = 60.0  # and at the latest so long after it became late
REBUILD_LOOK_S = 0.25  # how often a waiting project looks whether it can be, or was, derived anew
PROJECT_FORGET_S = 15 * 86_400.0  # a project silent for so long leaves the flow's state: its threads are over
assert PROJECT_FORGET_S > THREAD_OPEN_S  # else work would go on in a thread that nobody remembers
DECISIONS_LOOK_S = (
    0.5  # how often the control journal is looked at: who asks waits a moment, and a look is a stat
)
INJECT_CHARS = 9_500  # of what a hook brings in: agents replace a text of more than 10,000 by a short preview
MEMORIES_TOP_K = 5  # memories of one search unless asked for otherwise (the seeds' default)
CONTINUITY_WINDOW_S = 3600.0  # of the log whose mean is the score of a project (the seeds' hour)
CONTINUITY_ROWS = 1_000  # of the log shown at once: weeks of one project
ACTIVE_ITEMS = 20  # topics, files and entities named of a working set
USAGE_KEEP_S = 30 * 86_400.0  # what was brought into a session is remembered so long: nobody resumes later
BACKFILL_S = (
    7 * 86_400.0
)  # enabling endless mode consolidates projects that had an event within it (the seeds' week)
TOLD_KEEP_S = (
    365 * 86_400.0
)  # what was told, and whether it was used: a year shows what a change of rules did
TOLD_TURN_S = (
    10.0  # between a prompt and what was told with it: hooks wait 0.2 s, transcripts may round to seconds
)
TOLD_TERMS = 2  # distinctive terms that an answer must share with what was told: one is shared by chance
TOLD_TURNS = 50  # turns of a project compared at once: `status` waits for it, some milliseconds each
TOLD_LOOK = 2_000  # events before a turn by which a term is rare or not: a quarter of a year's work at most
TOLD_CHARS = 4_000  # of a text that is compared: what it is about stands at its beginning
TOLD_RARE_EVENTS = 10  # events of the project that may name a term that is distinctive, however small it is
TOLD_RARE_SHARE = 0.1  # of the project's events that may name one: beyond, it is what the project is about
INJECT_ACTIVE = 10  # events of the working set told at once (the seeds' number)
INJECT_MEMORIES = 3  # memories told at once (the seeds' number)
INJECT_SESSIONS = 2  # session summaries told at once: of older ones the memories tell more
INJECT_LINE_CHARS = 160  # of one event: two lines of a terminal say what it was
INJECT_TERMS = 6  # terms of a prompt that make it whole: who asks at length is answered on some
INJECT_MEMORY_SHARE = (
    0.4  # of their weight that a memory must name: of 240 questions' memories 65 % were right
)
INJECT_NEAR_BEST = 0.7  # of the best memory's share that others need to be told beside it
INJECT_PRIOR = 20  # memories that a small project is taken to have more: its words would else all be common
INJECT_MEMORIES_HELD = (
    2_000  # newest memories of a project that a prompt is compared with: some years of work
)
INJECT_KEPT = 64  # tables of projects kept in memory: nobody works in more than a dozen at once
INJECT_EVENT_SHARE = 0.5  # of their number that one event must name, beside a good score: one line says less
INJECT_LOOK = 20  # rows of a search that are looked at: most are weak, told already, or the session's own
INJECT_SESSION_TOKENS = 6_000  # told to one session until its context is emptied: 3 % of a window of 200,000
INJECT_TOKENS_MIN = 100  # of a budget worth beginning with: frame and one line
INJECT_ANSWER_S = 0.19  # an answer that comes later finds no hook any more, and nobody was told anything
MTIME_TICK_S = 0.02  # of a file system's clock at most: two changes within it may bear the same time
SWITCH_S = 0.0005  # a thread of the server lets another one run after so long: Python's 5 ms, ten times a hook, are 50

# --- summaries in a model's words ---
LLM_LOOK_S = 5.0  # between two looks for memories that have none
LLM_BACKOFF_S = (60.0, 300.0, 1800.0)  # wait after a failure: an endpoint that is down stays so for a while
LLM_PER_LOOK = 10  # memories of one look, the newest first: a stop waits for one of them at most
LLM_SOURCE_CHARS = 12_000  # of what was said that are sent: 3,000 tokens, which small models take
LLM_ANSWER_BYTES = 256 * 1024  # of an answer: more is no summary
LLM_NEW_S = 7 * 86_400.0  # older memories keep their extract alone: switching it on is no bill for years
