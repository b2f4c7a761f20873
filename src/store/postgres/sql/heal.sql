-- Takes an exclusive lock again that ran out, or that a database restored from a copy does not know.
INSERT INTO redlock.lock AS x (key, mode, fence, owner, since, until, metadata)
SELECT $1::text, 'exclusive', $4::bigint, $2::bytea, clock_timestamp(), clock_timestamp() + $3::interval, $5::text
ON CONFLICT (key) DO UPDATE SET key = x.key, mode = 'exclusive', fence = excluded.fence, owner = excluded.owner,
    since = clock_timestamp(), until = clock_timestamp() + $3::interval, hold_until = NULL, broken = NULL, metadata = excluded.metadata
WHERE x.until <= clock_timestamp() AND x.mode = 'exclusive'
    AND (x.fence < excluded.fence OR (x.fence = excluded.fence AND x.owner = excluded.owner AND x.broken IS NULL))
RETURNING fence
