-- The present schema, written by a test: run it with BATON_WRITE_DOCS=1.
CREATE TABLE after_counted (
    source_job_id blob NOT NULL,
    job_config_id blob NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
    PRIMARY KEY (source_job_id, job_config_id)
    );
CREATE TABLE after_end (
    job_config_id blob NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
    name text NOT NULL,
    job_id blob NOT NULL,
    ended_at bigint NOT NULL,
    PRIMARY KEY (job_config_id, name)
    );
CREATE TABLE audit_event (
    id blob NOT NULL PRIMARY KEY,
    at bigint NOT NULL,
    actor text NOT NULL,
    -- The method of the API, such as Rerun.
    action text NOT NULL,
    -- What was changed: its kind, its namespace if it has one, its name or id.
    kind text NOT NULL,
    namespace text NOT NULL DEFAULT '',
    object text NOT NULL,
    job_id blob,
    before text NOT NULL DEFAULT '',
    after text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    request_id text NOT NULL DEFAULT ''
    );
CREATE INDEX audit_event_at ON audit_event (at);
CREATE INDEX audit_event_job ON audit_event (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX audit_event_object ON audit_event (kind, namespace, object, id);
CREATE TABLE backfill (
    id blob NOT NULL PRIMARY KEY,
    job_config_id blob NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    schedule text NOT NULL,
    -- What the schedule said when it was asked for, and where its intervals count from.
    spec text NOT NULL,
    anchor_at bigint NOT NULL,
    from_at bigint NOT NULL,
    to_at bigint NOT NULL,
    max_parallel integer NOT NULL,
    again boolean NOT NULL,
    state text NOT NULL CHECK (state IN ('RUNNING', 'DONE', 'CANCELLED')),
    reason text NOT NULL DEFAULT '',
    -- The next fire to look at; null when all have been.
    next_at bigint,
    total bigint NOT NULL,
    made bigint NOT NULL DEFAULT 0,
    passed_over bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    ended_at bigint
    );
CREATE INDEX backfill_of_config ON backfill (namespace, name, id);
CREATE INDEX backfill_running ON backfill (job_config_id, id) WHERE state = 'RUNNING';
CREATE TABLE calendar (
    namespace text NOT NULL,
    name text NOT NULL,
    description text NOT NULL DEFAULT '',
    exclude text NOT NULL,
    -- Grows with every change of its dates.
    revision bigint NOT NULL,
    -- Schedules may still be planned by an earlier revision.
    pending boolean NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (namespace, name)
    );
CREATE INDEX calendar_pending ON calendar (namespace, name) WHERE pending;
CREATE TABLE calendar_use (
    schedule_id blob NOT NULL REFERENCES schedule (id) ON DELETE CASCADE,
    namespace text NOT NULL,
    calendar text NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (schedule_id, calendar)
    );
CREATE INDEX calendar_use_of ON calendar_use (namespace, calendar, revision);
CREATE TABLE callback (
    -- What a receiver knows a repetition by.
    id blob NOT NULL PRIMARY KEY,
    -- The same for every receiver of one event.
    event_id blob NOT NULL,
    event text NOT NULL CHECK (event IN ('STARTED', 'SLOW', 'FINISHED', 'FAILED', 'TERMINATED', 'SKIPPED',
    'MISSED')),
    job_config_id blob NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    -- Null for a fire that made no job.
    job_id blob REFERENCES job (id) ON DELETE CASCADE,
    -- Null for an event of the job itself.
    task_id blob,
    task_name text NOT NULL DEFAULT '',
    -- Its place among the callbacks of the job config or the task.
    position integer NOT NULL,
    -- What is done, and with what, nothing left to fill in.
    kind text NOT NULL CHECK (kind IN ('HTTP', 'EMAIL', 'JOB')),
    action text NOT NULL,
    payload text NOT NULL,
    -- Its task is held until it is delivered or given up.
    blocking boolean NOT NULL,
    -- How many jobs, one after the other, led to the job of the event.
    depth integer NOT NULL DEFAULT 0,
    state text NOT NULL CHECK (state IN ('PENDING', 'DELIVERED', 'GIVEN_UP')),
    tries integer NOT NULL DEFAULT 0,
    -- The scheduler that tries it; it may be claimed again at next_try_at, which lies beyond any try.
    owner blob,
    next_try_at bigint NOT NULL,
    response_code integer,
    last_error text NOT NULL DEFAULT '',
    -- The job that it started.
    made_job_id blob,
    created_at bigint NOT NULL,
    ended_at bigint,
    CHECK ((state = 'PENDING') = (ended_at IS NULL)),
    CHECK (owner IS NULL OR state = 'PENDING'),
    CHECK (task_id IS NOT NULL OR NOT blocking)
    );
CREATE INDEX callback_due ON callback (next_try_at) WHERE state = 'PENDING';
CREATE INDEX callback_given_up ON callback (id) WHERE state = 'GIVEN_UP';
CREATE INDEX callback_holds ON callback (task_id) WHERE blocking;
CREATE INDEX callback_of_config ON callback (namespace, name, id);
CREATE INDEX callback_of_job ON callback (job_id, id);
CREATE INDEX callback_tail ON callback (lower(substr(hex(id), -4)));
CREATE INDEX callback_without_job ON callback (created_at) WHERE job_id IS NULL;
CREATE TABLE completion (
    -- SHA-256 of the token, in hex.
    token_hash text NOT NULL PRIMARY KEY,
    task_id blob NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    job_id blob NOT NULL,
    attempt integer NOT NULL,
    lease bigint NOT NULL,
    -- OPEN until the token is used; USED until the runner that waits is told; then TOLD.
    state text NOT NULL CHECK (state IN ('OPEN', 'USED', 'TOLD')),
    -- Where the runner that waits is to be told.
    session_id blob,
    slot integer,
    created_at bigint NOT NULL,
    used_at bigint
    );
CREATE INDEX completion_task ON completion (task_id);
CREATE INDEX completion_untold ON completion (session_id) WHERE state = 'USED';
CREATE TABLE concurrency_limit (
    key text NOT NULL PRIMARY KEY
    );
CREATE TABLE fire (
    job_config_id blob NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
    schedule text NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    count bigint NOT NULL,
    reason text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (job_config_id, schedule, first_at)
    );
CREATE INDEX fire_newest ON fire (job_config_id, last_at);
CREATE TABLE job (
    id blob NOT NULL PRIMARY KEY,
    job_config_id blob NOT NULL,
    version integer NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    labels text NOT NULL,
    state text NOT NULL CHECK (state IN ('CREATED', 'RUNNING', 'FINISHED', 'FAILED', 'SKIPPED',
    'TERMINATING', 'TERMINATED')),
    reason text NOT NULL DEFAULT '',
    trigger_kind text NOT NULL CHECK (trigger_kind IN ('MANUAL', 'SCHEDULE')),
    schedule text,
    fire_time bigint,
    rerun_no integer NOT NULL DEFAULT 0,
    params text NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    ended_at bigint,
    deadline_at bigint,
    -- It waits until the jobs of its config before it are over; nothing of it is written before.
    waiting boolean NOT NULL DEFAULT 0,
    stopping boolean NOT NULL DEFAULT 0,
    timed_out boolean NOT NULL DEFAULT 0,
    expanded integer NOT NULL DEFAULT 0,
    tasks_total integer NOT NULL,
    tasks_ended integer NOT NULL DEFAULT 0,
    tasks_failed integer NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 1, held boolean NOT NULL DEFAULT 0, runner text, warn_at bigint, warned_at bigint, cause text, parent_job_id blob, parent_task_id blob, parent_attempt integer, depth integer NOT NULL DEFAULT 0, logical_at bigint, logical_zone text, removing boolean NOT NULL DEFAULT 0, logs_removed boolean NOT NULL DEFAULT 0, backfill_id blob,
    CHECK (tasks_ended <= tasks_total)
    );
CREATE INDEX job_deadline ON job (deadline_at) WHERE deadline_at IS NOT NULL AND state = 'RUNNING';
CREATE INDEX job_ended ON job (job_config_id, ended_at, id) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX job_fire ON job (job_config_id, schedule, fire_time, rerun_no)
    WHERE fire_time IS NOT NULL;
CREATE INDEX job_held ON job (job_config_id, id) WHERE state = 'CREATED' AND held;
CREATE INDEX job_live_of_config ON job (job_config_id)
    WHERE state IN ('CREATED', 'RUNNING', 'TERMINATING');
CREATE INDEX job_logs_kept ON job (job_config_id, ended_at, id)
    WHERE ended_at IS NOT NULL AND NOT logs_removed;
CREATE INDEX job_of_backfill ON job (backfill_id, state) WHERE backfill_id IS NOT NULL;
CREATE INDEX job_of_config ON job (namespace, name, id);
CREATE INDEX job_of_parent ON job (parent_job_id, id) WHERE parent_job_id IS NOT NULL;
CREATE UNIQUE INDEX job_of_task ON job (parent_task_id, parent_attempt) WHERE parent_task_id IS NOT NULL;
CREATE INDEX job_removing ON job (id) WHERE removing;
CREATE INDEX job_tail ON job (lower(substr(hex(id), -4)));
CREATE INDEX job_to_expand ON job (id) WHERE state = 'CREATED' AND NOT waiting;
CREATE INDEX job_unfinished ON job (id) WHERE state <> 'FINISHED';
CREATE INDEX job_waiting ON job (job_config_id, id) WHERE state = 'CREATED' AND waiting;
CREATE INDEX job_warning ON job (warn_at)
    WHERE warn_at IS NOT NULL AND warned_at IS NULL AND state = 'RUNNING';
CREATE TABLE job_config (
    id blob NOT NULL PRIMARY KEY,
    namespace text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    deleted_at bigint
    , disabled_at bigint, disabled_until bigint, disabled_reason text NOT NULL DEFAULT '', max_active_jobs integer, retain_age bigint, retain_count integer, retain_logs bigint);
CREATE UNIQUE INDEX job_config_name ON job_config (namespace, name) WHERE deleted_at IS NULL;
CREATE TABLE job_config_start (
    job_config_id blob NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
    namespace text NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (job_config_id, name)
    );
CREATE INDEX job_config_started ON job_config_start (namespace, name);
CREATE TABLE job_config_use (
    job_config_id blob NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
    -- TASK: a `job` task. AFTER: `after_jobs`.
    kind text NOT NULL CHECK (kind IN ('TASK', 'AFTER')),
    namespace text NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (job_config_id, kind, name)
    );
CREATE INDEX job_config_followed ON job_config_use (namespace, name) WHERE kind = 'AFTER';
CREATE INDEX job_config_used ON job_config_use (namespace, name);
CREATE TABLE job_config_version (
    job_config_id blob NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
    version integer NOT NULL,
    definition text NOT NULL,
    source text NOT NULL,
    labels text NOT NULL,
    task_count integer NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (job_config_id, version)
    );
CREATE TABLE job_source (
    job_id blob NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    job_config_id blob NOT NULL,
    source_job_id blob NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (job_config_id, source_job_id)
    );
CREATE INDEX job_source_of ON job_source (job_id);
CREATE TABLE meta (
    key text NOT NULL PRIMARY KEY,
    value text NOT NULL
    );
CREATE TABLE removed_job (
    id blob NOT NULL PRIMARY KEY,
    removed_at bigint NOT NULL
    );
CREATE INDEX removed_job_at ON removed_job (removed_at, id);
CREATE INDEX removed_job_tail ON removed_job (lower(substr(hex(id), -4)));
CREATE TABLE request (
    principal text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    body_hash blob NOT NULL,
    response text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (principal, method, request_id)
    );
CREATE INDEX request_age ON request (created_at);
CREATE TABLE runner (
    id text NOT NULL PRIMARY KEY,
    install_id text NOT NULL,
    boot_id text NOT NULL,
    conn bigint NOT NULL,
    -- The one session that counts; null once the runner left or was given up.
    session_id blob,
    scheduler_id blob,
    labels text NOT NULL,
    version text NOT NULL,
    capabilities text NOT NULL,
    slots integer NOT NULL,
    -- Drained by an operator, as opposed to draining by itself.
    drained boolean NOT NULL DEFAULT 0,
    draining boolean NOT NULL DEFAULT 0,
    drain_reason text NOT NULL DEFAULT '',
    last_seen_at bigint NOT NULL,
    hold_until bigint,
    created_at bigint NOT NULL
    , boot_number bigint, boot_numbered text);
CREATE INDEX runner_session ON runner (scheduler_id) WHERE session_id IS NOT NULL;
CREATE INDEX runner_silent ON runner (last_seen_at) WHERE session_id IS NOT NULL;
CREATE TABLE schedule (
    id blob NOT NULL PRIMARY KEY,
    job_config_id blob NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
    -- Its name, else its position.
    key text NOT NULL,
    spec text NOT NULL,
    -- DUE waits for due_at, TURN for the end of the jobs of its config, END for the end of the job it made
    -- last; the others wait for an edit.
    state text NOT NULL CHECK (state IN ('DUE', 'TURN', 'END', 'OVER', 'PARKED', 'PAUSED')),
    reason text NOT NULL DEFAULT '',
    -- The fire it waits for, and when to decide it by the clock of the database.
    next_fire_at bigint,
    due_at bigint,
    -- The newest fire that was decided, and when the newest job was made.
    last_fire_at bigint,
    last_made_at bigint,
    -- How long a fixed rate may wait at most, whatever the clock was set to; null for other rules.
    period bigint,
    created_at bigint NOT NULL, planned_at bigint, burst_at bigint, burst integer NOT NULL DEFAULT 0,
    CHECK (state NOT IN ('DUE', 'TURN') OR (next_fire_at IS NOT NULL AND due_at IS NOT NULL))
    );
CREATE INDEX schedule_due ON schedule (due_at) WHERE state IN ('DUE', 'PAUSED');
CREATE UNIQUE INDEX schedule_key ON schedule (job_config_id, key);
CREATE INDEX schedule_listed ON schedule (coalesce(next_fire_at, 9223372036854775807), id);
CREATE INDEX schedule_planned ON schedule (planned_at);
CREATE INDEX schedule_waits ON schedule (job_config_id) WHERE state IN ('TURN', 'END');
CREATE TABLE scheduler (
    id blob NOT NULL PRIMARY KEY,
    address text NOT NULL,
    version text NOT NULL,
    state text NOT NULL CHECK (state IN ('WORKING', 'DRAINED', 'OFFLINE')),
    started_at bigint NOT NULL,
    last_seen_at bigint NOT NULL
    );
CREATE TABLE task (
    id blob NOT NULL PRIMARY KEY,
    job_id blob NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    task_config_id blob NOT NULL,
    node integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('TASK', 'GROUP', 'SHARD')),
    group_id blob,
    -- -1 on everything but shards, so that one unique index holds for all.
    shard_index integer NOT NULL DEFAULT -1,
    shard_count integer,
    shard_item text NOT NULL DEFAULT '',
    state text NOT NULL CHECK (state IN ('CREATED', 'QUEUED', 'DISPATCHED', 'RUNNING', 'CALLBACK',
    'FINISHED', 'FAILED', 'SKIPPED', 'TERMINATING', 'TERMINATED')),
    reason text NOT NULL DEFAULT '',
    skip_cause text CHECK (skip_cause IN ('CONDITION', 'UPSTREAM_FAILED')),
    attempt integer NOT NULL DEFAULT 0,
    lease bigint NOT NULL DEFAULT 0,
    priority integer NOT NULL DEFAULT 0,
    -- What a runner must have to take it: `capability;pin;labels`, the same text for the same demand.
    class text NOT NULL DEFAULT '',
    not_before bigint NOT NULL DEFAULT 0,
    runner_id text,
    slot integer,
    session_id blob,
    deaths integer NOT NULL DEFAULT 0,
    refusals integer NOT NULL DEFAULT 0,
    -- False while the end of the last attempt's processes is not proven.
    gone boolean NOT NULL DEFAULT 1,
    end_grace bigint,
    exit_code integer,
    exit_signal integer,
    output text NOT NULL DEFAULT '',
    stdout_bytes bigint NOT NULL DEFAULT 0,
    stderr_bytes bigint NOT NULL DEFAULT 0,
    parents_total integer NOT NULL DEFAULT 0,
    parents_succeeded integer NOT NULL DEFAULT 0,
    parents_failed integer NOT NULL DEFAULT 0,
    parents_skipped integer NOT NULL DEFAULT 0,
    shards_succeeded integer NOT NULL DEFAULT 0,
    shards_ended integer NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    queued_at bigint,
    dispatched_at bigint,
    started_at bigint,
    ended_at bigint,
    seq bigint NOT NULL DEFAULT 1, concurrency_key text, concurrency_limit integer, tried integer NOT NULL DEFAULT 0, warned_at bigint, attempts_before integer NOT NULL DEFAULT 0,
    CHECK ((kind = 'SHARD') = (group_id IS NOT NULL)),
    CHECK ((kind = 'SHARD') = (shard_index >= 0)),
    CHECK (parents_succeeded + parents_failed + parents_skipped <= parents_total),
    CHECK (state NOT IN ('DISPATCHED', 'TERMINATING') OR kind = 'GROUP' OR runner_id IS NOT NULL),
    CHECK (skip_cause IS NOT NULL OR state <> 'SKIPPED')
    );
