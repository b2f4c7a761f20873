-- Takes an exclusive lock that is free. A grant has `key` in its SET list, so that it waits for a transaction with redlock.fenced().
INSERT INTO redlock.lock AS x (key, fence, owner, since, until, hold_until, metadata)
SELECT $1::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $2::bytea, clock_timestamp(),
    clock_timestamp() + $3::interval, clock_timestamp() + nullif($4::interval, '0'::interval), $5::text
WHERE NOT EXISTS (SELECT FROM redlock.lock WHERE key = $1::text AND until > clock_timestamp())
ON CONFLICT (key) DO UPDATE SET key = x.key, mode = 'exclusive', fence = greatest(x.fence + 1, excluded.fence),
    owner = excluded.owner, since = clock_timestamp(), until = clock_timestamp() + $3::interval,
    hold_until = clock_timestamp() + nullif($4::interval, '0'::interval), broken = NULL, metadata = excluded.metadata
WHERE NOT x.queued AND x.until <= clock_timestamp()
    AND x.cancelled IS DISTINCT FROM excluded.owner
RETURNING fence
