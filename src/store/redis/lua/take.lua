-- Takes the locks, all or none; or says which one is not to be had, and who has it. ARGV 3: ttl, 4: metadata,
-- 5: 'once', 'queue' (take a place), or 'insist' (as 'queue', when the wait for a vanished lease is over), 6: the
-- ticket that the waiter has, or '', 7: the min-hold in milliseconds, 8: the kind. A place is for one lock alone.
local ttl, metadata, mode, ticket, kind = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], ARGV[8]
local member = me .. ' ' .. kind .. ' ' .. metadata
local newly_queued = 0
-- What is known of the last grant, as what it was, and who is the first in line.
local last, last_kind, first

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

-- The fence of a lock that is ours: handed over, or the answer to an earlier request was lost. The next in line is
-- told by a renewal, when the job has started.
local function confirm()
  first = nil
  if read_owner() == me then
    redis.call('PEXPIRE', lock, ttl)
    extend_lease(ttl)
    confirmed()
    keep_for(ARGV[7])
    return redis.call('HGET', state, 'fence') or grant(me, kind, metadata, ttl, last_grant())
  end
  local of_last = redis.call('HMGET', state, 'fence', 'keep', 'claim', 'kind')
  last = grant_of(of_last[1], of_last[2], of_last[3])
  last_kind = of_last[4]
  look(last_kind)
  local mine = several[me]
  if mine then
    local was_claim = mine.claim
    mine['until'], mine.ttl, mine.claim = now() + ttl, ttl, nil
    write(me)
    if was_claim then confirmed() end
    keep_for(ARGV[7])
    return mine.fence
  end
end

-- The answer where the lock is not to be had now, nil where it is.
local function refuse(number)
  -- One kind at a time, but for readers and writers.
  first = first_in_line(last)
  local there = held or first and kind_of(first)
  if there and there ~= kind and (string.match(there, '^permits') or string.match(kind, '^permits')) then
    return {'kind', number, there}
  end

  if mode ~= 'once' then
    if ticket == '' then
      local latest = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
      ticket = integer(math.max((tonumber(latest) or 0) + 1, now() * 1000))
    end
    newly_queued = redis.call('ZADD', queue, 'NX', ticket, member)
    redis.call('PEXPIRE', queue, QUEUE_RETENTION)
    redis.call('HSET', asked, me, integer(now()), '', integer(now()))
    redis.call('PEXPIRE', asked, QUEUE_RETENTION)
  end

  -- The last exclusive lease.
  local known = {}
  if not owner and not held then
    if last_kind == 'exclusive' then
      known = read_lease()
    end
    if last.fence == 0 and ARGV[6] ~= '' and mode ~= 'insist' then
      -- This waiter knew of a lease, and the store knows nothing: it lost its data. The holder may be
      -- alive and about to renew.
      return {'vanished', ticket}
    elseif known.owner and known.owner ~= me and known['until'] > now() then
      -- The key was removed, not released and not expired: its owner may be alive and about to renew.
      owner, held = known.owner, 'exclusive'
    end
  end

  -- Those in line go first.
  if first and first ~= member and held ~= 'exclusive' then
    -- Nobody has it since the last lease ended, where that is known.
    last.claim = last.claim or known.owner and known['until'] or now()
    hand_over(last, mode ~= 'once' and member)
    first = redis.call('ZRANGE', queue, 0, 0)[1]
    owner = redis.call('GET', lock)
  end
  if admits(kind) and (not first or first == member) then
    if next_fence(last) <= HIGHEST_FENCE then return end
    return {'exhausted', number}
  end
  probe(last)
  local ahead = mode == 'once' and redis.call('ZCARD', queue) or redis.call('ZRANK', queue, member)
  return {'busy', number, describe(), ahead or 0, ticket, newly_queued, last.claim and 1 or 0}
end

local function take()
  local fence = grant(me, kind, metadata, ttl, last)
  if mode ~= 'once' then
    leave_line(member)
  end
  keep_for(ARGV[7])
  if first and kind ~= 'exclusive' then
    pass_on(last)
  end
  if first then
    tell_first(held == 'exclusive' and ttl or left())
  end
  return fence
end

local answer = {'granted'}
for number = 1, #KEYS / 7 do
  turn_to(number)
  answer[number + 1] = confirm() or false
  local refusal = not answer[number + 1] and refuse(number)
  if refusal then return refusal end
end
for number = 1, #KEYS / 7 do
  if #KEYS > 7 and not answer[number + 1] then
    turn_to(number)
    confirm()
  end
  answer[number + 1] = answer[number + 1] or take()
end
return answer
