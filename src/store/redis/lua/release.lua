-- Gives the locks back. ARGV 3: the place in their queues to leave, which also cancels the grants: then their
-- min-hold does not count; or ''. ARGV 4, of a quorum only: what those hear who wait for a lock that is given
-- back. Returns for each lock 0 when this token did not hold it, 1 when it did, 2 when it was handed over to another.
local member, hint = ARGV[3], ARGV[4]

local function release()
  if hint then
    local value = redis.call('GET', lock)
    if value == me or value == 'broken:' .. me or redis.call('HGET', holders, me) then
      redis.call('PUBLISH', channel('quorum:' .. lock), hint)
    end
  end
  local was_first = member ~= '' and redis.call('ZRANK', queue, member) == 0
  if member ~= '' then
    leave_line(member)
  end
  if read_owner() == 'broken:' .. me then
    -- Its owner has stopped: the break is complete.
    return set_free() and 2 or 1
  end
  if owner == me then
    local last = last_grant()
    local keep = last.keep and member == '' and last.keep - now() or 0
    if keep > 0 then
      -- Nobody's any more: only the time holds it.
      redis.call('SET', lock, 'released:' .. me, 'PX', integer(keep))
      local known = read_lease()
      if known.owner then
        write_lease(keep, known.since, 'released:' .. me, known.metadata)
      end
      redis.call('HSET', state, 'kind', '')
      tell_first(keep)
    else
      return set_free(last) and 2 or 1
    end
    return 1
  end

  look(redis.call('HGET', state, 'kind'))
  local mine = several[me]
  if mine then
    if not mine.broken and member == '' and (mine.keep or 0) > now() then
      redis.call('HDEL', holders, me)
      mine['until'] = mine.keep
      several['released:' .. me], several[me] = mine, nil
      write('released:' .. me)
      tell_first(left())
      return 1
    end
    return leave(me) and 2 or 1
  end
  if not owner and read_lease().owner == me then
    -- Removed behind our back: those in line need not wait for the end of the lease.
    set_free()
  elseif was_first then
    -- Who is the first now may be let in, or has to look after the holder.
    if held and held ~= 'exclusive' then
      pass_on(last_grant())
    end
    tell_first()
  end
  return 0
end

-- One that cannot be given back does not keep the others.
local answers, failed = {}, nil
for number = 1, #KEYS / 7 do
  turn_to(number)
  local done, answer = pcall(release)
  answers[number] = done and answer or 0
  failed = failed or not done and answer
end
if failed then
  return redis.error_reply(type(failed) == 'table' and failed.err or failed)
end
return answers
