from __future__ import annotations

import pytest

from app.domain.errors import PermissionDenied
from app.domain.model import Caller, Grant, Permission, Principal, ProjectRef
from app.domain.permission import Reach, may, may_tenant, need, need_tenant, reach

SHOP, LAB = ProjectRef("shop", "retail"), ProjectRef("lab")
PERMISSIONS: tuple[Permission, ...] = ("read", "write", "admin")


def member(*grants: Grant) -> Caller:
    return Caller("t", Principal("service", "x"), "x", "member", grants)


ADMIN = Caller("t", Principal("user", "ann"), "x", "admin")


@pytest.mark.parametrize("held", PERMISSIONS)
@pytest.mark.parametrize("asked", PERMISSIONS)
def test_admin_implies_write_implies_read(held: Permission, asked: Permission) -> None:
    holds = PERMISSIONS.index(held) >= PERMISSIONS.index(asked)
    assert may(member(Grant("project", held, "shop")), asked, SHOP) == holds
    assert may_tenant(member(Grant("tenant", held)), asked) == holds


@pytest.mark.parametrize(
    ("grant", "shop", "lab", "tenant"),
    [
        (Grant("tenant", "write"), True, True, True),
        (Grant("org", "write", "retail"), True, False, False),
        (Grant("org", "write", "other"), False, False, False),
        (Grant("org", "write", "shop"), False, False, False),
        (Grant("project", "write", "shop"), True, False, False),
        (Grant("project", "write", "retail"), False, False, False),
        (Grant("project", "write", "lab"), False, True, False),
    ],
)
def test_a_wider_scope_holds_the_narrower_ones(grant: Grant, shop: bool, lab: bool, tenant: bool) -> None:
    caller = member(grant)
    assert (may(caller, "write", SHOP), may(caller, "write", LAB), may_tenant(caller, "write")) == (shop, lab, tenant)


def test_an_admin_may_everything_and_a_member_without_grants_nothing() -> None:
    assert all(may(ADMIN, permission, LAB) for permission in PERMISSIONS)
    assert not any(may(member(), permission, LAB) for permission in PERMISSIONS)
    with pytest.raises(PermissionDenied, match="'read' on project 'lab'"):
        need(member(), "read", LAB)
    with pytest.raises(PermissionDenied, match="'read' on the tenant"):
        need_tenant(member(Grant("project", "admin", "lab")), "read")


def test_reach_names_what_a_query_filters_by() -> None:
    grants = Grant("project", "read", "lab"), Grant("org", "admin", "retail"), Grant("project", "write", "shop")
    assert reach(member(*grants), "read") == Reach(False, ("lab", "shop"), ("retail",))
    assert reach(member(*grants), "admin") == Reach(False, (), ("retail",))
    assert reach(member(*grants, Grant("tenant", "read")), "read").everything
    assert reach(ADMIN, "admin") == Reach(everything=True)
