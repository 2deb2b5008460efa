"""What secrets look like: the formats, as data for `safety.redact`.

A format is a fact its issuer published or shows in every token; each rule here is written for
postroom. Group 1 of `pattern`, if there is one, is the secret itself, so that labels around it stay.
`compact` is the pattern for text without white space: only tokens of fixed length have one, because
there the next word is glued to the token and only the length tells where it ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One format. `entropy`: the least bits per character. `refuse` (whole, case-blind): no secret after all."""

    kind: str
    pattern: str
    compact: str = ""
    entropy: float = 0.0
    refuse: str = ""


_W, _A, _X, _B = "[A-Za-z0-9_-]", "[A-Za-z0-9]", "[a-f0-9]", "[A-Za-z0-9+/]"
_WORDS = "[a-z]{1,15}(?:[-_][a-z]{1,15})*"  # `sk-learn-from-examples`: hardly a word is longer
_END = "[.,;:!?)]*"
_NO_VALUE = r"https?:.*|mailto:.*|[$%{<\[(*#].*|[x*.•_-]{4,}.*|.*(?:example|changeme|placeholder|redacted|your[_-]|\.\.\.).*"
_NO_CODE_VALUE = f"{_NO_VALUE}|(?:true|false|null|none|undefined|required|optional|string|hidden|password){_END}"
_A_WORD = f"{_NO_VALUE}|[a-z]{{1,15}}{_END}|[0-9 -]{{4,10}}{_END}"  # or the number of a confirmation mail

_GAP = r"(?:[\s>]|\\[nrt])*"  # line ends as they are, quoted, or escaped inside JSON
_PEM = (  # to its end line, or as far as lines of it go
    rf"-----BEGIN[ A-Z0-9]{{1,40}}PRIVATE KEY(?: BLOCK)?-----(?:{_GAP}[A-Za-z-]{{3,30}}:[^\n\\]{{0,120}})*(?:{_GAP}{_B}{{16,}})*"
    rf"(?:{_GAP}[A-Za-z0-9+/=]{{0,15}}{_GAP}(?:={_B}{{4}})?{_GAP}-----END[ A-Z0-9]{{1,40}}-----)?"
)


def _token(kind: str, prefix: str, body: str, *, entropy: float = 0.0, refuse: str = "") -> Rule:
    """A token with a telling prefix, after which `body` follows."""
    fixed = re.search(r"\{\d+\}$", body) is not None
    compact = f"{prefix}{body}" if fixed else ""
    return Rule(kind=kind, pattern=rf"\b{prefix}{body}", compact=compact, entropy=entropy, refuse=refuse)


def _named(kind: str, name: str, value: str) -> Rule:
    """A value whose form alone tells nothing, assigned to a name that does."""
    pattern = rf"(?i:{name})[A-Za-z0-9_. -]{{0,24}}[\"'`]?\s{{0,3}}(?::=|=>|=|:|\s(?i:is)\s)\s{{0,3}}[\"'`]?({value})\b"
    return Rule(kind=kind, pattern=pattern)


def _assigned(names: str, sign: str, value: str, refuse: str, *, before: str = r"\b") -> Rule:
    """Whatever is assigned to a word that says it is secret."""
    pattern = rf"(?i:{before}(?:[a-z0-9]{{1,20}}[_-]){{0,3}}(?:{names})[\"'`*]{{0,2}}{sign})[\"'`*]{{0,2}}({value})"
    return Rule(kind="assigned-secret", pattern=pattern, refuse=refuse)


_SECRET_NAMES = (
    r"api[_-]?key|access[_-]?key|secret[_-]?key|client[_-]?secret|(?:auth|access|refresh)[_-]?token|token|secret|authorization"
)
_PASSWORD_NAMES = r"pass(?:word|wd|phrase)?|pwd|passwort|contrase\xc3\xb1a|mot de passe"
# A link's own `token=` is not among them: it is what a confirmation mail is sent for.
_IN_CODE, _IN_TEXT = r"\s?(?::=|=>|=)\s?", r"\s{0,3}:\s{0,3}"


