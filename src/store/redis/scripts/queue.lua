-- What every script begins with. KEYS: four for each lock, namely the lock, its state, its queue, its holders.
-- ARGV 1 and 2: the wall clock of the caller in microseconds, the owner token.
--
-- lock     string with a PX expiry. Of an exclusive lock the owner token: the format of the Redis documentation,
--          which other libraries share. "broken:" before the token: broken, and its owner has not stopped yet;
--          "released:": given back before the end of its min-hold. "shared:" and "permits:N": held by several.
-- state    hash: what redlock knows of the last exclusive grant (owner, since, until, ttl, metadata; times in
--          milliseconds), of the last grant (fence, kind), and of some fences and times before: "exclusive", the
--          fence of the last exclusive grant; "broken", the last one that was taken away at once; "keep", the end
--          of the min-hold; "restarted", when the first of several found that the server had lost its data.
--          "owner" goes with the release, "fence" stays.
-- queue    sorted set: "token kind metadata" by ticket. Tickets grow, so the order is that of arrival.
-- holders  hash: of a lock that several hold, what is known of each, as JSON by owner token.

local clock, me = tonumber(ARGV[1]), ARGV[2]

-- For a week after the last grant the fencing counter is kept; after that the wall clock makes the
-- tokens grow.
local RETENTION = 604800000
-- How long a lock that was handed over waits for its new holder to confirm.
local CLAIM = 3000
-- A queue that no waiter has asked about for a minute is forgotten.
local QUEUE_RETENTION = 60000

-- The lock that is looked at, and the prefix of the channels on which its waiters listen.
local lock, state, queue, holders, channel
-- The value of the lock; how it is held: nil, "exclusive", "shared:" or "permits:N"; and by whom, if by several.
local owner, held, several, count

local function turn_to(number)
  lock, state, queue, holders = unpack(KEYS, 4 * number - 3, 4 * number)
  channel = string.match(queue, '^redlock:{[^}]*}:') .. 'wake:'
  owner, held, several, count = nil, nil, {}, 0
end
turn_to(1)

local function integer(number)
  return string.format('%.0f', number)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function token_of(member)
  return string.match(member, '^%S+') or member
end

local function kind_of(member)
  local kind = string.match(member, '^%S+ (%S+)')
  return (kind == 'shared:' or kind and string.match(kind, '^permits:%d+$')) and kind or 'exclusive'
end

local function metadata_of(member)
  return string.match(member, '^%S+ %S+ (.*)$') or ''
end

-- Looks who holds the lock. `last_kind` is that of the last grant, for a lock that somebody removed.
local function look(last_kind)
  owner = redis.call('GET', lock)
  local kind = owner or last_kind
  if not kind or not (kind == 'shared:' or string.match(kind, '^permits:%d+$')) then
    held = owner and 'exclusive'
    return
  end
  local all, time = redis.call('HGETALL', holders), now()
  for i = 1, #all, 2 do
    local holder = cjson.decode(all[i + 1])
    if holder['until'] > time then
      several[all[i]] = holder
      count = count + 1
    else
      redis.call('HDEL', holders, all[i])
    end
  end
  held = count > 0 and kind or nil
  if not held then
    owner = false
  end
end

-- What is left of the leases of several holders: of readers until the last one ends, of permits until the first.
local function left()
  local latest, first = 0, nil
  for _, holder in pairs(several) do
    latest = math.max(latest, holder['until'])
    first = math.min(first or holder['until'], holder['until'])
  end
  return math.max((held == 'shared:' and latest or first or 0) - now(), 0), latest
end

-- Writes down one of several holders. The lock lasts as long as the longest of their leases.
local function write(token)
  local holder = several[token]
  local _, latest = left()
  redis.call('SET', lock, held, 'PX', integer(math.max(latest - now(), 1)))
  redis.call('HSET', holders, token, cjson.encode(holder))
  redis.call('PEXPIRE', holders, RETENTION)
end

local function admits(kind)
  if not held then return true end
  if held == 'exclusive' or kind ~= held then return false end
  return held == 'shared:' or count < tonumber(string.match(held, '%d+'))
end

