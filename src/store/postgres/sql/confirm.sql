-- Begins the lease of an exclusive lock that was handed over, or asked for again.
UPDATE redlock.lock SET until = greatest(until, clock_timestamp() + $3::interval),
    hold_until = coalesce(hold_until, clock_timestamp() + nullif($4::interval, '0'::interval)), metadata = $5::text
WHERE key = $1::text AND owner = $2::bytea AND mode = 'exclusive' AND until > clock_timestamp()
RETURNING fence
