-- The chain: one row an event, each hashed over the one before it. JSON columns are kept as the exact
-- text that was hashed, so they are TEXT and not a JSON type that would re-spell them.
CREATE TABLE records (
  seq BIGINT PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  at TEXT NOT NULL,
  kind TEXT NOT NULL,
  caller TEXT NOT NULL,
  panel TEXT NOT NULL,
  about TEXT,
  text_hash TEXT,
  prior TEXT,
  answer TEXT,
  versions TEXT,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL
);
CREATE TABLE chain_head (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  seq BIGINT NOT NULL,
  hash TEXT NOT NULL
);
INSERT INTO chain_head (one, seq, hash) VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');
CREATE TABLE settings (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
)