CREATE INDEX task_changed ON task (job_id, seq);
CREATE INDEX task_delayed ON task (not_before) WHERE state = 'QUEUED' AND not_before > 0;
CREATE INDEX task_held ON task (runner_id) WHERE state IN ('DISPATCHED', 'RUNNING', 'TERMINATING');
CREATE INDEX task_holds_key ON task (concurrency_key)
    WHERE concurrency_key IS NOT NULL AND state IN ('DISPATCHED', 'RUNNING', 'TERMINATING');
CREATE INDEX task_may_hold_key ON task (concurrency_key) WHERE concurrency_key IS NOT NULL AND NOT gone;
CREATE INDEX task_not_gone ON task (runner_id) WHERE NOT gone;
CREATE UNIQUE INDEX task_of_job ON task (job_id, node, shard_index);
CREATE INDEX task_rank ON task (class, (queued_at - priority * CAST(60000000 AS bigint)), id)
    WHERE state = 'QUEUED';
CREATE INDEX task_shard ON task (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX task_shard_waiting ON task (group_id, shard_index)
    WHERE state = 'CREATED' AND group_id IS NOT NULL;
CREATE INDEX task_with_child ON task (id)
    WHERE class = 'job;;' AND state IN ('RUNNING', 'TERMINATING');
CREATE TABLE task_alarm (
    task_id blob NOT NULL PRIMARY KEY,
    due_at bigint NOT NULL
    );
CREATE INDEX task_alarm_due ON task_alarm (due_at);
CREATE TABLE task_attempt (
    task_id blob NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    lease bigint NOT NULL,
    number integer NOT NULL,
    runner_id text,
    reason text NOT NULL,
    exit_code integer,
    exit_signal integer,
    started_at bigint,
    ended_at bigint NOT NULL,
    gone boolean NOT NULL,
    PRIMARY KEY (task_id, lease)
    );
CREATE INDEX task_attempt_not_gone ON task_attempt (runner_id) WHERE NOT gone;
CREATE TABLE task_config (
    id blob NOT NULL PRIMARY KEY,
    job_config_id blob NOT NULL,
    version integer NOT NULL,
    node integer NOT NULL,
    name text NOT NULL,
    FOREIGN KEY (job_config_id, version)
    REFERENCES job_config_version (job_config_id, version) ON DELETE CASCADE
    );
CREATE UNIQUE INDEX task_config_name ON task_config (job_config_id, version, name);
CREATE UNIQUE INDEX task_config_node ON task_config (job_config_id, version, node);
CREATE TABLE task_dependency (
    child_id blob NOT NULL REFERENCES task_config (id) ON DELETE CASCADE,
    parent_id blob NOT NULL REFERENCES task_config (id) ON DELETE CASCADE,
    PRIMARY KEY (child_id, parent_id)
    );
CREATE INDEX task_dependency_parent ON task_dependency (parent_id);
CREATE TABLE task_mark (
    task_id blob NOT NULL PRIMARY KEY REFERENCES task (id) ON DELETE CASCADE,
    job_id blob NOT NULL,
    state text NOT NULL,
    before text NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    marked_at bigint NOT NULL
    );
CREATE INDEX task_mark_job ON task_mark (job_id);
CREATE TABLE log_chunk (
    id integer PRIMARY KEY,
    job_id blob NOT NULL,
    task_id blob NOT NULL,
    attempt integer NOT NULL,
    lease bigint NOT NULL,
    -- 1 is standard output, 2 is standard error.
    stream integer NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    skipped bigint NOT NULL DEFAULT 0,
    data blob NOT NULL,
    created_at bigint NOT NULL
    );
CREATE INDEX log_chunk_job ON log_chunk (job_id, id);
CREATE UNIQUE INDEX log_chunk_offset ON log_chunk (task_id, lease, stream, end_offset);
CREATE INDEX log_chunk_task ON log_chunk (task_id, id);
