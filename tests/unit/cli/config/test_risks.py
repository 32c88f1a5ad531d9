"""The steps that a changed setting needs."""

from types import SimpleNamespace

from sluice_aws.clients import Credentials
from sluice_cli.config.risks import drop_in_glue


def stack(endpoint, credentials):
    return SimpleNamespace(endpoint=endpoint, credentials=credentials, region="us-east-1")


def test_a_glue_table_of_a_local_stack_is_dropped_at_its_endpoint_and_by_its_keys():
    step = drop_in_glue(stack("http://127.0.0.1:4599", Credentials("test", "secret")), "crm", ["user"], "main")
    assert (
        "`AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=secret aws --endpoint-url http://127.0.0.1:4599 "
        "--region us-east-1 glue delete-table --database-name crm --name user`" in step
    )
    step = drop_in_glue(stack(None, None), "crm", ["user"], "main")
    assert "`aws glue delete-table --database-name crm --name user`" in step
