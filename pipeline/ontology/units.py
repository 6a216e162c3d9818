"""Convert amounts between units of one dimension, by a small table.

A library of units would be a dependency of every installation, and each of its versions another
one that results depend on. Units that are not in the table convert to nothing but themselves.
"""

from decimal import Decimal
from functools import cache
from typing import NamedTuple

from pipeline.text.ids import match_key

_DIMENSIONS: dict[str, dict[str, str]] = {
    "length": {
        "m": "1 metre meter metres meters",
        "mm": "0.001 millimetre millimeter millimetres millimeters",
        "cm": "0.01 centimetre centimeter centimetres centimeters",
        "km": "1000 kilometre kilometer kilometres kilometers kms",
        "in": "0.0254 inch inches",
        "ft": "0.3048 foot feet",
        "yd": "0.9144 yard yards",
        "mi": "1609.344 mile miles",
        "nmi": "1852 nautical_mile nautical_miles",
    },
    "mass": {
        "kg": "1 kilogram kilograms kilogramme kilogrammes kilo kilos",
        "g": "0.001 gram grams gramme grammes",
        "mg": "0.000001 milligram milligrams",
        "t": "1000 tonne tonnes metric_ton metric_tons",
        "lb": "0.45359237 lbs pound pounds",
        "oz": "0.028349523125 ounce ounces",
    },
    "time": {
        "s": "1 sec secs second seconds",
        "ms": "0.001 millisecond milliseconds",
        "min": "60 mins minute minutes",
        "h": "3600 hr hrs hour hours",
        "d": "86400 day days",
        "week": "604800 weeks",
        "year": "31557600 years yr yrs",
    },
    "area": {
        "m2": "1 m² sqm square_metre square_metres square_meter square_meters",
        "km2": "1000000 km² square_kilometre square_kilometres square_kilometer square_kilometers",
        "ha": "10000 hectare hectares",
        "acre": "4046.8564224 acres",
        "ft2": "0.09290304 ft² sqft square_foot square_feet",
        "mi2": "2589988.110336 mi² square_mile square_miles",
    },
    "volume": {
        "m3": "1 m³ cubic_metre cubic_metres cubic_meter cubic_meters",
        "l": "0.001 litre liter litres liters",
        "ml": "0.000001 millilitre milliliter millilitres milliliters",
    },
    "speed": {
        "m/s": "1 mps metres_per_second meters_per_second",
        "km/h": "1000/3600 kph kmh kilometres_per_hour kilometers_per_hour",
        "mph": "1609.344/3600 miles_per_hour",
        "kn": "1852/3600 knot knots",
    },
    "power": {
        "W": "1 watt watts",
        "kW": "1000 kilowatt kilowatts",
        "MW": "1000000 megawatt megawatts",
        "GW": "1000000000 gigawatt gigawatts",
    },
    "share": {"%": "1 percent per_cent pct"},
    "euro": {"EUR": "1 € euro euros"},
    "dollar": {"USD": "1 $ us$ dollar dollars us_dollar us_dollars"},
    "pound": {"GBP": "1 £ pound_sterling pounds_sterling"},
    "temperature": {"°C": "1 c celsius degree_celsius degrees_celsius"},
}
"""Dimension -> unit -> how many of the first unit it is, and its other names; _ stands for a
space. Only units that differ by a factor are here: degrees Fahrenheit do not."""
_CASED = frozenset({"mW"})
"""Spellings that only their case tells from another unit of the table: a milliwatt is no MW."""


class Unit(NamedTuple):
    """A unit of measurement. ``factor``: how many of its dimension's first unit it is."""

    dimension: str
    factor: Decimal


def convert_amount(amount: Decimal, unit: str, wanted: str) -> Decimal | None:
    """Return the amount in the wanted unit, or None if the units are of different dimensions.

    Units that the table does not have are equal where they are written alike, whatever the case.
    """
    if unit == wanted or (unit_key(unit) == unit_key(wanted) and unit not in _CASED):
        return amount
    known, target = find_unit(unit), find_unit(wanted)
    if known is None or target is None or known.dimension != target.dimension:
        return None
    return amount * known.factor / target.factor


def find_unit(name: str) -> Unit | None:
    """Return the unit of this name or spelling, or None if the table has none."""
    return None if name in _CASED else _units_by_key().get(unit_key(name))


def unit_key(name: str) -> str:
    """Return the key that is equal for all spellings of a unit's name: "Sq. m" is "sq m"."""
    plain = name.strip().rstrip(".").replace("_", " ")
    return match_key(plain) or plain.casefold()


@cache
def _units_by_key() -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for dimension, table in _DIMENSIONS.items():
        for name, entry in table.items():
            factor, *spellings = entry.split()
            above, _, below = factor.partition("/")
            unit = Unit(dimension, Decimal(above) / Decimal(below or 1))
            for spelling in (name, *spellings):
                units.setdefault(unit_key(spelling), unit)
    return units
