"""Step Functions as the state machine here needs them: JSONata without a Java, which LocalStack would download, and rules that start executions with an input of their own."""

import uuid
from typing import Any

from jsonata import Jsonata
from localstack.services.plugins import Service, aws_provider


@aws_provider(api="stepfunctions", name="python_jsonata")
def state_machines_with_python_jsonata() -> Service:
    """The provider that `PROVIDER_OVERRIDE_STEPFUNCTIONS=python_jsonata` selects: LocalStack's own, but for the evaluation and for what rules start."""
    from localstack.services.events.target import StatesTargetSender
    from localstack.services.stepfunctions.asl.jsonata import jsonata as expressions
    from localstack.services.stepfunctions.provider import StepFunctionsProvider

    def evaluated(expression: str) -> Any:
        """The value of an expression that names its variables itself. Raises what LocalStack raises for one that has none."""
        try:
            return Jsonata.jsonata(expression).evaluate(None)
        except Exception as error:  # whatever it is, it is the expression's, and the execution tells it
            raise expressions.JSONataException("UNKNOWN", str(error)) from error

    expressions._eval_jsonata = evaluated
    StatesTargetSender.send_event = _start_execution
    return Service.for_provider(StepFunctionsProvider())


def _start_execution(sender: Any, event: Any, trace_header: Any) -> None:
    """What a rule does to a state machine. LocalStack's own names an execution by its event's id, and starts none where a target's constant input takes the event's place."""
    from localstack.services.events.utils import to_json_str

    sender.service = "stepfunctions"
    name = event.get("id") if isinstance(event, dict) else None
    sender.client.start_execution(
        stateMachineArn=sender.target["Arn"], name=name or str(uuid.uuid4()), input=to_json_str(event)
    )
