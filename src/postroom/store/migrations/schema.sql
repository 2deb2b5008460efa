CREATE TABLE agent (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    agent_id TEXT NOT NULL, 
    name TEXT NOT NULL, 
    profile TEXT NOT NULL, 
    created_at BIGINT NOT NULL, 
    removed_at BIGINT, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_agent_name UNIQUE (pod, name), 
    UNIQUE (agent_id)
);

CREATE TABLE agent_account (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    agent_id TEXT NOT NULL, 
    account TEXT NOT NULL, 
    created_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_agent_account UNIQUE (agent_id, account)
);

CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE api_key (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    key_id TEXT NOT NULL, 
    secret_hash BLOB NOT NULL, 
    kind TEXT NOT NULL, 
    agent_id TEXT, 
    session_id TEXT, 
    inbox_scope TEXT, 
    name TEXT NOT NULL, 
    permissions TEXT, 
    created_at BIGINT NOT NULL, 
    used_at BIGINT, 
    expires_at BIGINT, 
    revoked_at BIGINT, 
    PRIMARY KEY (id), 
    UNIQUE (key_id)
);

CREATE INDEX ix_api_key_agent ON api_key (agent_id);

CREATE TABLE asked_recipient (
    agent_id TEXT NOT NULL, 
    address TEXT NOT NULL, 
    first_at BIGINT NOT NULL, 
    PRIMARY KEY (agent_id, address)
);

CREATE INDEX ix_asked_recipient_first ON asked_recipient (agent_id, first_at);

CREATE TABLE attachment (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    message BIGINT NOT NULL, 
    thread BIGINT NOT NULL, 
    uuid TEXT NOT NULL, 
    place BIGINT NOT NULL, 
    filename TEXT, 
    content_type TEXT, 
    disposition TEXT, 
    content_id TEXT, 
    size BIGINT NOT NULL, 
    PRIMARY KEY (id)
);

CREATE INDEX ix_attachment_message ON attachment (message);

CREATE INDEX ix_attachment_thread ON attachment (thread);

CREATE TABLE blob (
    id INTEGER NOT NULL, 
    sha TEXT NOT NULL, 
    size BIGINT NOT NULL, 
    data BLOB, 
    PRIMARY KEY (id), 
    UNIQUE (sha)
);

CREATE TABLE correspondent (
    pod TEXT NOT NULL, 
    address TEXT NOT NULL, 
    wrote_at BIGINT, 
    proved_at BIGINT, looks TEXT, 
    PRIMARY KEY (pod, address)
);

CREATE INDEX ix_correspondent_looks ON correspondent (pod, looks);

CREATE TABLE cursor (
    id INTEGER NOT NULL, 
    name TEXT NOT NULL, 
    seq BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    UNIQUE (name)
);

CREATE TABLE domain (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    name TEXT NOT NULL, 
    feedback BIGINT NOT NULL, 
    inbound BIGINT NOT NULL, 
    subdomains BIGINT NOT NULL, 
    tracking BIGINT NOT NULL, 
    found TEXT NOT NULL, 
    verified_at BIGINT, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_domain_name UNIQUE (name)
);

CREATE TABLE draft (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    inbox BIGINT NOT NULL, 
    uuid TEXT NOT NULL, 
    client_id TEXT, 
    author TEXT NOT NULL, 
    to_ TEXT NOT NULL, 
    cc TEXT NOT NULL, 
    bcc TEXT NOT NULL, 
    reply_to TEXT NOT NULL, 
    subject TEXT, 
    text TEXT, 
    html TEXT, 
    preview TEXT, 
    in_reply_to TEXT, 
    forward_of TEXT, 
    reply_all BIGINT NOT NULL, 
    refs TEXT NOT NULL, 
    send_at BIGINT, 
    send_status TEXT, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, size BIGINT DEFAULT '0' NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_draft_client_id UNIQUE (inbox, client_id), 
    CONSTRAINT uq_draft_uuid UNIQUE (uuid)
);

CREATE INDEX ix_draft_due ON draft (send_status, send_at);

