SELECT key, mode, metadata FROM redlock.waiter w
WHERE ($1::text = '[]' OR key = ANY (ARRAY(SELECT json_array_elements_text($1::text::json))))
    AND alive_until > clock_timestamp() AND (
        (server_start <> pg_postmaster_start_time() AND clock_timestamp() < pg_postmaster_start_time() + '6 s'::interval)
        OR w.process IS NULL OR EXISTS (SELECT FROM pg_stat_get_activity(w.process)))
ORDER BY key, ticket
