-- Erasing also takes the digests of commands out: hashed without a salt, they tell whoever can guess what was asked for.
-- Whoever may erase bodies may do that, and no role may set a digest to anything else.

DO $$
DECLARE role name;
BEGIN
  FOR role IN
    SELECT DISTINCT grantee FROM information_schema.column_privileges
    WHERE table_schema = 'cocoonbox' AND table_name = 'event' AND column_name = 'body'
      AND privilege_type = 'UPDATE' AND grantee <> 'PUBLIC'
  LOOP
    EXECUTE format('GRANT UPDATE (digest) ON cocoonbox.command TO %I', role);
  END LOOP;
END $$;

CREATE TRIGGER command_is_final BEFORE UPDATE ON cocoonbox.command FOR EACH ROW
  WHEN (NOT (
    new.log_id = old.log_id AND new.command_id = old.command_id AND new.first_pos = old.first_pos
    AND new.last_pos >= old.last_pos
    AND (new.digest IS NULL OR new.digest IS NOT DISTINCT FROM old.digest)))
  EXECUTE FUNCTION cocoonbox.refuse('a command is never changed, only its digest erased');
