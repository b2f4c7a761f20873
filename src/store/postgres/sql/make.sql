INSERT INTO redlock.lock (key, fence, until) VALUES ($1::text, 0, clock_timestamp()) ON CONFLICT (key) DO NOTHING
