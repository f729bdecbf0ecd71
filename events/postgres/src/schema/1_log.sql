-- The log. Positions, sequence numbers and sizes are bigint; times are microseconds since the Unix epoch.

CREATE TABLE cocoonbox.log (
  log_id uuid PRIMARY KEY,
  kind int NOT NULL,
  owner text NOT NULL,
  parent_log uuid, parent_pos bigint, parent_chain bytea,
  key_check bytea,
  format int NOT NULL,
  created_us bigint NOT NULL,
  -- The head: locked by every append.
  tail bigint NOT NULL,
  chain bytea NOT NULL,
  recorded_us bigint NOT NULL,
  streams bigint NOT NULL DEFAULT 0,
  moved_to uuid,
  -- By the database's clock: what moved of late is found without comparing every tail.
  touched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((parent_log IS NULL) = (parent_pos IS NULL) AND (parent_log IS NULL) = (parent_chain IS NULL))
) WITH (fillfactor = 50);

CREATE TABLE cocoonbox.stream (
  log_id uuid NOT NULL,
  stream_id bigint NOT NULL,
  name text NOT NULL,
  head_seq bigint NOT NULL,
  PRIMARY KEY (log_id, stream_id),
  UNIQUE (log_id, name)
) WITH (fillfactor = 70);

CREATE TABLE cocoonbox.event (
  log_id uuid NOT NULL,
  pos bigint NOT NULL,
  stream_id bigint NOT NULL,
  seq bigint NOT NULL,
  kind bigint NOT NULL,
  version bigint NOT NULL,
  recorded_us bigint NOT NULL,
  header bytea NOT NULL,
  body bytea,
  payload_hash bytea NOT NULL,
  chain bytea NOT NULL,
  PRIMARY KEY (log_id, pos)
);
CREATE UNIQUE INDEX event_stream ON cocoonbox.event (log_id, stream_id, seq);
-- Sealed bodies do not compress.
ALTER TABLE cocoonbox.event ALTER body SET STORAGE EXTERNAL;

CREATE TABLE cocoonbox.command (
  log_id uuid NOT NULL,
  command_id uuid NOT NULL,
  digest bytea,
  first_pos bigint NOT NULL,
  last_pos bigint NOT NULL,
  PRIMARY KEY (log_id, command_id)
);

CREATE TABLE cocoonbox.checkpoint (
  log_id uuid NOT NULL,
  size bigint NOT NULL,
  chain bytea NOT NULL,
  note text NOT NULL,
  PRIMARY KEY (log_id, size)
);

-- Owners' keys, sealed under the master key; NULL: destroyed, never to be made again.
CREATE TABLE cocoonbox.owner_key (
  owner text PRIMARY KEY,
  sealed bytea,
  destroyed_at timestamptz
);
-- Keys that checkpoints are signed with, their secret half sealed; NULL: retired.
CREATE TABLE cocoonbox.signing_key (
  key_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  public_key bytea NOT NULL UNIQUE,
  sealed bytea,
  issued_us bigint NOT NULL,
  retired_us bigint
);
CREATE TABLE cocoonbox.master (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  check_value bytea NOT NULL
);

-- Hashes of device tokens.
CREATE TABLE cocoonbox.token (
  hash bytea PRIMARY KEY,
  token_id text NOT NULL UNIQUE,
  user_id text NOT NULL
);

CREATE TABLE cocoonbox.lease (
  name text PRIMARY KEY,
  holder text NOT NULL,
  address text NOT NULL,
  fence bigint NOT NULL,
  expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Against accidents, also those of the owner. Whoever owns the tables can drop them; the chain, checked against a
-- checkpoint elsewhere, is what tells.
CREATE FUNCTION cocoonbox.refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation'; END $$;

CREATE TRIGGER event_is_kept BEFORE DELETE ON cocoonbox.event
  FOR EACH ROW EXECUTE FUNCTION cocoonbox.refuse('an event is never deleted');
CREATE TRIGGER events_are_kept BEFORE TRUNCATE ON cocoonbox.event
  FOR EACH STATEMENT EXECUTE FUNCTION cocoonbox.refuse('an event is never deleted');
CREATE TRIGGER event_is_final BEFORE UPDATE ON cocoonbox.event FOR EACH ROW
  WHEN (NOT (
    new.body IS NULL AND new.log_id = old.log_id AND new.pos = old.pos AND new.stream_id = old.stream_id
    AND new.seq = old.seq AND new.kind = old.kind AND new.version = old.version
    AND new.recorded_us = old.recorded_us AND new.header = old.header
    AND new.payload_hash = old.payload_hash AND new.chain = old.chain))
  EXECUTE FUNCTION cocoonbox.refuse('an event is never changed, only its body erased');

CREATE TRIGGER log_is_kept BEFORE DELETE ON cocoonbox.log
  FOR EACH ROW EXECUTE FUNCTION cocoonbox.refuse('a log is never deleted');
CREATE TRIGGER log_goes_on BEFORE UPDATE ON cocoonbox.log FOR EACH ROW
  WHEN (NOT (
    new.log_id = old.log_id AND new.kind = old.kind AND new.owner = old.owner
    AND new.parent_log IS NOT DISTINCT FROM old.parent_log AND new.parent_pos IS NOT DISTINCT FROM old.parent_pos
    AND new.parent_chain IS NOT DISTINCT FROM old.parent_chain AND new.key_check IS NOT DISTINCT FROM old.key_check
    AND new.tail >= old.tail AND new.recorded_us >= old.recorded_us AND new.streams >= old.streams
    AND (new.tail > old.tail OR new.chain = old.chain)
    AND (old.moved_to IS NULL OR (new.moved_to = old.moved_to AND new.tail = old.tail))))
  EXECUTE FUNCTION cocoonbox.refuse('a log only goes on, and a closed one does not');

CREATE TRIGGER checkpoint_is_kept BEFORE UPDATE OR DELETE ON cocoonbox.checkpoint
  FOR EACH ROW EXECUTE FUNCTION cocoonbox.refuse('a checkpoint is never changed');

CREATE TRIGGER destroyed_stays_destroyed BEFORE UPDATE ON cocoonbox.owner_key FOR EACH ROW
  WHEN (new.owner <> old.owner OR new.sealed IS NOT NULL)
  EXECUTE FUNCTION cocoonbox.refuse('an owner''s key is only destroyed');
CREATE TRIGGER retired_stays_retired BEFORE UPDATE ON cocoonbox.signing_key FOR EACH ROW
  WHEN (new.name <> old.name OR new.public_key <> old.public_key OR new.sealed IS NOT NULL)
  EXECUTE FUNCTION cocoonbox.refuse('a signing key is only retired');
CREATE TRIGGER signing_key_is_kept BEFORE DELETE ON cocoonbox.signing_key
  FOR EACH ROW EXECUTE FUNCTION cocoonbox.refuse('a signing key is only retired');
CREATE TRIGGER owner_key_is_kept BEFORE DELETE ON cocoonbox.owner_key
  FOR EACH ROW EXECUTE FUNCTION cocoonbox.refuse('a destroyed key leaves a tombstone');
