-- Adds to the history of a lock. KEYS 1: a list, the latest entry first. ARGV 1: the run, or '' for a call that did not get
-- the lock; 2: how many runs are kept; 3: for how long, in milliseconds.
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
