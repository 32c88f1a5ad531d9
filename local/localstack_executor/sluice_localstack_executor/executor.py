"""LocalStack's Lambda executor without containers: one `awslambdaric` process per execution environment.

`SLUICE_LAMBDA_PYTHON` names the interpreter of the functions. It needs awslambdaric and must not have the project
installed.
"""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from concurrent.futures import TimeoutError as TookTooLong
from pathlib import Path

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from sluice_localstack_executor.runtime_api import Invocation, Reply, RuntimeApi

DEFAULT_TIMEOUT_S = 3  # AWS::Lambda::Function Timeout, default


class Sandbox:
    """A function process and the runtime API it polls. Never started twice."""

    def __init__(self, version: FunctionVersion, environment: dict[str, str], folder: Path) -> None:
        self._api = RuntimeApi()
        code = str(version.config.code.get_unzipped_code_location())
        self._log = open(folder / "log.txt", "ab+")
        self._log_seen = self._log.seek(0, os.SEEK_END)
        self._process = subprocess.Popen(
            [os.environ["SLUICE_LAMBDA_PYTHON"], "-m", "awslambdaric", version.config.handler],
            cwd=code,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,  # in LocalStack's own group, so that it ends with LocalStack
            env={
                **{name: str(value) for name, value in environment.items()},
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "TMPDIR": str(folder),
                "TZ": ":UTC",
                "PYTHONUNBUFFERED": "1",
                "PYTHONPATH": code,
                "LAMBDA_TASK_ROOT": code,
                "AWS_LAMBDA_RUNTIME_API": self._api.address,
            },
        )
        threading.Thread(target=self._watch, daemon=True, name="lambda-process-watch").start()

    def _watch(self) -> None:
        code = self._process.wait()
        body = json.dumps(
            {"errorType": "Runtime.ExitError", "errorMessage": f"Runtime exited with code {code}"}
        ).encode()
        self._api.process_ended(Reply(body, True), StatusErrorException("the function's process ended", payload=body))

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Return when the handler is loaded. Raises StatusErrorException if it can't be, and TimeoutError."""
        self._api.ready.result(timeout=config.LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT)

    def invoke(self, invocation: Invocation, timeout_s: int) -> Reply:
        """Run one event. Kills a function that exceeds its timeout, as Lambda does."""
        self._api.submit(invocation)
        try:
            return invocation.reply.result(timeout=timeout_s)
        except TookTooLong:
            self.kill()
            message = f"RequestId: {invocation.request_id} Error: Task timed out after {timeout_s}.00 seconds"
            return Reply(json.dumps({"errorType": "Sandbox.Timedout", "errorMessage": message}).encode(), True)

    def new_output(self) -> str:
        """Output of the process since the last call."""
        self._log.seek(self._log_seen)
        output = self._log.read()
        self._log_seen = self._log.tell()
        return output.decode(errors="replace")

    def kill(self) -> None:
        """End the process."""
        if self.alive:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End the process and free its resources."""
        self.kill()
        self._api.close()
        self._log.close()


class ProcessExecutor(RuntimeExecutor):
    """LocalStack's interface of one execution environment. The next event replaces a dead process, as in Lambda."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:
        super().__init__(id, function_version)
        self._timeout_s = int(function_version.config.timeout or DEFAULT_TIMEOUT_S)
        self._folder = Path(tempfile.mkdtemp(prefix=f"lambda-{id[:8]}-"))
        self._environment: dict[str, str] = {}
        self._sandbox: Sandbox | None = None

    def start(self, env_vars: dict[str, str]) -> None:
        self._environment = env_vars
        self._fresh_sandbox()

    def _fresh_sandbox(self) -> Sandbox:
        if self._sandbox is not None:
            self._sandbox.close()
        self._sandbox = Sandbox(self.function_version, self._environment, self._folder)
        self._sandbox.wait_until_ready()
        return self._sandbox

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        sandbox = self._sandbox if self._sandbox is not None and self._sandbox.alive else self._fresh_sandbox()
        invocation = Invocation(
            request_id=payload["invoke-id"],
            function_arn=payload["invoked-function-arn"],
            trace_id=payload["trace-id"],
            deadline_ms=int((time.time() + self._timeout_s) * 1000),
            event=payload["payload"].encode(),
        )
        started = time.perf_counter()
        reply = sandbox.invoke(invocation, self._timeout_s)
        elapsed_ms = (time.perf_counter() - started) * 1000
        return InvocationResult(
            invocation.request_id,
            reply.body,
            reply.is_error,
            self._report(invocation.request_id, sandbox.new_output(), elapsed_ms),
        )

    def _report(self, request_id: str, output: str, elapsed_ms: float) -> str:
        memory = self.function_version.config.memory_size
        return (
            f"START RequestId: {request_id} Version: $LATEST\n{output}END RequestId: {request_id}\n"
            f"REPORT RequestId: {request_id}\tDuration: {elapsed_ms:.2f} ms\t"
            f"Billed Duration: {int(elapsed_ms) + 1} ms\t"
            f"Memory Size: {memory} MB\tMax Memory Used: {memory} MB\t"
        )

    def stop(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
        shutil.rmtree(self._folder, ignore_errors=True)  # a file that can't be removed stays in the temporary folder

    def get_address(self) -> str:
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        return ""  # of LocalStack's own runtime init, which doesn't run here

    def get_logs(self) -> str:
        log = self._folder / "log.txt"
        return log.read_text(errors="replace") if log.exists() else ""

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        if function_version.config.code:
            function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """Do nothing: LocalStack removes the unpacked code."""
