-- The usual cases of release.lua, for one exclusive lock that this token holds, without a min-hold; everything else is left
-- to release.lua. So is a lock whose release python-redis-lock waits for, see `signal`.
local is_handed_over
if #KEYS == KEYS_OF_A_LOCK and ARGV[4] == '' and not string.find(ARGV[2], ':', 1, true) and string.sub(KEYS[1], 1, 5) ~= 'lock:'
    and redis.call('GET', KEYS[1]) == ARGV[2] then
  local lock, state, lease, queue, asked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6]
  local waiting = redis.call('ZRANGE', queue, '0', '1')
  local last = redis.call('HMGET', state, 'fence', 'keep', 'claim')
  local is_plain = last[1] and not last[2] and not last[3]
  if is_plain and #waiting == 0 then
    if ARGV[5] then
      redis.call('PUBLISH', string.match(queue, '^redlock:{[^}]*}:') .. 'wake:quorum:' .. lock, ARGV[5])
    end
    redis.call('DEL', lock, lease)
    redis.call('HSET', state, 'kind', '')
    if INDEX ~= '' then
      redis.pcall('ZREM', INDEX, lock)
    end
    return {1}
  end

  -- The first waiter wants it alone, too, and is alive: see `first_waiter`.
  local token, metadata = string.match(waiting[1] or '', '^(%S+) exclusive (.*)$')
  local channels = string.match(queue, '^redlock:{[^}]*}:') .. 'wake:'
  local times = is_plain and token and not ARGV[5] and redis.call('HMGET', asked, token, '')
  if times and (not times[1] or tonumber(times[1]) >= (tonumber(times[2]) or 0) - MISSED) then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local number = next_fence(last[1], time)
    -- PUBLISH returns how many received it.
    if number <= HIGHEST_FENCE and redis.call('PUBLISH', channels .. token, 'ask') > 0 then
      redis.call('SET', lock, token, 'PX', string.format('%.0f', CLAIM))
      record(state, lease, last[1], number, token, metadata, now, CLAIM, string.format('%.0f', now))
      redis.call('ZREM', queue, waiting[1])
      redis.call('HDEL', asked, token)
      -- It entered the lock into the index when it asked, for QUEUE_RETENTION.
      if now - (tonumber(times[1]) or 0) > MISSED then
        enter(lock, now, QUEUE_RETENTION)
      end
      -- The next waiter and the last one watch the claim: see `notify_watchers`, which goes on where one of them is dead.
      local next = waiting[2]
      if not next then return {2} end
      if redis.call('PUBLISH', channels .. string.match(next, '^%S*'), 'watch') > 0 then
        local latest = redis.call('ZRANGE', queue, '-1', '-1')[1]
        if latest == next or redis.call('PUBLISH', channels .. string.match(latest, '^%S*'), 'watch') > 0 then
          return {2}
        end
      end
      is_handed_over = true
    end
  end
end

