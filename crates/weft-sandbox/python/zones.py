"""The time zones of `zoneinfo`, which it would read from files.

`zone_data` is made when the interpreter is built: `ZONES` has the file of each zone by its name.
"""

import io
import zoneinfo
import zoneinfo._common
import zoneinfo._tzpath

import zone_data


def load_tzdata(key):
    try:
        return io.BytesIO(zone_data.ZONES[key])
    except KeyError:
        raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}") from None


def available_timezones():
    return set(zone_data.ZONES)


zoneinfo._common.load_tzdata = load_tzdata
zoneinfo._tzpath.available_timezones = available_timezones
zoneinfo.available_timezones = available_timezones
