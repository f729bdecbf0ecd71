-- Secrets of shares lie beside the hashes of tokens: their owners may see them again, so each lies here once more,
-- sealed with a key that follows from its owner's. Tokens have none.
ALTER TABLE cocoonbox.token ADD COLUMN sealed bytea;
