"""The keys of pipeline.toml: names, types, defaults and meanings.

An unlisted key is refused. docs/guide/spark/pipelines.md has the same keys: a test compares them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Section(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A table of the file."""


class PipelineKeys(Section):
    name: Annotated[str, Meta(description="Owns the tables; letters, digits, - and _.")]
    topics: Annotated[list[str], Meta(description="The topics that are read.")]
    directory: Annotated[
        str, Meta(description="Folder of tables without a path of their own; relative to the file.")
    ] = "lake"
    checkpoint: Annotated[
        str | None, Meta(description="Spark's checkpoint (default: directory/_checkpoint).")
    ] = None
    start: Annotated[
        Literal["earliest", "latest", "table"],
        Meta(description="Start of a new checkpoint; table: where the tables end."),
    ] = "table"


class BronzeKeys(Section):
    table: Annotated[
        str | None, Meta(description="Folder of the raw records (default: directory/bronze).")
    ] = None
    on_loss: Annotated[
        Literal["stop", "record"],
        Meta(description="If retention removed records before they were read: stop, or count."),
    ] = "stop"
    max_offsets_per_trigger: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Limit of one micro-batch.")
    ] = None


class ColumnKeys(Section):
    """A column with more settings than its type."""

    type: Annotated[
        str,
        Meta(
            description="Name of the type; also json, struct<name:type,…>, array<type> and"
            " map<string,type>."
        ),
    ]
    format: Annotated[
        str | None,
        Meta(
            description="Format of a date or timestamp for strptime (default: ISO); epoch_s,"
            " epoch_ms, epoch_us or epoch_ns for numbers since 1970."
        ),
    ] = None
    trim: Annotated[bool, Meta(description="Blanks at both ends of a text do not count.")] = False
    null_values: Annotated[list[str], Meta(description="Texts that mean null in this column.")] = (
        msgspec.field(default_factory=list)
    )
    required: Annotated[bool, Meta(description="A record without a value goes to quarantine.")] = (
        False
    )
    default: Annotated[
        str | int | float | bool | None, Meta(description="The value in place of null.")
    ] = None
    zone: Annotated[
        str | None,
        Meta(description="Zone of a timestamp's texts without one, like Europe/Berlin."),
    ] = None
    field: Annotated[
        str | None,
        Meta(
            description="Field of json, avro or protobuf (default: the column's name), or a path to"
            " one, like page.url, items[0].sku or $.page.url; $ is the whole value."
        ),
    ] = None
    source: Annotated[
        str | None,
        Meta(description="The part of the record: key, header:NAME or value (the default)."),
    ] = msgspec.field(default=None, name="from")


class DedupeKeys(Section):
    """The duplicates that do not go into silver."""

    key: Annotated[list[str], Meta(description="Columns whose values are the same in duplicates.")]
    within: Annotated[
        str, Meta(description="How far apart the event times of duplicates may be, like 1 day.")
    ]


class SilverKeys(Section):
    format: Annotated[
        Literal["json", "csv", "avro", "protobuf", "regex"],
        Meta(description="How values are parsed."),
    ]
    event_time: Annotated[
        str,
        Meta(description="A column of type timestamp or date; timestamp: the record's own time."),
    ]
    columns: Annotated[
        dict[str, str | ColumnKeys],
        Meta(description="Name and type of each; for csv in the order of the fields."),
    ]
    name: Annotated[
        str | None,
        Meta(description="For [[silver]], of which a file may have several: the table's name."),
    ] = None
    topics: Annotated[
        list[str],
        Meta(description="For [[silver]]: the topics of this table; each topic has one table."),
    ] = msgspec.field(default_factory=list)
    max_ahead: Annotated[
        str,
        Meta(
            description="How far an event time may be after its record's timestamp, like 1 hour;"
            " unlimited for no limit. Beyond it the record goes to quarantine."
        ),
    ] = "1 hour"
    table: Annotated[
        str | None,
        Meta(
            description="Folder of parsed rows (default: directory/silver; directory/silver_NAME"
            " for a table with a name)."
        ),
    ] = None
    quarantine: Annotated[
        str | None,
        Meta(
            description="Folder of records that do not parse (default: quarantine beside silver;"
            " quarantine_NAME for a table with a name)."
        ),
    ] = None
    explode: Annotated[
        str | None,
        Meta(
            description="For json, avro and protobuf: path of an array, each element of which is a"
            " row."
        ),
    ] = None
    dedupe: Annotated[
        DedupeKeys | None,
        Meta(
            description="Rows that repeat an earlier row of their partition go to quarantine, as"
            " { key = ['id'], within = '1 day' }."
        ),
    ] = None
    on_new_field: Annotated[
        Literal["add", "stop", "ignore"],
        Meta(description="A json field without a column: add a column, stop silver, or ignore it."),
    ] = "stop"
    quarantine_limit: Annotated[
        int | str | None,
        Meta(
            description="Number of quarantined rows of one batch beyond which silver stops, or a"
            " share such as 1% of a batch of 1,000 rows or more."
        ),
    ] = None
    on_crash: Annotated[
        Literal["stop", "quarantine"],
        Meta(
            description="A record that ends the process that parses it, or takes longer than"
            " parse_deadline: stop silver and name it, or quarantine it."
        ),
    ] = "stop"
    parse_deadline: Annotated[
        str, Meta(description="How long a task may parse one batch of 2 MiB, like 2 minutes.")
    ] = "2 minutes"
    pattern: Annotated[
        str | None, Meta(description="For regex: RE2, a named group for each column.")
    ] = None
    avro_schema: Annotated[
        str | None,
        Meta(
            description="For avro: the file of the writer's schema; with schemas, of the reader's"
            " (default: the schema of the greatest id)."
        ),
    ] = None
    registry: Annotated[
        Literal["header"] | None,
        Meta(
            description="For avro and protobuf: values begin with a registry's header, a zero byte"
            " and four bytes of the schema's id."
        ),
    ] = None
    schemas: Annotated[
        dict[str, str],
        Meta(description="For avro: the files of the writers' schemas by their ids in the header."),
    ] = msgspec.field(default_factory=dict)
    descriptor: Annotated[
        str | None,
        Meta(
            description="For protobuf: the file that protoc writes with --include_imports and"
            " --descriptor_set_out."
        ),
    ] = None
    message: Annotated[
        str | None, Meta(description="For protobuf: full name of the message, like shop.Order.")
    ] = None
    delimiter: Annotated[str | None, Meta(description="For csv (default: a comma).")] = None
    quote: Annotated[str | None, Meta(description='For csv (default: "); empty for none.')] = None
    null_values: Annotated[
        list[str], Meta(description="For csv and regex: texts that mean null.")
    ] = msgspec.field(default_factory=list)


