-- Acknowledges an entry and deletes it.
-- KEYS: the stream. ARGV: group, id. Returns the number of entries acknowledged.
local acknowledged = redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
return acknowledged
