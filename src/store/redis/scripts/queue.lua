-- What every script begins with. KEYS: seven for each lock, namely those that are listed here, in this order.
-- ARGV 1 and 2: the wall clock of the caller in microseconds, the owner token.
--
-- lock     string with a PX expiry. Of an exclusive lock the owner token: the format of the Redis documentation,
--          which other libraries share. "broken:" before the token: broken, and its owner has not stopped yet;
--          "released:": given back before the end of its min-hold. "shared:" and "permits:N": held by several.
-- state    hash: of the last grant the fence and the kind, '' when it was given back; "exclusive", when one was; the
--          fence of the last one that was taken away at once ("broken"). For a while: "keep", the end of the min-hold;
--          "restarted", when the first of several found that the server had lost its data; "claim", while nobody has
--          confirmed that it got the lock: since when nobody has it, and when all in line were asked to show
--          themselves. Times are in milliseconds. It outlives the lock, and so is small.
-- lease    string: "until ttl since owner metadata" of the last exclusive lease. It goes with the release, or a little
--          after the end of the lease.
-- queue    sorted set: "token kind metadata" by ticket. Tickets grow, so the order is that of arrival.
-- holders  hash: of a lock that several hold, what is known of each, as JSON by owner token.
-- asked    hash: when each in line asked last, by owner token, and any of them, by ''. In milliseconds.
-- claimed  list: filled for a second when who got the lock has confirmed that, for who gave it back.

local clock, me = tonumber(ARGV[1]), ARGV[2]

-- The fencing counter is kept for a day behind its lease, and until the clock of the server has come to it. After
-- that the clocks make the tokens grow: the server's less half a day, should the requester's be far behind.
local RETENTION = 86400000
-- So long after its end a lease is remembered.
local AFTERWARDS = 10000
-- How long a lock waits for those to whom it is handed over, all in all, and the last of them for sure.
local CLAIM, LAST_CLAIM = 2500, 500
-- A claim is confirmed sooner than this, or doubted: all in line are asked to show themselves, in so much time.
local DOUBT, ANSWER = 300, 200
-- Two of the intervals at which a waiter asks: see `fallback` in waiter.rs.
local MISSED = 12500
-- A queue that no waiter has asked about for a minute is forgotten.
local QUEUE_RETENTION = 60000
-- Numbers in Lua are exact up to here.
local HIGHEST_FENCE = 9007199254740991

-- The lock that is looked at.
local lock, state, lease, queue, holders, asked, claimed
-- The value of the lock; how it is held: nil, "exclusive", "shared:" or "permits:N"; and by whom, if by several.
local owner, held, several, count

-- What stands where owner tokens do, and is none.
local function is_mark(word)
  return word == 'shared:' or string.match(word, '^permits:%d+$') or string.match(word, '^broken:')
    or string.match(word, '^released:')
end
if string.find(me, ':', 1, true) and is_mark(me) then
  return redis.error_reply('ERR no owner token')
end

local function turn_to(number)
  lock, state, lease, queue, holders, asked, claimed = unpack(KEYS, 7 * number - 6, 7 * number)
  owner, held, several, count = nil, nil, {}, 0
end
turn_to(1)

local function integer(number)
  return string.format('%.0f', number)
end

-- A channel on which waiters listen.
local function channel(name)
  return string.match(queue, '^redlock:{[^}]*}:') .. 'wake:' .. name
end

-- In milliseconds; a script is one moment.
local moment
local function now()
  if not moment then
    local time = redis.call('TIME')
    moment = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return moment
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

local function read_owner()
  if owner == nil then
    owner = redis.call('GET', lock)
  end
  return owner
end

-- Looks who holds the lock. `last_kind` is that of the last grant, for a lock that somebody removed.
local function look(last_kind)
  read_owner()
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

-- What the values of "fence", "keep" and "claim" say.
local function grant_of(fence, keep, claim)
  local since, probed = string.match(claim or '', '^(%d+) ?(%d*)')
  return {fence = tonumber(fence) or 0, keep = tonumber(keep), claim = tonumber(since), probed = tonumber(probed)}
