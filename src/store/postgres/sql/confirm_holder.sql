-- The same of a shared lock, or of permits.
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now)
UPDATE redlock.holder SET until = greatest(until, moment.now + $3::interval),
    hold_until = coalesce(hold_until, moment.now + nullif($4::interval, '0'::interval)), metadata = $5::text
FROM moment
WHERE key = $1::text AND owner = $2::bytea AND until > moment.now
    AND EXISTS (SELECT FROM redlock.lock WHERE key = $1::text AND mode <> 'exclusive')
RETURNING fence, permit
