"""Services that the moto which LocalStack bundles serves: its own DynamoDB downloads a Java program that may not be there, and Glue it has none without a licence."""

import threading

from localstack.aws.spec import load_service
from localstack.services.moto import call_moto
from localstack.services.plugins import Service, aws_provider

from sluice_localstack_executor.transactions import undo_by_item

_ONE_AT_A_TIME = threading.Lock()  # moto goes through its tables while others write; nothing else keeps them whole


class MotoService:
    """Only names the service; every operation is moto's."""

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
    """The provider that `PROVIDER_OVERRIDE_DYNAMODB=moto` selects."""
    undo_by_item()
    return _on_moto("dynamodb")


@aws_provider(api="dynamodbstreams", name="moto")
def dynamodbstreams_on_moto() -> Service:
    """The provider that `PROVIDER_OVERRIDE_DYNAMODBSTREAMS=moto` selects: a table and its stream must be served by the same code."""
    return _on_moto("dynamodbstreams")


@aws_provider(api="glue", name="moto")
def glue_on_moto() -> Service:
    """The provider that `PROVIDER_OVERRIDE_GLUE=moto` selects."""
    return _on_moto("glue")