end

-- What is known of the last grant: its fence, the time before which a release leaves the lock to its time, and since
-- when nobody has confirmed it.
local function last_grant()
  return grant_of(unpack(redis.call('HMGET', state, 'fence', 'keep', 'claim')))
end

local function next_fence(last)
  return math.max(last.fence + 1, clock, (now() - RETENTION / 2) * 1000)
end

-- Keeps what is known for as long as it counts behind a lease of this length.
local function remember(fence, ttl)
  redis.call('PEXPIRE', state, integer(RETENTION + math.max(ttl, fence / 1000 - now())))
end

-- The last exclusive lease, as far as it is known.
local function read_lease()
  local known = {}
  known['until'], known.ttl, known.since, known.owner, known.metadata =
    string.match(redis.call('GET', lease) or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
  known['until'] = tonumber(known['until']) or 0
  return known
end

-- Writes down an exclusive lease of this length from now on.
local function write_lease(ttl, since, holder, metadata)
  local words = {integer(now() + ttl), integer(ttl), since, holder, metadata}
  redis.call('SET', lease, table.concat(words, ' '), 'PX', integer(ttl + AFTERWARDS))
end

local function extend_lease(ttl)
  local known = read_lease()
  if known.owner then
    write_lease(ttl, known.since, known.owner, known.metadata)
  end
end

-- The value of "claim".
local function claim_of(last)
  return integer(last.claim) .. (last.probed and ' ' .. integer(last.probed) or '')
end

-- Grants the lock. A claim is a grant to one who has not asked for it now.
local function grant(token, kind, metadata, ttl, last, claim)
  local number = next_fence(last)
  local fence = integer(number)
  local since = now()
  local mark = claim and {'claim', claim_of(last)} or {}
  -- The first write of the script is one that a server without memory refuses: after another one it would
  -- let everything pass.
  if kind == 'exclusive' then
    redis.call('SET', lock, token, 'PX', ttl)
    redis.call('HSET', state, 'fence', fence, 'kind', kind, 'exclusive', 1, unpack(mark))
    write_lease(ttl, integer(since), token, metadata)
  else
    several[token] = {fence = fence, since = since, ['until'] = since + ttl, ttl = ttl, metadata = metadata,
      claim = claim}
    count = count + 1
    held = kind
    write(token)
    redis.call('HSET', state, 'fence', fence, 'kind', kind, unpack(mark))
    redis.call('DEL', lease)
  end
  held, last.fence = kind, number
  if last.keep then
    redis.call('HDEL', state, 'keep')
  end
  if last.claim and not claim then
    redis.call('HDEL', state, 'claim')
  end
  remember(number, ttl)
  return fence
end

local function leave_line(member)
  redis.call('ZREM', queue, member)
  redis.call('HDEL', asked, token_of(member))
end

-- The first in line. Those who missed two intervals are gone, unless nobody could ask; so are those who stayed silent
-- when a claim was not confirmed and all were asked to show themselves. One that comes back all the same has its ticket.
local function first_in_line(last)
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first then return end
    local times = redis.call('HMGET', asked, token_of(first), '')
    local time, since = tonumber(times[1]), (tonumber(times[2]) or 0) - MISSED
    if last and last.probed and now() >= math.max(last.claim + CLAIM, last.probed + ANSWER) then
      since = math.max(since, last.claim)
    end
    if not time or time >= since then return first end
    leave_line(first)
  end
end

-- PUBLISH answers how many received it: nobody does when the waiter is dead.
local function tell(member, news)
  return redis.call('PUBLISH', channel(token_of(member)), news) > 0
end

-- Tells the first in line how long the lease lasts, so that it need not ask; without a ttl, to ask.
local function tell_first(ttl)
  local news = ttl and integer(ttl) or 'ask'
  while true do
    local first = first_in_line()
    if not first or tell(first, news) then return end
    leave_line(first)
  end
end

-- Who gave the lock and who got it may vanish together, and those in line would wait for both. So the next and the last
-- of them look after the grant a little later: the next unless it is told by then how long the lease lasts.
local function set_watch()
  local member
  for _, place in ipairs({0, -1}) do
    local before, is_told = member, nil
    repeat
      member = redis.call('ZRANGE', queue, place, place)[1]
      is_told = not member or member == before or tell(member, 'watch')
      if not is_told then
        leave_line(member)
      end
    until is_told
  end
end

-- Gives the lock to the first waiters that are alive, as many as there is room for, and wakes them. Their leases
-- are short until they confirm. Stops before the member `mine`. `last.claim` is since when nobody has the lock, if not
-- since now. Returns whether anybody was served.
local function hand_over(last, mine)
  local served = false
  while true do
    local first = first_in_line(last)
    if not first or first == mine or not admits(kind_of(first)) or next_fence(last) > HIGHEST_FENCE then break end
    last.claim = last.claim or now()
    leave_line(first)
    local kind = kind_of(first)
    if tell(first, 'ask') then
      local ttl = math.max(last.claim + CLAIM - now(), LAST_CLAIM)
      grant(token_of(first), kind, metadata_of(first), ttl, last, true)
      served = true
      if kind == 'exclusive' then break end
    end
  end
  if served then
    set_watch()
  end
  return served
end

-- Who held the lock gives it back.
local function pass_on(last)
  last.claim, last.probed = nil, nil
  return hand_over(last)
end

-- The claim of this token is confirmed.
local function confirmed()
  for _, holder in pairs(several) do
    if holder.claim then return end
  end
  if redis.call('HDEL', state, 'claim') == 1 then
    redis.call('LPUSH', claimed, 1)
    redis.call('PEXPIRE', claimed, 1000)
  end
end

-- When nobody has confirmed a claim in time, all in line are asked to show themselves, once.
local function probe(last)
  if not last.claim or last.probed or now() < last.claim + DOUBT then return end
  last.probed = now()
  redis.call('HSET', state, 'claim', claim_of(last))
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    if token_of(member) ~= me and not tell(member, 'ask') then
      leave_line(member)
    end
  end
end

-- python-redis-lock, whose lock NAME is the key lock:NAME, waits for this list. Its user may not be permitted to write
-- it, and in a cluster it may be elsewhere.
local function signal()
  local name = string.match(lock, '^lock:(.*)$')
  if name then
    name = 'lock-signal:' .. name
    if type(redis.pcall('DEL', name)) == 'number' then
      redis.pcall('LPUSH', name, 1)
      redis.pcall('PEXPIRE', name, 1000)
    end
  end
end

-- The lock is free for the next one. Returns whether there is one.
local function set_free(last)
  held, last = nil, last or last_grant()
  local is_marked = last.keep or last.claim
  if pass_on(last) then return true end
  redis.call('DEL', lock, lease)
  if last.fence > 0 then
    redis.call('HSET', state, 'kind', '')
  end
  if is_marked then
    redis.call('HDEL', state, 'keep', 'claim')
  end
  signal()
  return false
end

-- One of several holders is gone. Returns whether another one is served instead.
local function leave(token)
  redis.call('HDEL', holders, token)
  several[token] = nil
  count = count - 1
  if count == 0 then
    return set_free()
  end
  return pass_on(last_grant())
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
  local known = read_lease()
  local broken = string.match(owner, '^broken:(.*)$')
  local left = redis.call('PTTL', lock)
  if left == -2 then
    left = math.max(known['until'] - now(), 0)
  end
  if known.owner and (owner == known.owner or broken == known.owner) then
    local fence = redis.call('HGET', state, 'fence')
    return {known.metadata, fence or '', known.since, left, known.ttl, broken and 1 or 0}
  end
  return {'', '', '', left, '0', 0}
end
