-- Kept texts, sealed and with an end. They lie beside the chain: deleting one breaks nothing.
CREATE TABLE texts (
  id TEXT PRIMARY KEY REFERENCES records (id),
  sealed BYTEA NOT NULL,
  expires_at TEXT NOT NULL
);
CREATE INDEX texts_expiry ON texts (expires_at);
CREATE INDEX records_about ON records (about)