CREATE INDEX ix_draft_inbox ON draft (inbox, updated_at, id);

CREATE INDEX ix_draft_size ON draft (inbox, size);

CREATE TABLE draft_attachment (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    draft BIGINT NOT NULL, 
    uuid TEXT NOT NULL, 
    filename TEXT, 
    content_type TEXT, 
    disposition TEXT, 
    content_id TEXT, 
    size BIGINT NOT NULL, 
    blob TEXT NOT NULL, 
    PRIMARY KEY (id)
);

CREATE INDEX ix_draft_attachment_blob ON draft_attachment (blob);

CREATE INDEX ix_draft_attachment_draft ON draft_attachment (draft);

CREATE TABLE draft_label (
    draft BIGINT NOT NULL, 
    label TEXT NOT NULL, 
    PRIMARY KEY (draft, label)
);

CREATE TABLE event (
    seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
    event_id TEXT NOT NULL, 
    pod TEXT NOT NULL, 
    agent TEXT, 
    inbox TEXT, 
    thread TEXT, 
    kind TEXT NOT NULL, 
    ref TEXT NOT NULL, 
    at BIGINT NOT NULL, 
    snapshot TEXT NOT NULL, 
    UNIQUE (event_id)
);

CREATE INDEX event_by_inbox ON event (inbox, seq);

CREATE INDEX event_by_kind ON event (kind, seq);

CREATE TABLE gate_audit (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    seq BIGINT NOT NULL, 
    outgoing_id TEXT NOT NULL, 
    body BLOB NOT NULL, 
    entry_hash BLOB NOT NULL, 
    link BLOB NOT NULL, 
    PRIMARY KEY (id), 
    UNIQUE (seq)
);

CREATE INDEX ix_gate_audit_outgoing ON gate_audit (outgoing_id, seq);

CREATE TABLE hosted_inbox (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    address TEXT NOT NULL, 
    owner_agent TEXT, 
    display_name TEXT, 
    floor_at BIGINT, 
    seen_at BIGINT NOT NULL, 
    created_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_hosted_inbox_address UNIQUE (address)
);

CREATE INDEX ix_hosted_inbox_owner ON hosted_inbox (owner_agent);

CREATE TABLE hosted_seen (
    id INTEGER NOT NULL, 
    inbox TEXT NOT NULL, 
    kind TEXT NOT NULL, 
    ref TEXT NOT NULL, 
    detail TEXT NOT NULL, 
    at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_hosted_seen UNIQUE (inbox, kind, ref, detail)
);

CREATE INDEX ix_hosted_seen_at ON hosted_seen (inbox, at);

CREATE TABLE hosted_send (
    id INTEGER NOT NULL, 
    outgoing_id TEXT NOT NULL, 
    first_at BIGINT NOT NULL, 
    message_id TEXT, 
    thread_id TEXT, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_hosted_send_outgoing UNIQUE (outgoing_id)
);

CREATE TABLE house_secret (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    name TEXT NOT NULL, 
    value BLOB NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_house_secret_name UNIQUE (pod, name)
);

CREATE TABLE inbox (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    address TEXT NOT NULL, 
    display_name TEXT, 
    client_id TEXT, 
    status TEXT NOT NULL, 
    metadata TEXT NOT NULL, 
    owner_agent TEXT, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_inbox_address UNIQUE (address), 
    CONSTRAINT uq_inbox_client_id UNIQUE (pod, client_id)
);

CREATE INDEX ix_inbox_owner ON inbox (owner_agent);

CREATE TABLE intake (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
    pod TEXT NOT NULL, 
    blob TEXT NOT NULL, 
    mail_from TEXT NOT NULL, 
    rcpt_to TEXT NOT NULL, 
    peer TEXT NOT NULL, 
    origin TEXT NOT NULL, 
    size BIGINT NOT NULL, 
    attempts BIGINT NOT NULL, 
    received_at BIGINT NOT NULL
, rfc_id TEXT);

CREATE INDEX ix_intake_queue ON intake (attempts, id);

CREATE TABLE lease (
    id INTEGER NOT NULL, 
    name TEXT NOT NULL, 
    holder TEXT NOT NULL, 
    expires_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    UNIQUE (name)
);

