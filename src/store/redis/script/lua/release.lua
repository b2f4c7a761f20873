-- Releases the locks. ARGV 4: the member of their queues to remove, which also cancels the grants, so that their min-hold
-- does not count; or ''. ARGV 5, of a quorum only: the hint for those who wait for a lock that is released. Returns for
-- each lock 0 when this token did not hold it, 1 when it did, 2 when it was handed over to another, 3 when it was gone and this
-- token was the last that held it.
local member, hint = ARGV[4], ARGV[5]

local function release()
  local was_first = member ~= '' and redis.call('ZRANK', queue, member) == 0
  if member ~= '' then
    dequeue(member)
  end
  if read_owner() == 'broken:' .. me then
    -- Its owner has stopped: the break is complete.
    redis.call('HDEL', state, 'breaker')
    return free() and 2 or 1
  end
  if owner == me then
    local last = last_grant()
    local keep = last.keep and member == '' and last.keep - now() or 0
    if keep <= 0 then
      return free(last) and 2 or 1
    end
    -- Nobody holds it any more, and it ends with its expiry.
    redis.call('SET', lock, 'released:' .. me, 'PX', integer(keep))
    local known = read_lease()
    if known.owner then
      write_lease(keep, known.since, 'released:' .. me, known.metadata)
    end
    redis.call('HSET', state, 'kind', '')
    notify_first(keep)
    return 1
  end

  read_holders(redis.call('HGET', state, 'kind'))
  local mine = held_by[me]
  if mine then
    if not mine.broken and member == '' and (mine.keep or 0) > now() then
      redis.call('HDEL', holders, me)
      mine['until'], mine.released = mine.keep, true
      held_by['released:' .. me], held_by[me] = mine, nil
      write_holder('released:' .. me)
      notify_first(left())
      return 1
    end
    return remove_holder(me) and 2 or 1
  end
  if not owner and read_lease().owner == me then
    -- Another program removed the lock: the waiters need not wait for the end of the lease.
    free()
    return 3
  elseif was_first then
    -- The next waiter may be let in, or has to watch the holder.
    if held and held ~= 'exclusive' then
      hand_over_now(last_grant())
    end
    notify_first()
  end
  return 0
end

if is_handed_over then
  notify_watchers()
  return {2}
end

-- A lock that cannot be released does not keep the others.
local answers, failed = {}, nil
for number = 1, #KEYS / KEYS_OF_A_LOCK do
  select_lock(number)
  local done, answer = pcall(release)
  answers[number] = done and answer or 0
  if hint and answers[number] > 0 then
    redis.call('PUBLISH', channel('quorum:' .. lock), hint)
  end
  failed = failed or not done and answer
end
if failed then
  return redis.error_reply(type(failed) == 'table' and failed.err or failed)
end
return answers
