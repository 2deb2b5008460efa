"""The operations of the official clients that this server answers: method, path below `/v0`, SDK method, tier.

Facts about the API, taken from the clients' behaviour; the rest of their operations answer 404.
"""

from typing import NamedTuple


class Operation(NamedTuple):
    method: str
    path: str
    sdk: str
    tier: str


def _mirror(prefix: str, sdk: str, tier: str, rows: tuple[tuple[str, str, str], ...]) -> list[Operation]:
    return [Operation(method, prefix + path, f"{sdk}.{name}", tier) for method, path, name in rows]


_INBOXES = (
    ("GET", "", "list"),
    ("POST", "", "create"),
    ("GET", "/{inbox_id}", "get"),
    ("PATCH", "/{inbox_id}", "update"),
    ("DELETE", "/{inbox_id}", "delete"),
)
_MESSAGES = (
    ("GET", "", "list"),
    ("GET", "/search", "search"),
    ("POST", "/batch-get", "batch_get"),
    ("POST", "/batch-update", "batch_update"),
    ("POST", "/send", "send"),
    ("GET", "/{message_id}", "get"),
    ("PATCH", "/{message_id}", "update"),
    ("DELETE", "/{message_id}", "delete"),
    ("GET", "/{message_id}/raw", "get_raw"),
    ("GET", "/{message_id}/attachments/{attachment_id}", "get_attachment"),
    ("POST", "/{message_id}/reply", "reply"),
    ("POST", "/{message_id}/reply-all", "reply_all"),
    ("POST", "/{message_id}/forward", "forward"),
)
_THREADS = (
    ("GET", "", "list"),
    ("GET", "/search", "search"),
    ("GET", "/{thread_id}", "get"),
    ("PATCH", "/{thread_id}", "update"),
    ("DELETE", "/{thread_id}", "delete"),
    ("GET", "/{thread_id}/attachments/{attachment_id}", "get_attachment"),
)
_READ_DRAFTS = (
    ("GET", "", "list"),
    ("GET", "/{draft_id}", "get"),
    ("GET", "/{draft_id}/attachments/{attachment_id}", "get_attachment"),
)
_WRITE_DRAFTS = (
    ("POST", "", "create"),
    ("PATCH", "/{draft_id}", "update"),
    ("DELETE", "/{draft_id}", "delete"),
    ("POST", "/{draft_id}/send", "send"),
)
_LISTS = (
    ("GET", "/{direction}/{type}", "list"),
    ("POST", "/{direction}/{type}", "create"),
    ("GET", "/{direction}/{type}/{entry}", "get"),
    ("DELETE", "/{direction}/{type}/{entry}", "delete"),
)
_WEBHOOKS = (
    ("GET", "", "list"),
    ("POST", "", "create"),
    ("GET", "/{webhook_id}", "get"),
    ("PATCH", "/{webhook_id}", "update"),
    ("DELETE", "/{webhook_id}", "delete"),
)
_WEBHOOK_HEADERS = (("GET", "/{webhook_id}/headers", "get_headers"), ("PATCH", "/{webhook_id}/headers", "update_headers"))
_KEYS = (
    ("GET", "", "list"),
    ("POST", "", "create"),
    ("PATCH", "/{api_key_id}", "update"),
    ("DELETE", "/{api_key_id}", "delete"),
)

WEBHOOKS = [
    *_mirror("/webhooks", "webhooks", "essential", _WEBHOOKS),
    *_mirror("/inboxes/{inbox_id}/webhooks", "inboxes.webhooks", "essential", _WEBHOOKS),
    *_mirror("/webhooks", "webhooks", "recommended", _WEBHOOK_HEADERS),
    *_mirror("/inboxes/{inbox_id}/webhooks", "inboxes.webhooks", "recommended", _WEBHOOK_HEADERS),
    *_mirror("/pods/{pod_id}/webhooks", "pods.webhooks", "optional", (*_WEBHOOKS, *_WEBHOOK_HEADERS)),
]
_METRICS = (
    ("GET", "/metrics/events", "query_events"),
    ("GET", "/metrics/rates", "query_rates"),
    ("GET", "/metrics/usage", "query_usage"),
)
_DOMAINS = (
    ("GET", "", "list"),
    ("POST", "", "create"),
    ("GET", "/{domain_id}", "get"),
    ("PATCH", "/{domain_id}", "update"),
    ("DELETE", "/{domain_id}", "delete"),
    ("POST", "/{domain_id}/verify", "verify"),
    ("GET", "/{domain_id}/zone-file", "get_zone_file"),
)
OPERATIONS = [
    *WEBHOOKS,
    *_mirror("/domains", "domains", "hosted", (*_DOMAINS, ("GET", "/{domain_id}/setup-link", "get_setup_link"))),
    *_mirror("/pods/{pod_id}/domains", "pods.domains", "hosted", _DOMAINS),
    *_mirror("", "metrics", "optional", _METRICS),
    *_mirror("/inboxes/{inbox_id}", "inboxes.metrics", "optional", _METRICS),
    *_mirror("/pods/{pod_id}", "pods.metrics", "optional", _METRICS),
    *_mirror("/inboxes", "inboxes", "essential", _INBOXES),
    *_mirror("/inboxes/{inbox_id}/messages", "inboxes.messages", "essential", _MESSAGES),
    *_mirror("/inboxes/{inbox_id}/threads", "inboxes.threads", "essential", _THREADS),
    *_mirror("/threads", "threads", "essential", _THREADS),
    *_mirror("/inboxes/{inbox_id}/drafts", "inboxes.drafts", "essential", _READ_DRAFTS + _WRITE_DRAFTS),
    *_mirror("/drafts", "drafts", "essential", _READ_DRAFTS),
    *_mirror("/inboxes/{inbox_id}/lists", "inboxes.lists", "essential", _LISTS),
    *_mirror("/lists", "lists", "essential", _LISTS),
    Operation("GET", "/inboxes/search", "inboxes.search", "recommended"),
    *_mirror("/api-keys", "api_keys", "recommended", _KEYS),
    Operation("GET", "/api-keys/{api_key_id}", "api_keys.get", "recommended"),
    *_mirror("/inboxes/{inbox_id}/api-keys", "inboxes.api_keys", "recommended", _KEYS),
    Operation("GET", "/auth/me", "auth.me", "recommended"),
    Operation("GET", "/inboxes/{inbox_id}/events", "inboxes.events.list", "recommended"),
    Operation("GET", "/organizations", "organizations.get", "recommended"),
    Operation("GET", "/pods", "pods.list", "recommended"),
    Operation("POST", "/pods", "pods.create", "recommended"),
    Operation("GET", "/pods/{pod_id}", "pods.get", "recommended"),
    Operation("DELETE", "/pods/{pod_id}", "pods.delete", "recommended"),
    *_mirror("/pods/{pod_id}/inboxes", "pods.inboxes", "recommended", (*_INBOXES, ("GET", "/search", "search"))),
    *_mirror("/pods/{pod_id}/threads", "pods.threads", "recommended", _THREADS),
]
