"""Settings of one deployment, read from environment variables: names of buckets, tables and roles, and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from sluice.admission.verdict import FORGET_AFTER_MS
from sluice.lane.job_request import JobEnvironment
from sluice_aws.errors import SettingsMissing

# Field -> environment variable. The template sets them on every function, except the endpoints of an emulator.
VARIABLES = {
    "region": "AWS_REGION",
    "stack": "STACK_NAME",
    "ledger_table": "LEDGER_TABLE",
    "bronze_bucket": "BRONZE_BUCKET",
    "silver_bucket": "SILVER_BUCKET",
    "artifact_bucket": "ARTIFACT_BUCKET",
    "application_id": "APPLICATION_ID",
    "job_role_arn": "JOB_ROLE_ARN",
    "release": "RELEASE",
    "hudi_jars": "HUDI_JARS",
    "architecture": "ARCHITECTURE",
    "event_bus": "EVENT_BUS",
    "key_arn": "KEY_ARN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "emr_endpoint_url": "AWS_ENDPOINT_URL_EMR_SERVERLESS",
}
# "none" means that no release is set yet: CloudFormation cannot pass an empty string everywhere.
NO_RELEASE = ("", "none")


@dataclass(frozen=True)
class Settings(JobEnvironment):
    """Names and limits of one deployment. An empty name is not set; times are seconds."""

    event_bus: str = "default"
    endpoint_url: str = ""
    emr_endpoint_url: str = ""
    reconcile_grace_s: int = 900
    forget_after_s: int = FORGET_AFTER_MS // 1000
    services_pause_s: int = 30
    late_after_s: int = 900
    table_metrics: bool = False
    encrypts_traffic: bool = False

    @classmethod
    def from_env(cls, environment: Mapping[str, str], *, needed: tuple[str, ...] = ()) -> Settings:
        """Read the settings from variables; `needed` names the required fields.

        Raises SettingsMissing, with every variable that is missing, empty, or not a number where one is required.
        """
        values: dict[str, Any] = {field.name: "" for field in fields(JobEnvironment) if field.default is MISSING}
        values |= {field: environment[name] for field, name in VARIABLES.items() if environment.get(name)}
        values["region"] = values["region"] or environment.get("AWS_DEFAULT_REGION", "")
        if values["release"] in NO_RELEASE:
            values["release"] = ""
        wrong = []
        for field, name in (
            ("reconcile_grace_s", "RECONCILE_GRACE_SECONDS"),
            ("forget_after_s", "FORGET_AFTER_SECONDS"),
            ("services_pause_s", "SERVICES_PAUSE_SECONDS"),
            ("late_after_s", "LATE_AFTER_SECONDS"),
        ):
            text = environment.get(name, "")
            if text.isdigit():
                values[field] = int(text)
            elif text:
                wrong.append(name)
        tags = (tag.partition("=") for tag in environment.get("JOB_RUN_TAGS", "").split(","))
        values["tags"] = tuple((name, value) for name, _, value in tags if name)
        values["table_metrics"] = environment.get("TABLE_METRICS") == "true"
        values["encrypts_traffic"] = environment.get("ENCRYPT_TRAFFIC") == "true"
        settings = cls(**values)
        wrong += [VARIABLES[field] for field in needed if not getattr(settings, field)]
        if wrong:
            raise SettingsMissing(f"Not set or not valid: {', '.join(wrong)}", variables=wrong)
        return settings

    @property
    def starts_runs(self) -> bool:
        """False until a release of the Spark code is set: objects are admitted, but no run starts."""
        return bool(self.release)