CREATE TABLE list_entry (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    inbox BIGINT NOT NULL, 
    direction TEXT NOT NULL, 
    type TEXT NOT NULL, 
    entry TEXT NOT NULL, 
    reason TEXT, 
    created_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_list_entry_entry UNIQUE (pod, inbox, direction, entry)
);

CREATE VIRTUAL TABLE mail_search USING fts5(scope, from_, recipients, subject, text, cjk, content='', tokenize='unicode61 remove_diacritics 2');

CREATE TABLE mailbox_attachment (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    seq BIGINT NOT NULL, 
    sha TEXT NOT NULL, 
    blob TEXT NOT NULL, 
    size BIGINT NOT NULL, 
    PRIMARY KEY (id)
);

CREATE INDEX mailbox_attachment_blob ON mailbox_attachment (blob);

CREATE INDEX mailbox_attachment_seq ON mailbox_attachment (seq);

CREATE INDEX mailbox_attachment_sha ON mailbox_attachment (sha);

CREATE TABLE mailbox_participant (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    name TEXT NOT NULL, 
    role TEXT, 
    is_agent INTEGER NOT NULL, 
    seen_at BIGINT NOT NULL, 
    notified BIGINT NOT NULL, 
    fetched BIGINT NOT NULL, 
    acknowledged BIGINT NOT NULL, 
    missed BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_mailbox_participant_name UNIQUE (pod, name)
);

CREATE TABLE mailbox_record (
    seq INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    at BIGINT NOT NULL, 
    kind TEXT NOT NULL, 
    sender TEXT, 
    recipient TEXT, 
    thread TEXT, 
    target BIGINT, 
    idem TEXT, 
    body BLOB, 
    state TEXT, 
    entry_hash BLOB NOT NULL, 
    link BLOB NOT NULL, 
    PRIMARY KEY (seq)
);

CREATE INDEX mailbox_record_from ON mailbox_record (sender, seq) WHERE sender IS NOT NULL;

CREATE UNIQUE INDEX mailbox_record_key ON mailbox_record (idem, sender) WHERE idem IS NOT NULL;

CREATE INDEX mailbox_record_target ON mailbox_record (target, seq) WHERE target IS NOT NULL;

CREATE INDEX mailbox_record_thread ON mailbox_record (thread, seq) WHERE thread IS NOT NULL;

CREATE INDEX mailbox_record_to ON mailbox_record (recipient, seq) WHERE recipient IS NOT NULL;

CREATE VIRTUAL TABLE mailbox_search USING fts5(scope, text, cjk, content='', tokenize='unicode61 remove_diacritics 2');

CREATE TABLE message (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
    pod TEXT NOT NULL, 
    inbox BIGINT NOT NULL, 
    thread BIGINT NOT NULL, 
    public_id TEXT NOT NULL, 
    rfc_id TEXT, 
    outgoing_id TEXT, 
    received BIGINT NOT NULL, 
    hidden BIGINT NOT NULL, 
    timestamp BIGINT NOT NULL, 
    dated_at BIGINT, 
    from_ TEXT NOT NULL, 
    to_ TEXT NOT NULL, 
    cc TEXT NOT NULL, 
    bcc TEXT NOT NULL, 
    reply_to TEXT NOT NULL, 
    fold_from TEXT NOT NULL, 
    fold_recipients TEXT NOT NULL, 
    fold_subject TEXT NOT NULL, 
    subject TEXT, 
    preview TEXT, 
    text TEXT, 
    html TEXT, 
    extracted_text TEXT, 
    text_source TEXT NOT NULL, 
    in_reply_to TEXT, 
    refs TEXT NOT NULL, 
    headers TEXT NOT NULL, 
    findings TEXT NOT NULL, 
    blob TEXT NOT NULL, 
    size BIGINT NOT NULL, 
    mail_from TEXT NOT NULL, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, authentication TEXT, arrival BIGINT, 
    CONSTRAINT uq_message_outgoing_id UNIQUE (outgoing_id), 
    CONSTRAINT uq_message_public_id UNIQUE (inbox, public_id)
);

