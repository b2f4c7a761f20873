-- The permits of one holder are one lease, with one end.
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now)
UPDATE redlock.holder SET until = greatest(until, moment.now + $3::interval)
FROM moment
WHERE key = $1::text AND owner = $2::bytea AND until > moment.now AND broken IS NULL
    AND EXISTS (SELECT FROM redlock.lock WHERE key = $1::text AND mode <> 'exclusive')
RETURNING fence
