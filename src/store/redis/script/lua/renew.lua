-- Extends the lease. ARGV 4: ttl, 5: metadata, 6: the fence of the grant, or '' not to acquire a lock again that is gone,
-- 7: the mode.
local ttl, metadata, fence, mode = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]
if read_owner() == me then
  -- Never shorter: a job inside another may have the same lock with a shorter ttl.
  local left = redis.call('PTTL', lock)
  if left <= ttl then
    redis.call('PEXPIRE', lock, ttl)
    extend_lease(ttl)
    remember(tonumber(redis.call('HGET', state, 'fence')) or 0, ttl)
  end
  notify_first(math.max(left, ttl))
  return {'extended'}
end

local known = redis.call('HMGET', state, 'fence', 'kind', 'exclusive', 'broken', 'restarted')
read_holders(known[2])
if is_semaphore(mode) and is_semaphore(held) then
  mode = held
end
local mine = held_by[me]
if mine and mine.broken then
  return {'lost', describe_one(mine)}
elseif mine then
  if mine['until'] <= now() + ttl then
    mine['until'], mine.ttl = now() + ttl, ttl
    write_holder(me)
    remember(tonumber(known[1]) or 0, ttl)
  end
  notify_first(left())
  return {'extended'}
end
if owner == 'released:' .. me then
  return {'released'}
end
if fence ~= '' and mode == 'exclusive' and not owner and not held then
  -- Gone. The counter shows whether there was another grant since. Without a counter there was none: it outlives a lease
  -- of this length.
  local is_last = known[1] == fence and known[4] ~= fence
  if is_last and known[2] == '' then
    return {'released'}
  end
  if is_last or not known[1] and ttl <= RETENTION then
    redis.call('SET', lock, me, 'PX', ttl)
    redis.call('HSET', state, 'fence', fence, 'kind', mode)
    write_lease(lease, now(), ttl, read_lease().since or integer(now()), me, metadata)
    remember(tonumber(fence), ttl)
    notify_first(ttl)
    return {'healed'}
  end
elseif fence ~= '' and mode ~= 'exclusive' and admits(mode, take_of(mode, metadata)) and not known[3]
    and (not known[1] or now() - tonumber(known[5] or 0) < ttl) then
  -- The server lost its data not long ago, there is room, and the lock was not held exclusively since. The permits may have
  -- been given to another.
  local permits, given = request_of(metadata).permits, numbers_held()
  for _, permit in ipairs(permits or {}) do
    if given[permit] then return {'lost', describe()} end
  end
  held_by[me] = {fence = fence, since = now(), ['until'] = now() + ttl, ttl = ttl, metadata = metadata, permits = permits}
  held = mode
  write_holder(me)
  -- If several heal, the highest counts, so that no fencing token is granted twice.
  local highest = math.max(tonumber(known[1]) or 0, tonumber(fence))
  local restarted = known[1] and {} or {'restarted', integer(now())}
  redis.call('HSET', state, 'fence', integer(highest), 'kind', mode, unpack(restarted))
  remember(highest, ttl)
  return {'healed'}
end
if owner or held then
  return {'lost', describe()}
end
return {'lost'}
