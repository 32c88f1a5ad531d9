"""Services of LocalStack's bundled moto: its own DynamoDB downloads a Java program, and its Glue needs a licence."""

import threading

from localstack.aws.spec import load_service
from localstack.services.moto import call_moto
from localstack.services.plugins import Service, aws_provider

from sluice_localstack_executor.transactions import undo_by_item

_ONE_AT_A_TIME = threading.Lock()  # moto iterates over its tables while others write, and has no lock of its own


class MotoService:
    """Names the service. Moto serves every operation."""

    def __init__(self, service: str) -> None:
        self.service = service


def _on_moto(service: str) -> Service:
    def answer(context, request):
        with _ONE_AT_A_TIME:
            return call_moto(context)

    operations = dict.fromkeys(load_service(service).operation_names, answer)
    return Service.for_provider(MotoService(service), dispatch_table_factory=lambda provider: operations)


@aws_provider(api="dynamodb", name="moto")
def dynamodb_on_moto() -> Service:
    """The provider for `PROVIDER_OVERRIDE_DYNAMODB=moto`."""
    undo_by_item()
    return _on_moto("dynamodb")


@aws_provider(api="dynamodbstreams", name="moto")
def dynamodbstreams_on_moto() -> Service:
    """The provider for `PROVIDER_OVERRIDE_DYNAMODBSTREAMS=moto`: the same code must serve a table and its stream."""
    return _on_moto("dynamodbstreams")


@aws_provider(api="glue", name="moto")
def glue_on_moto() -> Service:
    """The provider for `PROVIDER_OVERRIDE_GLUE=moto`."""
    return _on_moto("glue")
