"""Consumers of KIP-848 whose instance id changes under one member id."""

from tests.differential.play import Play
from tests.differential.situations.consumer_groups import beat, describe, enter, own
from tests.differential.table import situation


@situation("a static consumer changes its group instance id", setting="modern")
def instance_changes(w: Play) -> None:
    a = w.client("a", instance="one")
    own(a, enter(a))
    enter(a, instance_id="two")
    describe(a)
    beat(a)
    beat(a, instance_id="two")
    beat(a, instance_id=None)
    enter(a, instance_id=None)
    beat(a, member_epoch=-2)
    enter(a, instance_id="two")
    enter(a, instance_id=None)
    describe(a)
    beat(a, member_epoch=-1, instance_id="two")
    beat(a, member_epoch=-1, instance_id=None)
    describe(a)


@situation("a consumer becomes static under its member id", setting="modern")
def instance_appears(w: Play) -> None:
    a, b = w.client("a"), w.client("b", instance="one")
    own(a, enter(a))
    enter(b)
    enter(a, instance_id="two")
    describe(a)
    enter(a, instance_id="one")
    beat(b, member_epoch=-2)
    enter(a, instance_id="one")
    describe(a)


@situation("a static consumer restarts with another group instance id", setting="modern")
def instance_changed(w: Play) -> None:
    a = w.client("a", instance="one")
    own(a, enter(a))
    a.instance = "two"
    own(a, enter(a))
    enter(a)
    beat(a, member_epoch=-2)
    enter(a)
    describe(a)
    beat(a, member_epoch=-1)
    describe(a)


@situation("a group instance id that a consumer no longer has is taken by another", setting="modern")
def instance_taken(w: Play) -> None:
    a, b = w.client("a", instance="one"), w.client("b", instance="one")
    own(a, enter(a))
    enter(a, instance_id="two")
    enter(b)
    describe(a)
    beat(a, member_epoch=-1, instance_id="two")
    enter(b)
    describe(a)
