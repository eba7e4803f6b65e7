-- Replaces a record if it is the one that the caller saw; a waiter's mark does not count.
-- KEYS: record. ARGV: record as seen, without a mark, empty if none; record to write, empty to delete; its time to
-- live; longest time to live that the seen record may have, empty if any; channel; how to publish.
-- Answers 1 if it was replaced, 0 if it lives longer than that, else the record as it is.
local now = redis.call('GET', KEYS[1])
local marked = now and string.byte(now, 3) == 1
local bare = now
if marked then
  bare = string.sub(now, 1, 2) .. '\0' .. string.sub(now, 4)
end
if (bare or '') ~= ARGV[1] then
  return now
end
if ARGV[4] ~= '' and redis.call('PTTL', KEYS[1]) > tonumber(ARGV[4]) then
  return 0
end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  -- A server that is full refuses the first command that takes memory, but not a later one.
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
if marked then
  -- Those who wait also poll: a refused notification is no reason to fail.
  redis.pcall(ARGV[6], ARGV[5], KEYS[1])
end
return 1
