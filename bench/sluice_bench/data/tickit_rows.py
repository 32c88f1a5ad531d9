"""Generates the rows of a TICKIT-like database (AWS's ticket-sales sample). The same seed and id give the same row."""

import datetime as dt
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from types import MappingProxyType

Row = dict[str, object]

EPOCH = dt.date(1970, 1, 1)
FIRST_DAY = dt.date(2008, 1, 1)
FIRST_DATE_ID = 1827
SECONDS_PER_DAY = 86_400
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
HOLIDAYS = frozenset({(1, 1), (7, 4), (11, 27), (12, 25)})
FIRST_NAMES = (
    "Naida",
    "Lars",
    "Colette",
    "Mufutau",
    "Désirée",
    "Reagan",
    "Søren",
    "Tamekah",
    "Quail",
    "Ulysses",
    "Xanthus",
    "Brock",
)
LAST_NAMES = (
    "Watkins",
    "Ratliff",
    "Humphrey",
    "Juarez",
    "Roy",
    "Øst",
    "Hodge",
    "Taylor",
    "Núñez",
    "Sharp",
    "Lindsey",
    "Müller",
)
CITIES = (
    ("Miami", "FL"),
    ("Atlanta", "GA"),
    ("New York", "NY"),
    ("Boston", "MA"),
    ("Columbus", "OH"),
    ("Houston", "TX"),
    ("Seattle", "WA"),
    ("Washington", "DC"),
    ("Los Angeles", "CA"),
    ("Chicago", "IL"),
    ("Denver", "CO"),
    ("Portland", "OR"),
)
SHOWS = (
    "Björk",
    "Macbeth",
    "Wicked",
    "Hamlet",
    "Shear Madness",
    "Radiohead",
    "La Bohème",
    "Spamalot",
    "Jane Monheit",
    "Gotterdammerung",
    "Keb Mo",
)
CATEGORIES = (
    ("Sports", "MLB", "Major League Baseball"),
    ("Sports", "NHL", "National Hockey League"),
    ("Sports", "NFL", "National Football League"),
    ("Sports", "NBA", "National Basketball Association"),
    ("Sports", "MLS", "Major League Soccer"),
    ("Shows", "Musicals", "Musical theatre"),
    ("Shows", "Plays", "All non-musical theatre"),
    ("Shows", "Opera", "All opera and light opera"),
    ("Concerts", "Pop", "All rock and pop music concerts"),
    ("Concerts", "Jazz", "All jazz singers and bands"),
    ("Concerts", "Classical", "All symphony, concerto, and choir concerts"),
)


@dataclass(frozen=True)
class Sizes:
    """Rows of each table, by default those of AWS's sample: 424,319 in all."""

    user: int = 49_990
    venue: int = 202
    category: int = 11
    date: int = 365
    event: int = 8_798
    listing: int = 192_497
    sale: int = 172_456

    @classmethod
    def scaled(cls, scale: float) -> "Sizes":
        """The default sizes times `scale`, at least one row each.

        Calendar and categories keep theirs: the others refer to them.
        """
        if scale <= 0:
            raise ValueError(f"scale must be positive, not {scale}")
        unscaled = ("category", "date")
        return cls(
            **{
                table: count if table in unscaled else max(1, round(count * scale))
                for table, count in asdict(cls()).items()
            }
        )

    def by_table(self) -> dict[str, int]:
        """Rows by table name."""
        return asdict(self)

    @property
    def total(self) -> int:
        """Rows of all tables."""
        return sum(self.by_table().values())


def _cents(draw: random.Random, low: int, high: int) -> Decimal:
    return Decimal(draw.randrange(low, high) * 100).scaleb(-2)


def _user(draw: random.Random, at: int, sizes: Sizes) -> Row:
    city, state = draw.choice(CITIES)
    likes = draw.choices((True, False, None), k=3)
    return {
        "userid": at,
        "username": f"{''.join(draw.choices('ABCDEFGHJKLMNPQRSTUVWXYZ', k=3))}{at:05d}",
        "firstname": draw.choice(FIRST_NAMES),
        "lastname": draw.choice(LAST_NAMES),
        "city": city,
        "state": state,
        "email": f"u{at}@example.org",
        "phone": f"({draw.randrange(200, 1000):03d}) {draw.randrange(200, 1000):03d}-{draw.randrange(10_000):04d}",
        "likesports": likes[0],
        "liketheatre": likes[1],
        "likejazz": likes[2],
    }


