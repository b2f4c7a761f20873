SELECT key, mode, fence, (extract(epoch FROM since) * 1000)::bigint,
    greatest((extract(epoch FROM until - clock_timestamp()) * 1000)::bigint, 0), (owner IS NULL)::int, broken, metadata, encode(owner, 'hex'), permit
FROM redlock.lease WHERE until > clock_timestamp() AND ($1::text = '[]' OR key = ANY (ARRAY(SELECT json_array_elements_text($1::text::json))))
ORDER BY key, CASE WHEN mode = 'shared' THEN until END DESC, until
