-- Which key is in use lies in the row every writer locks, so that all change together. A sealed text names its
-- own key. What a record is about, beyond the answer, is its context. How many checkpoints each file of them holds.
ALTER TABLE chain_head ADD COLUMN key_id TEXT;
UPDATE chain_head SET key_id = (SELECT value FROM settings WHERE name = 'key_id');
ALTER TABLE texts ADD COLUMN key_id TEXT NOT NULL DEFAULT '';
UPDATE texts SET key_id = (SELECT value FROM settings WHERE name = 'key_id');
DROP TABLE settings;
ALTER TABLE records ADD COLUMN context TEXT;
CREATE TABLE checkpoints (
  file TEXT PRIMARY KEY,
  number BIGINT NOT NULL
)