CREATE INDEX ix_message_blob ON message (blob);

CREATE INDEX ix_message_inbox ON message (inbox, timestamp, id);

CREATE INDEX ix_message_thread ON message (thread, timestamp, id);

CREATE TABLE message_alias (
    inbox BIGINT NOT NULL, 
    rfc_id TEXT NOT NULL, 
    message BIGINT NOT NULL, 
    PRIMARY KEY (inbox, rfc_id, message)
);

CREATE INDEX ix_message_alias_message ON message_alias (message);

CREATE TABLE message_label (
    message BIGINT NOT NULL, 
    label TEXT NOT NULL, 
    inbox BIGINT NOT NULL, 
    thread BIGINT NOT NULL, 
    timestamp BIGINT NOT NULL, 
    PRIMARY KEY (message, label)
);

CREATE INDEX ix_message_label_inbox ON message_label (inbox, label, timestamp, message);

CREATE INDEX ix_message_label_thread ON message_label (thread, label);

CREATE TABLE outbox (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    outgoing_id TEXT NOT NULL, 
    message BIGINT NOT NULL, 
    mail_from TEXT NOT NULL, 
    rcpt_to TEXT NOT NULL, 
    pending TEXT NOT NULL, 
    failed TEXT NOT NULL, 
    blob TEXT NOT NULL, 
    digest TEXT NOT NULL, 
    state TEXT NOT NULL, 
    attempts BIGINT NOT NULL, 
    next_at BIGINT NOT NULL, 
    last_error TEXT, 
    possible_duplicate BIGINT NOT NULL, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_outbox_outgoing_id UNIQUE (outgoing_id)
);

CREATE INDEX ix_outbox_blob ON outbox (blob);

CREATE INDEX ix_outbox_due ON outbox (state, next_at);

CREATE TABLE outgoing (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    outgoing_id TEXT NOT NULL, 
    submitter TEXT NOT NULL, 
    submission_key TEXT, 
    fingerprint TEXT NOT NULL, 
    content TEXT NOT NULL, 
    principal TEXT NOT NULL, 
    agent_id TEXT, 
    inbox_id TEXT NOT NULL, 
    state TEXT NOT NULL, 
    outbound TEXT NOT NULL, 
    attachments TEXT NOT NULL, 
    mail_from TEXT NOT NULL, 
    rcpt_to TEXT NOT NULL, 
    raw_sha TEXT NOT NULL, 
    size BIGINT NOT NULL, 
    digest TEXT NOT NULL, 
    message_id TEXT NOT NULL, 
    thread_id TEXT, 
    reasons TEXT NOT NULL, 
    refused TEXT NOT NULL, 
    boundary TEXT NOT NULL, 
    boundary_reason TEXT NOT NULL, 
    created_at BIGINT NOT NULL, 
    expires_at BIGINT NOT NULL, 
    handed_at BIGINT, 
    decided_by TEXT, 
    decided_at BIGINT, 
    comment TEXT, 
    detail TEXT, 
    possible_duplicate INTEGER NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_outgoing_key UNIQUE (pod, submitter, submission_key), 
    UNIQUE (outgoing_id)
);

CREATE INDEX ix_outgoing_agent ON outgoing (agent_id, id);

CREATE INDEX ix_outgoing_content ON outgoing (submitter, content);

CREATE INDEX ix_outgoing_pod ON outgoing (pod, id);

CREATE INDEX ix_outgoing_state ON outgoing (state, expires_at);

CREATE TABLE outgoing_blob (
    outgoing_id TEXT NOT NULL, 
    blob TEXT NOT NULL, 
    PRIMARY KEY (outgoing_id, blob)
);

CREATE INDEX ix_outgoing_blob_blob ON outgoing_blob (blob);

CREATE TABLE probe (
    id INTEGER NOT NULL, 
    at BIGINT NOT NULL, 
    PRIMARY KEY (id)
);

