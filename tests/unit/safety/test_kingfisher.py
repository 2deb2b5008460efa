"""MongoDB's scanner as a second engine: what only it finds counts, and our own findings stay."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from pace import PATIENCE_S
from postroom.errors import Invalid
from postroom.safety.kingfisher import Kingfisher
from postroom.safety.redact import Redactor
from secret_formats import FORMATS


@pytest.fixture(scope="module")
def redactor(tmp_path_factory: pytest.TempPathFactory) -> Redactor:
    return Redactor(["correct-horse-battery-9"], engines=[Kingfisher(tmp_path_factory.mktemp("rules") / "cache")])


def test_what_our_own_rules_do_not_decode_it_finds(redactor: Redactor) -> None:
    _, secret = FORMATS["github personal"]()
    coded = base64.b64encode(f"token={secret}".encode()).decode()
    text = f"é 日 see {coded} and correct-horse-battery-9"
    assert [text[span.start : span.end] for span in Redactor().find(text)] == []
    assert [text[span.start : span.end] for span in redactor.find(text)] == [coded, "correct-horse-battery-9"]
    assert secret not in redactor.redact(text)[0]


def test_what_both_find_is_one_finding(redactor: Redactor) -> None:
    _, secret = FORMATS["github personal"]()
    assert redactor.redact(f"see {secret} here")[1] == 1


@pytest.mark.parametrize("text", ["", "Dear Ada, see you at noon.", "\ud800 \x00 \ufeff", "A" * 100_000])
def test_clean_and_odd_text_stays(redactor: Redactor, text: str) -> None:
    assert redactor.find(text) == []


def test_no_false_alarm_on_real_mail(redactor: Redactor, cases: Path) -> None:
    mails = (path.read_bytes() for path in sorted((cases / "mail").rglob("*")) if path.is_file())
    assert [redactor.kinds_in(mail) for mail in mails if redactor.kinds_in(mail)] == []


def test_it_is_loaded_only_where_it_is_asked_for() -> None:
    program = "import sys, postroom.app.house, postroom.safety.kingfisher; sys.exit('kingfisher_sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S).returncode == 0


def test_without_its_package_the_setting_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kingfisher_sdk", None)
    with pytest.raises(Invalid) as problem:
        Kingfisher(tmp_path)
    assert problem.value.fix == "pip install 'postroom[kingfisher]'"
