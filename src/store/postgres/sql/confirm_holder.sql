-- The same of a shared lock, or of a permit.
UPDATE redlock.holder SET until = greatest(until, clock_timestamp() + $3::interval),
    hold_until = coalesce(hold_until, clock_timestamp() + nullif($4::interval, '0'::interval)), metadata = $5::text
WHERE key = $1::text AND owner = $2::bytea AND until > clock_timestamp()
    AND EXISTS (SELECT FROM redlock.lock WHERE key = $1::text AND mode <> 'exclusive')
RETURNING fence, permit
