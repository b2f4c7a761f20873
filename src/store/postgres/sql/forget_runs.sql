-- The last success stays.
DELETE FROM redlock.history WHERE key = $1::text AND slot > 0 AND number <= (
    SELECT max(number) FROM redlock.history WHERE key = $1::text) - $2::bigint
    AND number IS DISTINCT FROM (
        SELECT max(number) FROM redlock.history WHERE key = $1::text AND run LIKE '%"outcome":"success"%')
