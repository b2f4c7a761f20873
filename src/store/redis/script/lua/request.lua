-- The functions that acquire a lock, for acquire.lua and acquire_one.lua. ARGV 4: ttl, 5: metadata, 6: 'once', 'queue' (take a place in the
-- queue), or 'insist' (as 'queue', when the wait for a lease of lost data has ended), 7: the ticket that the waiter has, or '',
-- 8: the min-hold in milliseconds, 9: the mode, 10: the head start of the priority, and 11: what the clock may have been ahead
-- before, both in microseconds. Where locks differ in their modes, 9 lists one for each.
local ttl, metadata, queueing, ticket = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]
local member = me .. ' ' .. ARGV[9] .. ' ' .. metadata
local modes = {}
for mode in string.gmatch(ARGV[9], '%S+') do
  modes[#modes + 1] = mode
end
-- The mode that was asked for, and that of a grant.
local wanted, mode
local newly_queued = 0
-- The last grant, its mode, and the first waiter.
local last, last_mode, first

-- An early release leaves the lock until then.
local function set_min_hold(min_hold)
  if min_hold == '0' then return end
  enter(lock, now(), tonumber(min_hold))
  if mode == 'exclusive' then
    redis.call('HSET', state, 'keep', integer(now() + min_hold))
  else
    held_by[me].keep = now() + min_hold
    write_holder(me)
  end
end

-- The fence, with the permits of a semaphore.
local function granted(fence)
  local mine = held_by[me]
  return mine and mine.permits and fence .. ' ' .. table.concat(mine.permits, ',') or fence
end

-- The fence of a lock that is ours: handed over, or the answer to an earlier request was lost.
local function confirm(number)
  first, wanted = nil, modes[number] or modes[1]
  mode = wanted
  if read_owner() == me then
    redis.call('PEXPIRE', lock, ttl)
    extend_lease(ttl)
    enter(lock, now(), ttl)
    confirmed()
    set_min_hold(ARGV[8])
    return redis.call('HGET', state, 'fence') or grant(me, mode, metadata, ttl, last_grant())
  end
  local of_last = redis.call('HMGET', state, 'fence', 'keep', 'claim', 'permits', 'kind')
  last = grant_of(of_last[1], of_last[2], of_last[3], of_last[4])
  last_mode = of_last[5]
  read_holders(last_mode)
  mode = current(wanted, last)
  local mine = held_by[me]
  if mine then
    mine['until'], mine.ttl, mine.claim = now() + ttl, ttl, nil
    write_holder(me)
    enter(lock, now(), ttl)
    confirmed()
    set_min_hold(ARGV[8])
    return granted(mine.fence)
  end
end

-- A place in the queue behind those of the same priority.
local function new_ticket()
  local arrival = now() * 1000 - ARGV[10]
  local latest = redis.call('ZRANGE', queue, integer(arrival + ARGV[11]), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1,
    'WITHSCORES')[2]
  return math.max((tonumber(latest) or 0) + 1, arrival)
end

-- The reply for a lock that is not free; nil for one that is.
local function refuse(number)
  -- One mode at a time, except that shared and exclusive go together.
  first = first_waiter(last)
  if last.permits and not held and not first then
    redis.call('HDEL', state, 'permits')
    last.permits, mode = nil, wanted
  end
  local there, take = held or first and current(mode_of(first), last), take_of(wanted, metadata)
  if there and there ~= wanted and (is_semaphore(there) or is_semaphore(wanted)) then
    -- Only a waiter that came before may have another number of permits.
    if ARGV[7] == '' or there ~= mode or take > capacity(there) then
      return {'mode', number, there}
    end
  end

  if queueing ~= 'once' then
    if ticket == '' then
      ticket = integer(new_ticket())
    end
    newly_queued = redis.call('ZADD', queue, 'NX', ticket, member)
    redis.call('PEXPIRE', queue, QUEUE_RETENTION)
    redis.call('HSET', asked, me, integer(now()), '', integer(now()))
    redis.call('PEXPIRE', asked, QUEUE_RETENTION)
    enter(lock, now(), QUEUE_RETENTION)
  end

  local known = remembered_lease(last_mode)
  if not owner and not held then
    if last.fence == 0 and ARGV[7] ~= '' and queueing ~= 'insist' then
      -- This waiter knew of a lease, and the server knows nothing: it lost its data. The holder may be alive and about to
      -- renew.
      return {'vanished', ticket}
    elseif known.owner and known.owner ~= me and known['until'] > now() then
      owner, held = known.owner, 'exclusive'
    end
  end

  -- Only a waiter that is alive keeps readers from one another.
  if first and first ~= member and held and admits(mode, take) then
    notify_first(left())
    first = first_waiter(last)
  end
  -- Waiters go first.
  if first and first ~= member and held ~= 'exclusive' then
    -- Nobody has the lock since the last lease ended, where that is known.
    last.claim = last.claim or known.owner and known['until'] or now()
    hand_over(last, queueing ~= 'once' and member)
    first = redis.call('ZRANGE', queue, 0, 0)[1]
    owner = redis.call('GET', lock)
  end
  if admits(mode, take) then
    if fence_after(last) > HIGHEST_FENCE then return {'exhausted', number} end
    if not first or first == member then return end
  end
  probe(last)
  local ahead = queueing == 'once' and redis.call('ZCARD', queue) or redis.call('ZRANK', queue, member)
  return {'busy', number, describe(), ahead or 0, ticket, newly_queued, last.claim and 1 or 0, count}
end

local function take()
  local fence = granted(grant(me, mode, metadata, ttl, last))
  if queueing ~= 'once' then
    dequeue(member)
  end
  set_min_hold(ARGV[8])
  if first and mode ~= 'exclusive' then
    hand_over_now(last)
  end
  if first then
    notify_first(held == 'exclusive' and ttl or left())
  end
  return fence
end
