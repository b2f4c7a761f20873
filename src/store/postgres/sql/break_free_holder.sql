DELETE FROM redlock.holder
WHERE key = $1::text AND until > clock_timestamp() AND ($2::text = '' OR owner = decode($2::text, 'hex'))
    AND (broken IS NOT NULL OR owner IS NULL)
