-- The same when this owner does not hold so many leases.
SELECT 1 / (count(*) >= $3::bigint)::int FROM redlock.lease WHERE key = $1::text AND owner = $2::bytea
    AND until > clock_timestamp() AND broken IS NULL