CREATE TABLE read_log (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    agent_id TEXT NOT NULL, 
    session_id TEXT, 
    ref TEXT NOT NULL, 
    at BIGINT NOT NULL, cleared_at BIGINT, 
    PRIMARY KEY (id)
);

CREATE INDEX ix_read_log_agent ON read_log (agent_id, at);

CREATE INDEX ix_read_log_ref ON read_log (agent_id, ref);

CREATE TABLE search_document (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    inbox TEXT NOT NULL, 
    "indexed" BLOB NOT NULL, 
    PRIMARY KEY (id)
);

CREATE TABLE session (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    session_id TEXT NOT NULL, 
    thread TEXT, 
    inbox TEXT NOT NULL, 
    agent TEXT NOT NULL, 
    born BIGINT NOT NULL, 
    offered BIGINT NOT NULL, 
    taken BIGINT NOT NULL, 
    newest BIGINT NOT NULL, 
    attempts INTEGER NOT NULL, 
    next_at BIGINT NOT NULL, 
    waiting TEXT NOT NULL, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT session_agent_id UNIQUE (agent, session_id)
);

CREATE INDEX session_agent ON session (agent, id);

CREATE INDEX session_due ON session (next_at);

CREATE TABLE suppression (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    address TEXT NOT NULL, 
    reason TEXT NOT NULL, 
    created_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_suppression_address UNIQUE (pod, address)
);

CREATE TABLE thread (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    inbox BIGINT NOT NULL, 
    uuid TEXT NOT NULL, 
    subject TEXT, 
    preview TEXT, 
    senders TEXT NOT NULL, 
    recipients TEXT NOT NULL, 
    fold_senders TEXT NOT NULL, 
    fold_recipients TEXT NOT NULL, 
    fold_subject TEXT NOT NULL, 
    last_message_id TEXT NOT NULL, 
    message_count BIGINT NOT NULL, 
    size BIGINT NOT NULL, 
    timestamp BIGINT NOT NULL, 
    received_at BIGINT, 
    sent_at BIGINT, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_thread_uuid UNIQUE (uuid)
);

CREATE INDEX ix_thread_received ON thread (inbox, received_at, id);

CREATE INDEX ix_thread_timestamp ON thread (inbox, timestamp, id);

CREATE TABLE webhook (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    uuid TEXT NOT NULL, 
    url TEXT NOT NULL, 
    event_types TEXT NOT NULL, 
    inbox TEXT, 
    inbox_ids TEXT NOT NULL, 
    pod_ids TEXT NOT NULL, 
    client_id TEXT, 
    secret TEXT NOT NULL, 
    old_secret TEXT, 
    old_until BIGINT, 
    headers TEXT NOT NULL, 
    enabled BIGINT NOT NULL, 
    failing_since BIGINT, 
    reason TEXT, 
    since BIGINT NOT NULL, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_webhook_uuid UNIQUE (uuid), 
    CONSTRAINT uq_webhook_client_id UNIQUE (pod, client_id)
);

CREATE TABLE webhook_body (
    id INTEGER NOT NULL, 
    event_seq BIGINT NOT NULL, 
    ref TEXT NOT NULL, 
    body BLOB NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_webhook_body_event UNIQUE (event_seq)
);

CREATE INDEX ix_webhook_body_ref ON webhook_body (ref);

CREATE TABLE webhook_delivery (
    id INTEGER NOT NULL, 
    pod TEXT NOT NULL, 
    webhook BIGINT NOT NULL, 
    event_seq BIGINT NOT NULL, 
    event_id TEXT NOT NULL, 
    delivery_id TEXT NOT NULL, 
    kind TEXT NOT NULL, 
    state TEXT NOT NULL, 
    attempts BIGINT NOT NULL, 
    next_at BIGINT NOT NULL, 
    status BIGINT, 
    error TEXT, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, 
    PRIMARY KEY (id), 
    CONSTRAINT uq_webhook_delivery_event UNIQUE (webhook, event_seq)
);

CREATE INDEX ix_webhook_delivery_due ON webhook_delivery (state, next_at);

CREATE INDEX ix_webhook_delivery_settled ON webhook_delivery (state, updated_at);

