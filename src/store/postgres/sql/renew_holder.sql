UPDATE redlock.holder SET until = greatest(until, clock_timestamp() + $3::interval)
WHERE key = $1::text AND owner = $2::bytea AND until > clock_timestamp() AND broken IS NULL
    AND EXISTS (SELECT FROM redlock.lock WHERE key = $1::text AND mode <> 'exclusive')
RETURNING fence
