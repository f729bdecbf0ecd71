GRANT USAGE ON SCHEMA cocoonbox TO ROLE_NAME;
GRANT SELECT ON cocoonbox.migration, cocoonbox.log, cocoonbox.stream, cocoonbox.event, cocoonbox.command,
  cocoonbox.checkpoint, cocoonbox.owner_key, cocoonbox.signing_key, cocoonbox.master TO ROLE_NAME;
