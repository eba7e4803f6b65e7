-- Extends the life of a record if it is the one that the caller holds; a waiter's mark does not count.
-- KEYS: record. ARGV: record as held, without a mark; its time to live.
-- Answers 1 if it lives for so long, else the record as it is and its time to live.
local now = redis.call('GETRANGE', KEYS[1], 0, string.len(ARGV[1]))
local bare = now
if string.byte(now, 3) == 1 then
  bare = string.sub(now, 1, 2) .. '\0' .. string.sub(now, 4)
end
local ttl = redis.call('PTTL', KEYS[1])
if bare ~= ARGV[1] then
  return { redis.call('GET', KEYS[1]), ttl }
end
if ttl < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
