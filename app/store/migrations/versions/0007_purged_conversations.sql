-- What a purged run said stays in the contexts of other runs' copies. Its own row no longer says of which conversation it
-- was, so the purge notes it here; erasing the conversation finds it by that. NULL while the run is there.
ALTER TABLE copy_sources ADD COLUMN conversation_id text;
CREATE INDEX copy_sources_conversation_ix ON copy_sources (tenant_id, conversation_id) WHERE conversation_id IS NOT NULL;
