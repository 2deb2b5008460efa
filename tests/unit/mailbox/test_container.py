"""Whether a path is a packaged app's private copy."""

import pytest

from postroom.mailbox.container import container_of, warning_for

ROAMING = "C:\\Users\\you\\AppData\\Local\\Packages\\Vendor.App_8wekyb3d8bbwe\\LocalCache\\Roaming\\.postroom"


@pytest.mark.parametrize(
    ("path", "container"),
    [
        (ROAMING, "Vendor.App_8wekyb3d8bbwe"),
        (ROAMING.replace("\\", "/"), "Vendor.App_8wekyb3d8bbwe"),
        (ROAMING.upper(), "VENDOR.APP_8WEKYB3D8BBWE"),
        ("C:\\Users\\you\\AppData\\Roaming\\postroom", None),
        ("C:\\Users\\you\\AppData\\Local\\Packages\\Vendor.App\\LocalState", None),
        ("/home/you/.local/share/postroom", None),
        ("postroom", None),
        (None, None),
    ],
)
def test_b46_the_container_is_named_by_its_path(path: str | None, container: str | None):
    assert container_of(path) == container
    assert (warning_for(path) is None) is (container is None)


def test_b46_the_warning_names_the_app_and_the_way_out():
    assert "Vendor.App_8wekyb3d8bbwe" in (warning_for(ROAMING) or "")
    assert "--data" in (warning_for(ROAMING) or "")
