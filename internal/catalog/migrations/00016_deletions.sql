-- +goose Up
-- OAI-PMH asks by URI when a resource was deleted last. Deletions are few of the changes.
CREATE INDEX change_deleted ON change (uri, set_id, seq) WHERE change = 'deleted';
