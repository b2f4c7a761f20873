UPDATE redlock.lock SET until = greatest(until, clock_timestamp() + $3::interval)
WHERE key = $1::text AND owner = $2::bytea AND mode = 'exclusive' AND until > clock_timestamp() AND broken IS NULL
RETURNING fence
