-- Takes a shared lock or one permit again: its lease ran out and nobody was granted the lock since, or a database restored from
-- a copy does not know it. A permit keeps its number. How many permits there are may have changed.
WITH l AS (
    INSERT INTO redlock.lock AS x (key, mode, fence, since, until)
    SELECT $1::text, $6::text, $4::bigint, clock_timestamp(), clock_timestamp() + $3::interval
    ON CONFLICT (key) DO UPDATE SET key = x.key, mode = CASE WHEN x.until <= clock_timestamp() THEN excluded.mode ELSE x.mode END, fence = greatest(x.fence, excluded.fence),
        until = greatest(x.until, excluded.until)
    WHERE (x.mode = excluded.mode OR x.until <= clock_timestamp() OR x.mode LIKE 'permits:%' AND excluded.mode LIKE 'permits:%') AND (x.fence < excluded.fence OR EXISTS (
        SELECT FROM redlock.holder WHERE key = $1::text AND fence = $4::bigint AND owner = $2::bytea AND broken IS NULL))
    RETURNING mode
)
INSERT INTO redlock.holder AS h (key, fence, owner, since, until, permit, metadata)
SELECT $1::text, $4::bigint, $2::bytea, clock_timestamp(), clock_timestamp() + $3::interval, nullif($7::text, '')::int, $5::text
FROM l
WHERE l.mode = 'shared' OR (
    (SELECT count(*) FROM redlock.holder WHERE key = $1::text AND until > clock_timestamp()) < substr(l.mode, 9)::bigint
    AND NOT EXISTS (SELECT FROM redlock.holder
        WHERE key = $1::text AND permit = nullif($7::text, '')::int AND until > clock_timestamp()))
ON CONFLICT (key, fence) DO UPDATE SET until = excluded.until
WHERE h.owner = excluded.owner
RETURNING fence