def _venue(draw: random.Random, at: int, sizes: Sizes) -> Row:
    city, state = draw.choice(CITIES)
    return {
        "venueid": at,
        "venuename": f"{draw.choice(LAST_NAMES)} Park {at}",
        "venuecity": city,
        "venuestate": state,
        "venueseats": draw.choice((None, 0, 18_500, 41_077, 68_000)),
    }


def _category(draw: random.Random, at: int, sizes: Sizes) -> Row:
    group, name, text = CATEGORIES[at - 1]
    return {"catid": at, "catgroup": group, "catname": name, "catdesc": text}


def _date(draw: random.Random, at: int, sizes: Sizes) -> Row:
    day = FIRST_DAY + dt.timedelta(days=at - 1)
    return {
        "dateid": FIRST_DATE_ID + at - 1,
        "caldate": (day - EPOCH).days,
        "day": WEEKDAYS[day.weekday()],
        "week": day.isocalendar().week,
        "month": MONTHS[day.month - 1],
        "qtr": str((day.month + 2) // 3),
        "year": day.year,
        "holiday": int((day.month, day.day) in HOLIDAYS),
    }


def _seconds(draw: random.Random, day: int) -> int:
    midnight = (FIRST_DAY - EPOCH).days + day
    return midnight * SECONDS_PER_DAY + draw.randrange(SECONDS_PER_DAY)


def _event(draw: random.Random, at: int, sizes: Sizes) -> Row:
    day = draw.randrange(sizes.date)
    return {
        "eventid": at,
        "venueid": draw.randint(1, sizes.venue),
        "catid": draw.randint(1, sizes.category),
        "dateid": FIRST_DATE_ID + day,
        "eventname": draw.choice(SHOWS),
        "starttime": _seconds(draw, day) * 1_000_000,
    }


def _listing(draw: random.Random, at: int, sizes: Sizes) -> Row:
    day, tickets, price = draw.randrange(sizes.date), draw.randint(1, 30), _cents(draw, 20, 2_500)
    listed = dt.datetime.fromtimestamp(_seconds(draw, day), dt.timezone.utc)
    return {
        "listid": at,
        "sellerid": draw.randint(1, sizes.user),
        "eventid": draw.randint(1, sizes.event),
        "dateid": FIRST_DATE_ID + day,
        "numtickets": tickets,
        "priceperticket": price,
        "totalprice": price * tickets,
        "listtime": listed.strftime("%Y-%m-%dT%H:%M:%S") + f".{draw.randrange(1_000_000):06d}Z",
    }


def _sale(draw: random.Random, at: int, sizes: Sizes) -> Row:
    day, quantity, price = draw.randrange(sizes.date), draw.randint(1, 8), _cents(draw, 20, 2_500)
    paid = price * quantity
    return {
        "salesid": at,
        "listid": draw.randint(1, sizes.listing),
        "sellerid": draw.randint(1, sizes.user),
        "buyerid": draw.randint(1, sizes.user),
        "eventid": draw.randint(1, sizes.event),
        "dateid": FIRST_DATE_ID + day,
        "qtysold": quantity,
        "pricepaid": paid,
        "commission": (paid * 15 / 100).quantize(Decimal("0.01")),
        "saletime": _seconds(draw, day) * 1_000 + draw.randrange(1_000),
    }


MAKERS: Mapping[str, Callable[[random.Random, int, Sizes], Row]] = MappingProxyType(
    {
        "user": _user,
        "venue": _venue,
        "category": _category,
        "date": _date,
        "event": _event,
        "listing": _listing,
        "sale": _sale,
    }
)


def row(table: str, number: int, *, seed: int, sizes: Sizes) -> Row:
    """Row `number` (from 1) of a table, in fastavro's types for Debezium's schema."""
    return MAKERS[table](random.Random(f"{seed}/{table}/{number}"), number, sizes)