-- What is known of the last grant: its fence, and the time before which a release leaves the lock to its time.
local function last_grant()
  local known = redis.call('HMGET', state, 'fence', 'keep')
  return {fence = tonumber(known[1]) or 0, keep = tonumber(known[2])}
end

local function grant(token, kind, metadata, ttl, last)
  local fence = integer(math.max(last.fence + 1, clock))
  local since = now()
  -- The first write of the script is one that a server without memory refuses: after another one it would
  -- let everything pass.
  if kind == 'exclusive' then
    redis.call('SET', lock, token, 'PX', ttl)
    redis.call('HSET', state, 'owner', token, 'fence', fence, 'since', integer(since), 'kind', kind,
      'until', integer(since + ttl), 'ttl', integer(ttl), 'metadata', metadata, 'exclusive', fence)
  else
    several[token] = {fence = fence, since = since, ['until'] = since + ttl, ttl = ttl, metadata = metadata}
    count = count + 1
    held = kind
    write(token)
    redis.call('HSET', state, 'fence', fence, 'kind', kind)
    redis.call('HDEL', state, 'owner', 'until')
  end
  held, last.fence = kind, tonumber(fence)
  if last.keep then
    redis.call('HDEL', state, 'keep')
  end
  redis.call('PEXPIRE', state, RETENTION)
  return fence
end

-- Tells the first in line how long the lease lasts, so that it need not ask; without a ttl, to ask.
-- PUBLISH answers how many received it: nobody does when the waiter is dead.
local function tell_first(ttl)
  local news = ttl and integer(ttl) or 'ask'
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first then return end
    if redis.call('PUBLISH', channel .. token_of(first), news) > 0 then return end
    redis.call('ZREM', queue, first)
  end
end

-- Gives the lock to the first waiters that are alive, as many as there is room for, and wakes them. Their leases
-- are short until they confirm; that also tells the next one that it is the first now. Stops before the member
-- `mine`. Returns whether anybody was served.
local function hand_over(last, mine)
  local served = false
  while true do
    local first
    if held or mine then
      first = redis.call('ZRANGE', queue, 0, 0)[1]
      if not first or first == mine or not admits(kind_of(first)) then return served end
      redis.call('ZREM', queue, first)
    else
      first = redis.call('ZPOPMIN', queue)[1]
      if not first then return served end
    end
    local token, kind = token_of(first), kind_of(first)
    if redis.call('PUBLISH', channel .. token, 'ask') > 0 then
      grant(token, kind, metadata_of(first), CLAIM, last)
      served = true
      if kind == 'exclusive' then return true end
    end
  end
end

-- The lock is free for the next one.
local function set_free(last)
  held = nil
  if not hand_over(last or last_grant()) then
    redis.call('DEL', lock)
    redis.call('HDEL', state, 'owner', 'until', 'keep')
  end
end

-- One of several holders is gone.
local function leave(token)
  redis.call('HDEL', holders, token)
  several[token] = nil
  count = count - 1
  if count == 0 then
    set_free()
  else
    hand_over(last_grant())
  end
end

-- One of several holders: metadata, fence, since, what is left, ttl, broken.
local function describe_one(holder)
  return {holder.metadata, holder.fence, integer(holder.since), math.max(holder['until'] - now(), 0),
    integer(holder.ttl), holder.broken and 1 or 0}
end

-- Who holds the lock, as in `describe_one`: metadata '' for one that is not a redlock, what is left -1 for a lease
-- that never expires. Of several it is the one whose lease decides how long the lock is held.
local function describe()
  local one
  for _, holder in pairs(several) do
    local later = one and holder['until'] > one['until']
    if not one or later == (held == 'shared:') then
      one = holder
    end
  end
  if one then return describe_one(one) end
  local known = redis.call('HMGET', state, 'owner', 'metadata', 'fence', 'since', 'ttl', 'until')
  local broken = string.match(owner, '^broken:(.*)$')
  local left = redis.call('PTTL', lock)
  if left == -2 then
    left = math.max(tonumber(known[6] or 0) - now(), 0)
  end
  if known[1] and (owner == known[1] or broken == known[1]) then
    return {known[2] or '', known[3] or '', known[4] or '', left, known[5] or '0', broken and 1 or 0}
  end
  return {'', '', '', left, '0', 0}
end