class GoldKeys(Section):
    name: Annotated[str, Meta(description="Name of the step and its table.")]
    watermark: Annotated[
        str | dict[str, str],
        Meta(
            description="How long the step waits for rows, like 5 minutes; or for the rows of each"
            " topic, as { orders = '5 minutes', returns = '1 hour' }: then each topic has a"
            " watermark, and the earliest one counts."
        ),
    ]
    sql: Annotated[
        str,
        Meta(description="Spark SQL over the view silver; gives window_start and window_end."),
    ]
    silver: Annotated[
        str | None, Meta(description="Name of the silver table, if there are several.")
    ] = None
    table: Annotated[
        str | None, Meta(description="Folder of the step's rows (default: directory/gold/NAME).")
    ] = None
    late: Annotated[
        Literal["drop", "update"],
        Meta(
            description="Rows that come after their window was closed: leave them out and count"
            " them, or compute the window again and replace its rows."
        ),
    ] = "drop"
    idle_after: Annotated[
        str | None,
        Meta(
            description="A topic or partition without new rows for so long holds the watermark no"
            " longer (default: it holds it until it has rows again)."
        ),
    ] = None
    window: Annotated[str | None, Meta(description="Length of a window, like 1 hour.")] = None
    slide: Annotated[
        str | None,
        Meta(description="Interval between window starts (default: the window's length)."),
    ] = None
    zone: Annotated[
        str | None,
        Meta(description="Zone whose days and weeks the windows are, like Europe/Berlin."),
    ] = None
    offset: Annotated[
        str | None, Meta(description="How much later than usual windows begin, like 6 hours.")
    ] = None
    session: Annotated[
        str | None, Meta(description="In place of window: the gap that ends a session.")
    ] = None
    session_key: Annotated[
        list[str], Meta(description="Columns; rows with equal values make a session.")
    ] = msgspec.field(default_factory=list)


class StateKeys(Section):
    name: Annotated[str, Meta(description="Name of the step and its table.")]
    silver: Annotated[
        str | None, Meta(description="Name of the silver table, if there are several.")
    ] = None
    key: Annotated[
        list[str],
        Meta(description="Columns of silver; one row for each of their values (default: key)."),
    ] = msgspec.field(default_factory=lambda: ["key"])
    order: Annotated[
        str | list[str],
        Meta(
            description="Columns whose greatest values make the latest row; offset: the last record"
            " of the key's partition."
        ),
    ] = "offset"
    delete_when: Annotated[
        str | None,
        Meta(description="SQL condition: such a row deletes its key, as a tombstone does."),
    ] = None
    table: Annotated[
        str | None, Meta(description="Folder of the rows (default: directory/state/NAME).")
    ] = None


class FileKeys(Section):
    pipeline: PipelineKeys
    silver: SilverKeys | list[SilverKeys]
    bronze: BronzeKeys = msgspec.field(default_factory=BronzeKeys)
    gold: list[GoldKeys] = msgspec.field(default_factory=list)
    state: list[StateKeys] = msgspec.field(default_factory=list)
    storage: dict[str, str | bool | int] = msgspec.field(default_factory=dict)
