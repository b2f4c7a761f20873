SELECT fence, greatest((extract(epoch FROM until - clock_timestamp()) * 1000)::bigint, 0) FROM redlock.lease
WHERE key = $1::text AND owner = $2::bytea AND until > clock_timestamp() AND ($3::text = '' OR broken IS NULL)
