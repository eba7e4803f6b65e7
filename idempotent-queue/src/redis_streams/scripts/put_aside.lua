-- Copies an entry to another stream, then acknowledges it. Nothing happens if it is no longer pending.
-- KEYS: the stream, the other stream. ARGV: group, id, 1 to delete the entry, fields and values of the copy.
-- Returns the number of entries acknowledged. An error of XADD ends the script before the acknowledgement.
local group, id = ARGV[1], ARGV[2]
if #redis.call('XPENDING', KEYS[1], group, id, id, 1) == 0 then return 0 end
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 4))
if ARGV[3] == '1' then redis.call('XDEL', KEYS[1], id) end
return redis.call('XACK', KEYS[1], group, id)
