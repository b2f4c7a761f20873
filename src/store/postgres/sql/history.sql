SELECT key, skipped, run FROM redlock.history
WHERE ($1::text = '[]' OR key = ANY (ARRAY(SELECT json_array_elements_text($1::text::json)))) ORDER BY key, number DESC
