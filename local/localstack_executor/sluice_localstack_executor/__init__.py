"""LocalStack's entry point to the process executor (`LAMBDA_RUNTIME_EXECUTOR=process`)."""

from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    """Names the executor. Its modules load when LocalStack asks for it."""

    name = "process"

    def load(self, *args, **kwargs):
        from sluice_localstack_executor.executor import ProcessExecutor

        return ProcessExecutor