RULES: Final[tuple[Rule, ...]] = (
    # Ours, and what stands in mail rather than in code.
    _token("postroom-key", "am_key_", f"{_X}{{32}}_{_X}{{48}}"),
    _token("agentmail-key", "am_", f"(?:{_A}{{2,24}}_)?{_A}{{20,}}", entropy=3.0),
    _assigned(_SECRET_NAMES, _IN_CODE, r"[^\s\"'`<>,;&|*]{8,}", _NO_CODE_VALUE, before="(?:^|[^?&;a-z0-9_-])"),
    _assigned("access_token|api_?key|client_secret|secret", "=", r"[^\s\"'`<>,;&|*]{8,}", _NO_CODE_VALUE, before="[?&;]"),
    _assigned(_SECRET_NAMES, _IN_TEXT, r"[^\s\"'`<>,;&|*]{8,}", _A_WORD),
    _assigned(_PASSWORD_NAMES, _IN_CODE, r"[^\s\"'`<>&]{6,}", _NO_CODE_VALUE),
    _assigned(_PASSWORD_NAMES, _IN_TEXT, r"[^\s\"'`<>]{6,}", _A_WORD),
    Rule(
        kind="password",
        pattern=r"(?i:\b(?:password|passphrase|passwort)\b[a-z ]{0,30}?\s(?:is|are|ist|to):?\s{1,3})[\"'`*]{0,2}([^\s\"'`<>]{6,})",
        refuse=rf"{_A_WORD}|[a-z]+(?:[-'/][a-z]+)+{_END}|[^0-9]*{_END}",
    ),
    Rule(
        kind="bearer-token",
        pattern=r"(?i:\bbearer\s{1,3})([A-Za-z0-9._~+/=-]{16,})",
        refuse=_WORDS,
    ),
    Rule(
        kind="basic-authorization",
        pattern=r"(?i:\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?basic\s{1,3})([A-Za-z0-9+/=]{8,})",
    ),
    Rule(
        kind="url-password",
        pattern=r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@<>\"'`]{0,}:([^\s/@<>\"'`]{3,})@[A-Za-z0-9\[]",
        refuse=r"[$%{<\[*].*|pass(?:word)?|xxx+",
    ),
    _token("otp-secret", r"otpauth(?:-migration)?://", r"[^\s\"'<>]{8,}"),
    Rule(kind="private-key", pattern=_PEM),
    _token("age-key", "AGE-SECRET-KEY-1", "[A-Z0-9]{58}"),
    Rule(kind="jwt", pattern=rf"(?:^|[^A-Za-z0-9+/_-])(eyJ{_W}{{17,}}(?:\.{_W}{{4,}}){{0,4}})"),  # not inside longer base64
    # Models.
    _token("openai-key", "sk-(?:proj|svcacct|admin|None)-", f"{_W}{{20,}}"),
    _token("anthropic-key", "sk-ant-", rf"[a-z]{{2,8}}\d{{2}}-{_W}{{20,}}"),
    _token("openrouter-key", "sk-or-v1-", f"{_X}{{64}}"),
    _token("sk-key", "sk-", f"{_W}{{16,}}", refuse=_WORDS),
    _token("huggingface-token", "hf_", f"{_A}{{34}}", entropy=3.0),
    _token("replicate-token", "r8_", f"{_A}{{37}}"),
    _token("groq-key", "gsk_", f"{_A}{{52}}"),
    _token("perplexity-key", "pplx-", f"{_A}{{48}}"),
    _token("xai-key", "xai-", f"{_A}{{80}}"),
    # Clouds.
    _token("aws-key-id", "(?:AKIA|ASIA|ABIA|ACCA)", "[A-Z2-7]{16}"),
    _named("aws-secret-key", r"aws|secret.?access.?key", rf"{_B}{{40}}"),
    _token("google-api-key", "AIza", f"{_W}{{35}}"),
    _token("google-access-token", r"ya29\.", f"{_W}{{30,}}"),
    _token("google-refresh-token", "1//0", f"{_W}{{40,}}"),
    _token("google-client-secret", "GOCSPX-", f"{_W}{{28}}"),
    Rule(kind="azure-client-secret", pattern=rf"\b({_A}{{3}}\dQ~[A-Za-z0-9_.~-]{{31,34}})"),
    Rule(
        kind="azure-storage-key",
        pattern=rf"(?i:AccountKey|SharedAccessKey)=({_B}{{43,}}=*)",
    ),
    Rule(kind="azure-signature", pattern=r"(?i:[?&]sig=)([A-Za-z0-9%+/=]{40,})"),
    _token("digitalocean-token", "do[por]_v1_", f"{_X}{{64}}"),
    _token("alibaba-key-id", "LTAI", f"{_A}{{20}}", entropy=3.0),
    _token("heroku-key", "HRKU-", f"{_W}{{36,}}"),
    _token("fly-token", "(?:fo1_|fm[12][a-z]?_)", r"[A-Za-z0-9+/_=,-]{40,}"),
    _token("netlify-token", "nfp_", f"{_A}{{36}}"),
    _token("vercel-token", "vc[pkiar]_", f"{_A}{{24,}}"),
    _token("cloudflare-origin-key", r"v1\.0-", rf"{_X}{{24}}-{_X}{{146}}"),
    _named("cloudflare-key", "cloudflare", rf"{_W}{{37,40}}"),
    _token("tailscale-key", "tskey-", rf"[a-z]{{3,10}}-{_A}{{8,24}}-{_A}{{16,}}"),
    _token("pulumi-token", "pul-", f"{_X}{{40}}"),
    _token("doppler-token", r"dp\.(?:pt|st|ct|scim|audit|sa)\.", rf"(?:[a-z0-9_-]{{2,35}}\.)?{_A}{{40,44}}"),
    _token("vault-token", r"hv[sbr]\.", f"{_W}{{24,}}"),
    Rule(kind="terraform-token", pattern=rf"\b({_A}{{14}}\.atlasv1\.{_W}{{60,}})"),
    _token("planetscale-token", "pscale_(?:tkn|pw|oauth)_", r"[A-Za-z0-9_.=-]{32,}"),
    _token("databricks-token", "dapi", rf"{_X}{{32}}(?:-\d)?"),
    _token("supabase-token", "sb(?:p|_secret)_", f"{_W}{{24,}}", entropy=3.0),
    # Code and builds.
    _token("github-token", "gh[pousr]_", f"{_A}{{36}}"),
    _token("github-token", "github_pat_", "[A-Za-z0-9_]{82}"),
    _token("gitlab-token", "gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-", rf"{_W}{{20,}}"),
    _token("bitbucket-token", "ATBB", f"{_A}{{32}}"),
    _token("atlassian-token", "AT[AC]TT3", r"[A-Za-z0-9_=-]{60,}"),
    _token("npm-token", "npm_", f"{_A}{{36}}"),
    _token("pypi-token", "pypi-", r"AgE[A-Za-z0-9_-]{50,}"),
    _token("rubygems-key", "rubygems_", f"{_X}{{48}}"),
    _token("nuget-key", "oy2", "[a-z0-9]{43}"),
    _token("crates-token", "cio", f"{_A}{{32}}", entropy=3.5),
    _token("docker-token", "dckr_(?:pat|oat)_", f"{_W}{{27,}}"),
    _token("postman-key", "PMAK-", rf"{_X}{{24}}-{_X}{{34}}"),
    _token("linear-key", "lin_(?:api|oauth)_", f"{_A}{{40,}}"),
    _token("notion-token", "ntn_", f"{_A}{{40,}}"),
    _token("notion-token", "secret_", f"{_A}{{43}}"),
    _token("figma-token", "fig[dou]_", f"{_W}{{40,}}"),
    _token("airtable-token", "pat", rf"{_A}{{14}}\.{_X}{{64}}"),
    _token("asana-token", "[012]/", r"\d{16}:[a-f0-9]{32}"),
    _token("grafana-token", "gl(?:sa|c)_", r"[A-Za-z0-9_+/=]{32,}"),
    _token("sentry-token", "sntry[su]_", r"[A-Za-z0-9_+/=]{40,}"),
    _token("newrelic-key", "NRAK-", "[A-Z0-9]{27}"),
    _token("dynatrace-token", r"dt0[a-zA-Z]\d\d\.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _token("1password-token", "ops_eyJ", f"{_W}{{60,}}"),
    _token("adafruit-key", "aio_", f"{_A}{{28}}"),
    _token("prefect-key", "pnu_", f"{_A}{{36}}"),
    # Mail and messages.
    _token("sendgrid-key", r"SG\.", rf"{_W}{{22}}\.{_W}{{43}}"),
    _token("resend-key", "re_", f"{_A}{{8}}_{_A}{{16,32}}"),
    _token("mailgun-key", "key-", f"{_X}{{32}}"),
    Rule(kind="mailchimp-key", pattern=rf"\b({_X}{{32}}-us\d{{1,2}})\b"),
    _token("brevo-key", "xkeysib-", rf"{_X}{{64}}-{_A}{{16}}"),
    _named("postmark-token", "postmark", rf"{_X}{{8}}-{_X}{{4}}-{_X}{{4}}-{_X}{{4}}-{_X}{{12}}"),
    _token("slack-token", "xox[abeoprs]-", r"[A-Za-z0-9-]{10,}", refuse=_WORDS),
    _token("slack-token", r"xapp-\d-", r"[A-Z0-9]{8,20}-\d{8,20}-[a-z0-9]{40,}"),
    _token("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/", r"[A-Za-z0-9_/+-]{30,}"),
    _token("discord-webhook", r"discord(?:app)?\.com/api/webhooks/", rf"\d{{15,22}}/{_W}{{50,}}"),
    Rule(kind="discord-token", pattern=rf"\b([MNO]{_A}{{23,27}}\.{_W}{{6}}\.{_W}{{27,40}})"),
    Rule(kind="telegram-token", pattern=rf"\b(\d{{8,10}}:AA{_W}{{32,34}})"),
    _token("twilio-key", "(?:SK|AC)", f"{_X}{{32}}"),
    # Money and shops.
    _token("stripe-key", "(?:sk|rk)_(?:live|test|prod)_", f"{_A}{{16,}}"),
    _token("webhook-secret", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    _token("square-token", r"sq0(?:atp|csp|idp)-", rf"{_W}{{22,}}"),
    _token("square-token", "EAAA[EA]", f"{_W}{{59,}}"),
    _token("facebook-token", "EAA[A-Z]", f"{_A}{{80,}}", entropy=4.0),
    _token("shopify-token", "shp(?:at|ca|pa|ss)_", "[a-fA-F0-9]{32}"),
    _token("flutterwave-key", "FLWSECK(?:_TEST)?-", r"[a-f0-9]{32}(?:-X)?"),
    _token("easypost-key", "EZ[AT]K", f"{_A}{{54}}"),
    _token("shippo-token", "shippo_(?:live|test)_", f"{_X}{{40}}"),
    _token("duffel-token", "duffel_(?:live|test)_", f"{_W}{{43}}"),
    _token("plaid-token", "access-(?:sandbox|development|production)-", rf"{_X}{{8}}-{_X}{{4}}-{_X}{{4}}-{_X}{{4}}-{_X}{{12}}"),
    _token("typeform-token", "tfp_", r"[A-Za-z0-9_.=-]{40,}"),
    _token("readme-key", "rdme_", r"[a-z0-9]{70}"),
    _token("contentful-token", "CFPAT-", f"{_W}{{43}}"),
    _token("dropbox-token", r"sl\.", rf"{_W}{{130,}}"),
)
