-- Adds a run, or counts a call that did not get the lock: their number since the latest run has a row without one.
WITH latest AS (
    SELECT number, skipped, run = '' AS is_open FROM redlock.history WHERE key = $1::text ORDER BY number DESC LIMIT 1
)
INSERT INTO redlock.history (key, number, ended, skipped, run)
SELECT $1::text, coalesce((SELECT number + (NOT is_open)::int FROM latest), 1), clock_timestamp(),
    coalesce((SELECT skipped FROM latest WHERE is_open), 0) + ($2::text = '')::int, $2::text
ON CONFLICT (key, number) DO UPDATE SET ended = excluded.ended, skipped = excluded.skipped, run = excluded.run
