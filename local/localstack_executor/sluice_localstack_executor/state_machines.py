"""Step Functions whose JSONata is evaluated in Python: LocalStack's own evaluation downloads a Java and its libraries at the first expression."""
from typing import Any

from jsonata import Jsonata
from localstack.services.plugins import Service, aws_provider


@aws_provider(api="stepfunctions", name="python_jsonata")
def state_machines_with_python_jsonata() -> Service:
    """The provider that `PROVIDER_OVERRIDE_STEPFUNCTIONS=python_jsonata` selects: LocalStack's own, but for the evaluation."""
    from localstack.services.stepfunctions.asl.jsonata import jsonata as expressions
    from localstack.services.stepfunctions.provider import StepFunctionsProvider

    def evaluated(expression: str) -> Any:
        """The value of an expression that names its variables itself. Raises what LocalStack raises for one that has none."""
        try:
            return Jsonata.jsonata(expression).evaluate(None)
        except Exception as error:  # whatever it is, it is the expression's, and the execution tells it
            raise expressions.JSONataException("UNKNOWN", str(error)) from error

    expressions._eval_jsonata = evaluated
    return Service.for_provider(StepFunctionsProvider())
