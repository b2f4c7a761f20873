-- The usual cases of acquire.lua, for one exclusive lock without a min-hold; everything else is left to acquire.lua.
if #KEYS == KEYS_OF_A_LOCK and ARGV[8] == '0' and ARGV[9] == 'exclusive' and not string.find(ARGV[2], ':', 1, true) then
  local lock, state, lease = KEYS[1], KEYS[2], KEYS[3]
  local token, ttl = ARGV[2], tonumber(ARGV[4])
  if ARGV[7] == '' then
    -- The lock is free, its last lease was released, and nobody waits for it.
    local last = redis.call('HMGET', state, 'fence', 'kind', 'keep', 'claim')
    if (not last[2] or last[2] == '') and not last[3] and not last[4] and redis.call('ZCARD', KEYS[4]) == 0 then
      local time = redis.call('TIME')
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      local number = next_fence(last[1], time)
      if number <= HIGHEST_FENCE and redis.call('SET', lock, token, 'PX', ARGV[4], 'NX') then
        local fence, is_due = record(state, lease, last[1], number, token, ARGV[5], now, ttl)
        enter(lock, now, ttl, not is_due)
        return {'granted', fence}
      end
    end
  elseif redis.call('GET', lock) == token then
    -- The lock was handed to this waiter, which confirms it. The next waiter watches by itself.
    local last = redis.call('HMGET', state, 'fence', 'claim')
    if last[1] and last[2] then
      local time = redis.call('TIME')
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      local known = string.format('%.0f %.0f %.0f %s %s', now + ttl, ttl, now, token, ARGV[5])
      redis.call('SET', lease, known, 'PX', string.format('%.0f', ttl + AFTERWARDS))
      redis.call('PEXPIRE', lock, ARGV[4])
      -- The waiters have entered it, see release_quick.lua.
      if ttl > QUEUE_RETENTION - MISSED - CLAIM then
        enter(lock, now, ttl)
      end
      redis.call('HDEL', state, 'claim')
      redis.call('LPUSH', KEYS[7], '1')
      redis.call('PEXPIRE', KEYS[7], '1000')
      return {'granted', last[1]}
    end
  end
end

