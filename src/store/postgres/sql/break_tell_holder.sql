UPDATE redlock.holder SET broken = $3::text
WHERE key = $1::text AND until > clock_timestamp() AND ($2::text = '' OR owner = decode($2::text, 'hex'))
    AND broken IS NULL AND owner IS NOT NULL
    AND ($4::text = '' OR owner = (SELECT owner FROM redlock.holder WHERE key = $1::text AND fence = nullif($4::text, '')::bigint))
