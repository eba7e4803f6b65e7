-- Takes entries that no consumer has kept for a while, from one page of those that are pending.
-- ARGV: idle time in milliseconds, most entries to take, start of the page, size of the page.
-- Returns what was taken, what is gone, and the last entry of the page; empty if it was the last page.
local idle, most, size = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[6])
local page = redis.call('XPENDING', stream, group, ARGV[5], '+', size)
local last, looked_at = '', 0
for _, entry in ipairs(page) do
  if #taken == most then break end
  last, looked_at = entry[1], looked_at + 1
  if entry[3] >= idle then take(entry[1], entry[4]) end
end
if looked_at == #page and #page < size then last = '' end
return {taken, gone, last}
