-- Takes the lock, or says who has it. ARGV 4: ttl, 5: metadata, 6: 'once', 'queue' (take a place), or
-- 'insist' (as 'queue', when the wait for a vanished lease is over), 7: the ticket that the waiter has,
-- or '', 8: the min-hold in milliseconds, 9: the kind.
local ttl, metadata, mode, ticket, kind = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7], ARGV[9]
local member = me .. ' ' .. kind .. ' ' .. metadata
local newly_queued = 0

-- An early release leaves the lock to its time.
local function keep_for(min_hold)
  if min_hold == '0' then return end
  if kind == 'exclusive' then
    redis.call('HSET', state, 'keep', integer(now() + min_hold))
  else
    several[me].keep = now() + min_hold
    write(me)
  end
end

owner = redis.call('GET', lock)
if owner == me then
  -- Handed over, or the answer to an earlier request was lost. The next in line is told by a renewal, when
  -- the job has started.
  redis.call('PEXPIRE', lock, ttl)
  redis.call('HSET', state, 'until', integer(now() + ttl), 'ttl', integer(ttl))
  keep_for(ARGV[8])
  return {'granted', redis.call('HGET', state, 'fence') or grant(me, kind, metadata, ttl, last_grant())}
end

local known = redis.call('HMGET', state, 'owner', 'until', 'fence', 'keep', 'kind')
local last = {fence = tonumber(known[3]) or 0, keep = tonumber(known[4])}
look(known[5])
if several[me] then
  several[me]['until'], several[me].ttl = now() + ttl, ttl
  write(me)
  keep_for(ARGV[8])
  return {'granted', several[me].fence}
end

-- One kind at a time, but for readers and writers.
local first = redis.call('ZRANGE', queue, 0, 0)[1]
local there = held or first and kind_of(first)
if there and there ~= kind and (string.match(there, '^permits') or string.match(kind, '^permits')) then
  return {'kind', there}
end

if mode ~= 'once' then
  if ticket == '' then
    local latest = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    ticket = integer(math.max((tonumber(latest) or 0) + 1, now() * 1000))
  end
  newly_queued = redis.call('ZADD', queue, 'NX', ticket, member)
  redis.call('PEXPIRE', queue, QUEUE_RETENTION)
end

if not owner and not held then
  if not known[3] and ARGV[7] ~= '' and mode ~= 'insist' then
    -- This waiter knew of a lease, and the store knows nothing: it lost its data. The holder may be
    -- alive and about to renew.
    return {'vanished', ticket}
  elseif known[1] and known[1] ~= me and tonumber(known[2] or 0) > now() then
    -- The key was removed, not released and not expired: its owner may be alive and about to renew.
    owner, held = known[1], 'exclusive'
  end
end

-- Those in line go first.
if first and first ~= member and held ~= 'exclusive' then
  hand_over(last, mode ~= 'once' and member)
  first = redis.call('ZRANGE', queue, 0, 0)[1]
  owner = redis.call('GET', lock)
end
if admits(kind) and (not first or first == member) then
  local fence = grant(me, kind, metadata, ttl, last)
  if mode ~= 'once' then
    redis.call('ZREM', queue, member)
  end
  keep_for(ARGV[8])
  if first and kind ~= 'exclusive' then
    hand_over(last)
  end
  if first then
    tell_first(held == 'exclusive' and ttl or left())
  end
  return {'granted', fence}
end

local ahead = mode == 'once' and redis.call('ZCARD', queue) or redis.call('ZRANK', queue, member)
return {'busy', describe(), ahead or 0, ticket, newly_queued}
