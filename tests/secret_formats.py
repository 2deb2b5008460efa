"""Made-up secrets in the forms their issuers give them, put together here so that none stands in the repository.

Each form is written from what its issuer documents, not from our rules.
"""

import base64
import random
import string
from collections.abc import Callable

_random = random.Random(20_26)
_HEX, _UP, _LOW, _DIGITS = "0123456789abcdef", string.ascii_uppercase, string.ascii_lowercase, string.digits
_ALNUM = _UP + _LOW + _DIGITS
_URL = _ALNUM + "_-"


def _some(alphabet: str, length: int) -> str:
    """A word of `length` with at least one letter and one digit, as random tokens have."""
    while True:
        word = "".join(_random.choice(alphabet) for _ in range(length))
        if word[0].isalnum() and word[-1].isalnum() and any(map(str.isdigit, word)) and any(map(str.isalpha, word)):
            return word


def _uuid() -> str:
    return "-".join(_some(_HEX, length) for length in (8, 4, 4, 4, 12))


def _jwt() -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(b'{"sub":"1234567890","name":"A. Nobody"}').decode().rstrip("=")
    return f"{head}.{body}.{_some(_URL, 43)}"


def _pem(kind: str) -> str:
    lines = "\n".join(_some(_ALNUM + "+/", 64) for _ in range(6))
    return f"-----BEGIN {kind}-----\n{lines}\n{_some(_ALNUM, 20)}==\n-----END {kind}-----"


def _token(prefix: str, alphabet: str, length: int, suffix: str = "") -> Callable[[], tuple[str, str]]:
    def make() -> tuple[str, str]:
        secret = prefix + _some(alphabet, length) + suffix
        return secret, secret

    return make


def _whole(make: Callable[[], str]) -> Callable[[], tuple[str, str]]:
    def both() -> tuple[str, str]:
        secret = make()
        return secret, secret

    return both


def _inside(before: str, make: Callable[[], str], after: str = "") -> Callable[[], tuple[str, str]]:
    """A secret that is known only by what stands around it."""

    def both() -> tuple[str, str]:
        secret = make()
        return before + secret + after, secret

    return both


