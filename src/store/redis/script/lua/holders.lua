-- The functions that the scripts share, here about the lock and who holds it, in queue.lua about who waits. Making them
-- costs the server more than the commands of a simple script, so acquire_quick.lua and release_quick.lua do the usual
-- cases before.

local me = ARGV[2]

-- The names of the keys of the selected lock.
local lock, state, lease, queue, holders, asked, claimed
-- The value of the lock; its mode while it is held: "exclusive", "shared:" or "permits:N"; the holders of a shared lock or
-- a semaphore by their tokens, and their number; the number of permits that they have.
local owner, held, held_by, count, used

local function is_semaphore(mode)
  return string.match(mode or '', '^permits:%d+$')
end

-- The value of a lock is a mark, not an owner token.
local function is_mark(word)
  return word == 'shared:' or is_semaphore(word) or string.match(word, '^broken:')
    or string.match(word, '^released:')
end
if string.find(me, ':', 1, true) and is_mark(me) then
  return redis.error_reply('ERR no owner token')
end

local function select_lock(number)
  lock, state, lease, queue, holders, asked, claimed = unpack(KEYS, KEYS_OF_A_LOCK * (number - 1) + 1, KEYS_OF_A_LOCK * number)
  owner, held, held_by, count, used = nil, nil, {}, 0, 0
end
select_lock(1)

local function integer(number)
  return string.format('%.0f', number)
end

-- The name of a channel that waiters subscribe to.
local function channel(name)
  return string.match(queue, '^redlock:{[^}]*}:') .. 'wake:' .. name
end

-- In milliseconds; the same throughout a script.
local time, moment
local function now()
  if not time then
    time = redis.call('TIME')
    moment = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return moment
end

local function token_of(member)
  return string.match(member, '^%S+') or member
end

local function mode_of(member)
  local mode = string.match(member, '^%S+ (%S+)')
  return (mode == 'shared:' or is_semaphore(mode)) and mode or 'exclusive'
end

local function metadata_of(member)
  return string.match(member, '^%S+ %S+ (.*)$') or ''
end

local function read_owner()
  if owner == nil then
    owner = redis.call('GET', lock)
  end
  return owner
end

-- The metadata of a request for permits. Any user of the server may have written them.
local function request_of(metadata)
  local is_read, request = pcall(cjson.decode, metadata)
  return is_read and type(request) == 'table' and request or {}
end

-- The number of permits that a request with these metadata wants.
local function take_of(mode, metadata)
  local take = is_semaphore(mode) and tonumber(request_of(metadata).take)
  return take and take >= 1 and take <= MOST_PERMITS and math.floor(take) or 1
end

local function capacity(mode)
  return tonumber(string.match(mode, '%d+'))
end

-- The number of permits of one of `held_by`.
local function permits_of(holder)
  return holder.permits and #holder.permits or 1
end

-- The numbers of all permits that are held.
local function numbers_held()
  local numbers = {}
  for _, holder in pairs(held_by) do
    for _, permit in ipairs(holder.permits or {}) do
      numbers[permit] = true
    end
  end
  return numbers
end

-- Reads who holds the lock. `last_mode` is the mode of the last grant, for a lock that another program removed.
local function read_holders(last_mode)
  read_owner()
  local mode = owner or last_mode
  if mode ~= 'shared:' and not is_semaphore(mode) then
    held = owner and 'exclusive'
    return
  end
  local all, time = redis.call('HGETALL', holders), now()
  for i = 1, #all, 2 do
    local holder = cjson.decode(all[i + 1])
    if holder['until'] > time then
      held_by[all[i]] = holder
      count, used = count + 1, used + permits_of(holder)
    else
      redis.call('HDEL', holders, all[i])
    end
  end
  held = count > 0 and mode or nil
  if not held then
    owner = false
  end
end

-- The time left of the leases in `held_by`: until the last one ends for a shared lock, the first for a semaphore.
local function left()
  local latest, first = 0, nil
  for _, holder in pairs(held_by) do
    latest = math.max(latest, holder['until'])
    first = math.min(first or holder['until'], holder['until'])
  end
  return math.max((held == 'shared:' and latest or first or 0) - now(), 0), latest
end

-- Writes one of `held_by`. The lock lasts as long as the longest of their leases.
local function write_holder(token)
  local holder = held_by[token]
  local _, latest = left()
  redis.call('SET', lock, held, 'PX', integer(math.max(latest - now(), 1)))
  redis.call('HSET', holders, token, cjson.encode(holder))
  redis.call('PEXPIRE', holders, RETENTION)
end

local function admits(mode, take)
  if not held then return not is_semaphore(mode) or take <= capacity(mode) end
  if held == 'exclusive' or mode ~= held then return false end
  return held == 'shared:' or used + take <= capacity(held)
end

-- The last grant, from the fields "fence", "keep", "claim" and "permits" of the state.
local function grant_of(fence, keep, claim, permits)
  local since, probed = string.match(claim or '', '^(%d+) ?(%d*)')
  return {fence = tonumber(fence) or 0, keep = tonumber(keep), claim = tonumber(since), probed = tonumber(probed),
    permits = tonumber(permits)}
end

-- The last grant: its fence, the end of its min-hold, since when it is an unconfirmed claim, and how many permits there are
-- since `redlock resize`.
local function last_grant()
  return grant_of(unpack(redis.call('HMGET', state, 'fence', 'keep', 'claim', 'permits')))
