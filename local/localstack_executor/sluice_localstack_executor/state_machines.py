"""Step Functions for Sluice's state machine: JSONata without a Java, and rules with an input."""

import uuid
from typing import Any

from jsonata import Jsonata
from localstack.services.plugins import Service, aws_provider


@aws_provider(api="stepfunctions", name="python_jsonata")
def state_machines_with_python_jsonata() -> Service:
    """The provider for `PROVIDER_OVERRIDE_STEPFUNCTIONS=python_jsonata`: LocalStack's own, with two changes."""
    from localstack.services.events.target import StatesTargetSender
    from localstack.services.stepfunctions.asl.jsonata import jsonata as expressions
    from localstack.services.stepfunctions.provider import StepFunctionsProvider

    def evaluated(expression: str) -> Any:
        """Evaluate an expression that defines its own variables. Raises LocalStack's error if it can't be evaluated."""
        try:
            return Jsonata.jsonata(expression).evaluate(None)
        except Exception as error:  # any error is the expression's, and the execution reports it
            raise expressions.JSONataException("UNKNOWN", str(error)) from error

    expressions._eval_jsonata = evaluated
    StatesTargetSender.send_event = _start_execution
    return Service.for_provider(StepFunctionsProvider())


def _start_execution(sender: Any, event: Any, trace_header: Any) -> None:
    """Start an execution for a rule.

    LocalStack's own code names an execution by its event's id, and starts none for a target with a constant input.
    """
    from localstack.services.events.utils import to_json_str

    sender.service = "stepfunctions"
    name = event.get("id") if isinstance(event, dict) else None
    sender.client.start_execution(
        stateMachineArn=sender.target["Arn"], name=name or str(uuid.uuid4()), input=to_json_str(event)
    )
