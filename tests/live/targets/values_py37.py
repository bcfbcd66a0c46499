"""Dataclasses, which came with 3.7."""

import dataclasses
import typing

from values import stand_still, tell


@dataclasses.dataclass
class Point:
    x: int
    y: "typing.Any" = None
    secret: str = dataclasses.field(default="s", repr=False)
    shared: typing.ClassVar[int] = 3


class Outer:
    @dataclasses.dataclass(frozen=True)
    class Inner:
        points: list


def records(then):
    point, inner = Point(1, "two"), Outer.Inner([Point(3)])
    tell("records", locals(), ["then"])
    then()


if __name__ == "__main__":
    records(stand_still)