end

-- The mode of a grant to a request in this mode: the permits of a semaphore may have changed since it was made.
local function current(mode, last)
  if not is_semaphore(mode) then return mode end
  if is_semaphore(held) then return held end
  return last.permits and 'permits:' .. integer(last.permits) or mode
end

local function fence_after(last)
  now()
  return next_fence(last.fence, time)
end

local function leave()
  if INDEX ~= '' then
    redis.pcall('ZREM', INDEX, lock)
  end
end

-- Keeps the state for as long as it counts behind a lease of this length, which begins now.
local function remember(fence, ttl)
  enter(lock, now(), ttl)
  redis.call('PEXPIRE', state, integer(RETENTION + 2 * SLOT + math.max(ttl, fence / 1000 - now())))
end

-- The last exclusive lease; without an owner when it is not known.
local function read_lease()
  local words = redis.call('GET', lease) or ''
  local ends, ttl, since, token, metadata = string.match(words, '^(%d+) (%d+) (%d+) (%S+) (.*)$')
  return {['until'] = tonumber(ends) or 0, ttl = ttl, since = since, owner = token, metadata = metadata}
end

-- The last exclusive lease where another program removed the key: the owner may be alive, and about to renew. `mode` is the
-- mode of the last grant.
local function remembered_lease(mode)
  return mode == 'exclusive' and not owner and not held and read_lease() or {['until'] = 0}
end

-- Extends the lease, which may have another owner from now on.
local function extend_lease(ttl, holder)
  local known = read_lease()
  if known.owner then
    write_lease(lease, now(), ttl, known.since, holder or known.owner, known.metadata)
  end
end

-- The value of "claim".
local function claim_of(last)
  return integer(last.claim) .. (last.probed and ' ' .. integer(last.probed) or '')
end

-- The claim is confirmed, unless one of `held_by` is left to confirm its own.
local function confirmed()
  for _, holder in pairs(held_by) do
    if holder.claim then return end
  end
  if redis.call('HDEL', state, 'claim') == 1 then
    redis.call('LPUSH', claimed, 1)
    redis.call('PEXPIRE', claimed, 1000)
  end
end

-- Grants the lock. A claim is a grant to a waiter, which has to confirm it.
local function grant(token, mode, metadata, ttl, last, claim)
  local number = fence_after(last)
  local fence = integer(number)
  local since = now()
  -- The first write of the script is SET, which a server without memory refuses. After a write that it does not refuse,
  -- the server would accept the others as well.
  if mode == 'exclusive' then
    redis.call('SET', lock, token, 'PX', ttl)
    record(state, lease, last.fence, number, token, metadata, since, ttl, claim and claim_of(last))
  else
    local permits, take = nil, take_of(mode, metadata)
    if mode ~= 'shared:' then
      -- The lowest numbers that no other holder has.
      local taken, permit = numbers_held(), 0
      permits = {}
      while #permits < take do
        if not taken[permit] then
          permits[#permits + 1] = permit
        end
        permit = permit + 1
      end
    end
    held_by[token] = {fence = fence, since = since, ['until'] = since + ttl, ttl = ttl, metadata = metadata,
      claim = claim, permits = permits}
    count, used = count + 1, used + take
    held = mode
    write_holder(token)
    redis.call('HSET', state, 'fence', fence, 'kind', mode, unpack(claim and {'claim', claim_of(last)} or {}))
    redis.call('DEL', lease)
  end
  held, last.fence = mode, number
  if last.keep then
    redis.call('HDEL', state, 'keep')
  end
  if last.claim and not claim then
    confirmed()
  end
  remember(number, ttl)
  return fence
end

local function drop_holder(token)
  redis.call('HDEL', holders, token)
  count, used = count - 1, used - permits_of(held_by[token])
  held_by[token] = nil
end

-- Describes one of `held_by`: metadata, fence, since, what is left, ttl, who broke it or '', 1 if it was released and
-- its min-hold keeps it, the numbers of its permits.
local function describe_one(holder)
  return {holder.metadata, holder.fence, integer(holder.since), math.max(holder['until'] - now(), 0),
    integer(holder.ttl), holder.broken or '', holder.released and 1 or 0,
    table.concat(holder.permits or {}, ',')}
end

-- Describes the holder as `describe_one` does: metadata '' for a holder that is not a redlock, what is left -1 for a
-- lease that never expires. The one of `held_by` whose lease decides how long the lock is held. `fence` is that of the last
-- grant, if it was read before.
local function describe(fence)
  local one
  for _, holder in pairs(held_by) do
    local later = one and holder['until'] > one['until']
    if not one or later == (held == 'shared:') then
      one = holder
    end
  end
  if one then return describe_one(one) end
  local known = read_lease()
  local broken = string.match(owner, '^broken:(.*)$')
  local left = redis.call('PTTL', lock)
  if left == -2 then
    left = math.max(known['until'] - now(), 0)
  end
  if known.owner and (owner == known.owner or broken == known.owner) then
    fence = fence or redis.call('HGET', state, 'fence')
    local breaker = broken and (redis.call('HGET', state, 'breaker') or '?') or ''
    local released = string.sub(owner, 1, 9) == 'released:' and 1 or 0
    return {known.metadata, fence or '', known.since, left, known.ttl, breaker, released}
  end
  return {'', '', '', left, '0', '', 0}
end
