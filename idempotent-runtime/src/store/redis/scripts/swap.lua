-- Replaces a record if it is the one that the caller saw: its head is compared, not its value, and not a waiter's mark.
-- KEYS: record; name under which the record to write stands, if it is not among the arguments.
-- ARGV: head of the record as seen, empty if none; record to write, empty to delete; its time to live;
-- longest time to live that the seen record may have, empty if any; channel; how to publish; 1 if a full server takes it.
-- Answers 1 if it was replaced, else the record as it is and its time to live.
local now = redis.call('GET', KEYS[1])
local marked = now and string.byte(now, 3) == 1
local same
if ARGV[1] == '' then
  same = not now
else
  same = now == ARGV[1]
  -- A record that is held has neither mark nor value, unless somebody waits for it.
  if now and not same and string.len(now) >= 4 then
    local head, flags = now, string.byte(now, 4)
    -- The fourth flag says that a value follows.
    if flags % 16 >= 8 then
      flags = flags - 8
      head = string.sub(head, 1, string.len(ARGV[1]))
    end
    local mark = marked and '\0' or string.sub(head, 3, 3)
    same = string.sub(head, 1, 2) .. mark .. string.char(flags) .. string.sub(head, 5) == ARGV[1]
  end
end
if not same or (ARGV[4] ~= '' and redis.call('PTTL', KEYS[1]) > tonumber(ARGV[4])) then
  return { now, redis.call('PTTL', KEYS[1]) }
end
if KEYS[2] then
  redis.call('RENAME', KEYS[2], KEYS[1])
elseif ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  local written = redis.pcall('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  if written.err then
    -- A server that is full refuses the first command that takes memory, but not one after another write.
    if ARGV[7] == '1' then
      redis.call('PEXPIRE', KEYS[1], ARGV[3])
    end
    -- Raises what is still refused. An error that is returned has no code on servers before 7.0.
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  end
end
if marked then
  -- Those who wait also poll: a refused notification is no reason to fail.
  redis.pcall(ARGV[6], ARGV[5], KEYS[1])
end
return 1
