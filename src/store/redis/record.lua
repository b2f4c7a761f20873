-- Adds to the history of a lock. KEYS 1: a list, the latest entry first; 2: the last success. ARGV 1: the run, or '' for a
-- call that did not get the lock; 2: how many runs are kept; 3: for how long, in milliseconds; 4: the run as the last
-- success, where it is one. Both are written at once: the client may end before the reply.
--
-- An entry is "skipped run": how many calls did not get the lock since the run before, and the run as JSON. Their number
-- since the latest run stands alone before it.
local history, run = KEYS[1], ARGV[1]
local skipped = string.match(redis.call('LINDEX', history, 0) or '', '^%d+$')
if skipped then
  redis.call('LPOP', history)
end
if run == '' then
  redis.call('LPUSH', history, string.format('%.0f', (skipped or 0) + 1))
else
  redis.call('LPUSH', history, (skipped or '0') .. ' ' .. run)
  redis.call('LTRIM', history, 0, ARGV[2] - 1)
end
redis.call('PEXPIRE', history, ARGV[3])
if ARGV[4] then
  redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[3])
end
