"""The state machine of table services on the emulator's interpreter, with tasks whose answers a test sets."""

import json
import re
from pathlib import Path

from ministack.services import stepfunctions

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "statemachines" / "table_services.asl.json").read_text()
APPLICATION = "00f1982r1uukb925"
PLACEHOLDERS = {"Partition": "aws", "Ledger": "ledger", "Application": APPLICATION}
FUNCTIONS = {"PlanServices", "Supervise", "SyncCatalog"}
ASK = "arn:aws:states:::aws-sdk:emrserverless:getJobRun"
UPDATE = "arn:aws:states:::dynamodb:updateItem"
# Step Functions' developer guide, error handling: States.ALL catches neither of them.
NEVER_CAUGHT = {"States.Runtime", "States.DataLimitExceeded"}


def substituted():
    values = {
        **PLACEHOLDERS,
        "GetJobRun": ASK,
        **{name: f"arn:aws:lambda:eu-central-1:123456789012:function:{name}" for name in FUNCTIONS},
    }
    return json.loads(re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], TEXT))


DEFINITION = substituted()


def states(node=DEFINITION):
    """Every state by its name, those within maps and branches too."""
    for name, state in node["States"].items():
        yield name, state
        for below in (state["ItemProcessor"],) if "ItemProcessor" in state else state.get("Branches", ()):
            yield from states(below)


TASKS = {name: state for name, state in states() if state["Type"] == "Task"}

NOTHING = {"requests": [], "open": 0, "done": 0, "failed": 0, "given_up": 0, "wait_s": 1, "until": 9}
RUN = {"lane": "main", "run": "run-main-1", "job_run": "00f1", "wait_s": 7, "looks": 0}
RUNNING, SUCCESS, FAILED = ({"JobRun": {"State": state}} for state in ("RUNNING", "SUCCESS", "FAILED"))


class Failure(Exception):
    """What a task fails with: the error's name as Step Functions gives it."""


class Machine:
    """The definition on the emulator's interpreter.

    Each task's answers are given in order, the last one again and again.
    """

    def __init__(self, monkeypatch):
        self.refused = lambda resource, data: None  # the name of the error with which a call of AWS is refused
        self.answers = {
            "gather": [{"go": True, "wait_s": 5}],
            "plan": [{"syncs": [], "runs": [], "follow": NOTHING}],
            "ask": [SUCCESS],
            "supervise": [{"lanes": 1, "steps": 0}],
            "sync": [{}],
            "remember": [{}],
        }
        self.calls, self.inputs, self.waits, self.entered = [], [], [], []
        monkeypatch.setattr(stepfunctions, "_invoke_resource", self._invoke)
        monkeypatch.setattr(
            stepfunctions, "_invoke_resource_with_timeout", lambda resource, data, timeout: self._invoke(resource, data)
        )
        monkeypatch.setattr(stepfunctions, "_scaled_sleep", self.waits.append)
        matches = stepfunctions._error_matches
        monkeypatch.setattr(
            stepfunctions,
            "_error_matches",
            lambda names, error: matches(names, error) and (error not in NEVER_CAUGHT or error in names),
        )
        for kind in ("pass", "task", "choice", "wait", "parallel", "map"):
            self._note_states(monkeypatch, f"_execute_{kind}")

    def _note_states(self, monkeypatch, handler):
        """Keep the type of each state that is entered; those that end an execution have no handler."""
        whole = getattr(stepfunctions, handler)

        def noted(state, *given):
            self.entered.append(state["Type"])
            return whole(state, *given)

        monkeypatch.setattr(stepfunctions, handler, noted)

    def _invoke(self, resource, data):
        name = (
            {ASK: "ask", UPDATE: "remember"}.get(resource)
            or data.get("step")
            or {"Supervise": "supervise", "SyncCatalog": "sync"}[resource.rsplit(":", 1)[-1]]
        )
        refusal = self.refused(resource, data)
        if refusal:
            raise stepfunctions._ExecutionError(refusal, "not allowed")
        self.calls.append(name)
        self.inputs.append(data)
        given = self.answers[name]
        answer = given[0] if len(given) == 1 else given.pop(0)
        if isinstance(answer, Failure):
            raise stepfunctions._ExecutionError(str(answer), "on purpose")
        return answer

    def part(self, node, given):
        """What a branch, or what is done with an item of a map, gives back."""
        context = {"Execution": {}, "StateMachine": {}, "variables": {}}
        return stepfunctions._run_sub_machine(node["States"], node["StartAt"], given, {"events": []}, context)

    def run(self):
        """The output, or the error that the execution ends with."""
        try:
            output = self.part(DEFINITION, {"by": "schedule"})
            return {name: output[name] for name in ENDED_WELL} if output.keys() >= ENDED_WELL.keys() else output
        except stepfunctions._ExecutionError as error:
            return error.error

    def planned(self, *, runs=(), follow=NOTHING, syncs=()):
        self.answers["plan"] = [{"syncs": list(syncs), "runs": list(runs), "follow": follow}]

    def count(self, name):
        return self.calls.count(name)


ONE = {"lane": "main", "table": "a.b", "service": "compaction", "request": "compaction-1"}


def open_request(**more):
    return {**NOTHING, "requests": [ONE], "open": 1, "wait_s": 3, **more}


SYNC = {"table": "a.b", "instant": "20240101", "commits": "7", "at": "1700000000000"}
ENDED_WELL = {"done": 0, "failed": 0, "given_up": 0}