# name → a function giving (text that holds the secret, the secret)
FORMATS: dict[str, Callable[[], tuple[str, str]]] = {
    "postroom key": _whole(lambda: f"am_key_{_some(_HEX, 32)}_{_some(_HEX, 48)}"),
    "agentmail key": _token("am_", _ALNUM, 40),
    "agentmail key with a region": _token("am_us_", _HEX, 64),
    "aws key id": _token("AK" + "IA", _UP + "234567", 16),
    "aws temporary key id": _token("AS" + "IA", _UP + "234567", 16),
    "aws secret key": _inside("aws_secret_access_key = ", lambda: _some(_ALNUM + "+/", 40)),
    "github personal": _token("ghp_", _ALNUM, 36),
    "github oauth": _token("gho_", _ALNUM, 36),
    "github app": _token("ghs_", _ALNUM, 36),
    "github fine-grained": _whole(lambda: f"github_pat_{_some(_ALNUM, 22)}_{_some(_ALNUM, 59)}"),
    "gitlab personal": _token("glpat-", _URL, 20),
    "gitlab routable": _whole(lambda: f"glpat-{_some(_URL, 27)}.01.{_some(_LOW + _DIGITS, 9)}"),
    "bitbucket app password": _token("ATBB", _ALNUM, 32),
    "atlassian api token": _token("ATATT3xFfGF0", _URL, 170, "=" + "1A2B3C4D"),
    "npm": _token("npm_", _ALNUM, 36),
    "pypi": _token("pypi-AgEIcHlwaS5vcmc", _URL, 160),
    "rubygems": _token("rubygems_", _HEX, 48),
    "nuget": _token("oy2", _LOW + _DIGITS, 43),
    "docker hub": _token("dckr_pat_", _URL, 27),
    "postman": _whole(lambda: f"PMAK-{_some(_HEX, 24)}-{_some(_HEX, 34)}"),
    "openai legacy": _token("sk-", _ALNUM, 48),
    "openai project": _token("sk-proj-", _URL, 120),
    "openai service account": _token("sk-svcacct-", _URL, 120),
    "anthropic api": _token("sk-ant-api03-", _URL, 93, "AA"),
    "anthropic oauth": _token("sk-ant-oat01-", _URL, 93, "AA"),
    "openrouter": _token("sk-or-v1-", _HEX, 64),
    "deepseek": _token("sk-", _HEX, 32),
    "hugging face": _token("hf_", _ALNUM, 34),
    "replicate": _token("r8_", _ALNUM, 37),
    "groq": _token("gsk_", _ALNUM, 52),
    "perplexity": _token("pplx-", _ALNUM, 48),
    "xai": _token("xai-", _ALNUM, 80),
    "google api key": _token("AI" + "za", _URL, 35),
    "google access token": _token("ya29.", _URL, 120),
    "google refresh token": _token("1//0", _URL, 98),
    "google client secret": _token("GOCSPX-", _URL, 28),
    "azure client secret": _whole(lambda: f"{_some(_ALNUM, 3)}8Q~{_some(_ALNUM, 34)}"),
    "azure storage": _inside(
        "DefaultEndpointsProtocol=https;AccountName=box;AccountKey=", lambda: _some(_ALNUM + "+/", 86), "==;EndpointSuffix=x"
    ),
    "azure signed url": _inside("https://box.blob.core.windows.net/a?sv=2022&sig=", lambda: _some(_ALNUM, 43), "%3D"),
    "digitalocean": _token("dop_v1_", _HEX, 64),
    "alibaba": _token("LTAI", _ALNUM, 20),
    "netlify": _token("nfp_", _ALNUM, 36),
    "tailscale": _whole(lambda: f"tskey-auth-{_some(_ALNUM, 12)}CNTRL-{_some(_ALNUM, 32)}"),
    "pulumi": _token("pul-", _HEX, 40),
    "doppler": _token("dp.pt.", _ALNUM, 43),
    "vault": _token("hvs.", _URL, 90),
    "terraform cloud": _whole(lambda: f"{_some(_ALNUM, 14)}.atlasv1.{_some(_URL, 67)}"),
    "planetscale": _token("pscale_tkn_", _URL, 43),
    "databricks": _token("dapi", _HEX, 32),
    "supabase": _token("sbp_", _HEX, 40),
    "fly": _token("FlyV1 fm2_", _ALNUM + "+/", 120),
    "linear": _token("lin_api_", _ALNUM, 40),
    "notion": _token("ntn_", _ALNUM, 46),
    "figma": _token("figd_", _URL, 40),
    "airtable": _whole(lambda: f"pat{_some(_ALNUM, 14)}.{_some(_HEX, 64)}"),
    "grafana service account": _whole(lambda: f"glsa_{_some(_ALNUM, 32)}_{_some(_HEX, 8)}"),
    "sentry": _token("sntryu_", _HEX, 64),
    "new relic": _token("NRAK-", _UP + _DIGITS, 27),
    "dynatrace": _whole(lambda: f"dt0c01.{_some(_UP + _DIGITS, 24)}.{_some(_UP + _DIGITS, 64)}"),
    "sendgrid": _whole(lambda: f"SG.{_some(_URL, 22)}.{_some(_URL, 43)}"),
    "resend": _whole(lambda: f"re_{_some(_ALNUM, 8)}_{_some(_ALNUM, 24)}"),
    "mailgun": _token("key-", _HEX, 32),
    "mailchimp": _whole(lambda: f"{_some(_HEX, 32)}-us14"),
    "brevo": _whole(lambda: f"xkeysib-{_some(_HEX, 64)}-{_some(_ALNUM, 16)}"),
    "postmark": _inside("X-Postmark-Server-Token: ", _uuid),
    "slack bot": _whole(lambda: f"xoxb-{_some(_DIGITS + 'a', 12)}-{_some(_DIGITS + 'b', 12)}-{_some(_ALNUM, 24)}"),
    "slack app": _whole(lambda: f"xapp-1-A{_some(_UP + _DIGITS, 10)}-1234567890123-{_some(_HEX, 64)}"),
    "slack webhook": _inside(
        "https://hooks.slack.com/services/", lambda: f"T{_some(_UP + _DIGITS, 8)}/B{_some(_UP + _DIGITS, 8)}/{_some(_ALNUM, 24)}"
    ),
    "discord webhook": _inside("https://discord.com/api/webhooks/1234567890123456789/", lambda: _some(_URL, 68)),
    "discord bot": _whole(lambda: f"MTI{_some(_ALNUM, 21)}.{_some(_URL, 6)}.{_some(_URL, 38)}"),
    "telegram bot": _whole(lambda: f"7123456789:AA{_some(_URL, 33)}"),
    "twilio key": _token("SK", _HEX, 32),
    "stripe secret": _token("sk_live_", _ALNUM, 24),
    "stripe restricted": _token("rk_test_", _ALNUM, 99),
    "webhook secret": _token("whsec_", _ALNUM + "+/", 32),
    "square": _token("sq0atp-", _URL, 22),
    "facebook": _token("EAAB", _ALNUM, 160),
    "shopify": _token("shpat_", _HEX, 32),
    "easypost": _token("EZAK", _ALNUM, 54),
    "plaid": _whole(lambda: f"access-production-{_uuid()}"),
    "contentful": _token("CFPAT-", _URL, 43),
    "jwt": _whole(_jwt),
    "rsa private key": _whole(lambda: _pem("RSA PRIVATE " + "KEY")),
    "openssh private key": _whole(lambda: _pem("OPENSSH PRIVATE " + "KEY")),
    "pgp private key": _whole(lambda: _pem("PGP PRIVATE " + "KEY BLOCK")),
    "age key": _token("AGE-SECRET-KEY-1", _UP + _DIGITS, 58),
    "bearer header": _inside("Authorization: Bearer ", lambda: _some(_ALNUM, 40)),
    "basic header": _inside("Authorization: Basic ", lambda: base64.b64encode(f"bob:{_some(_ALNUM, 12)}".encode()).decode()),
    "password in a url": _inside("postgresql://bob:", lambda: _some(_ALNUM, 16), "@db.example.net/app"),
    "password in a sentence": _inside("The password is ", lambda: _some(_ALNUM + "!#", 12), " and it works"),
    "password in a list": _inside("Password: ", lambda: _some(_ALNUM + "!#", 12)),
    "assigned api key": _inside("api_key=", lambda: _some(_ALNUM, 32)),
    "one-time password": _inside("otpauth://", lambda: f"totp/box:bob?secret={_some(_UP + '234567', 32)}&issuer=box"),
}

CONTEXTS = {
    "in a sentence": "Hello,\n\nplease use {} for the deploy on Friday.\nThanks, Bob\n",
    "in a setting": 'export X9="{}"\nexport Y=1\n',
    "in json": '{{"user": "bob", "value": "{}", "count": 3}}',
}
