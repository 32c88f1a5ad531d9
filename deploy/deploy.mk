# Deploys the stack with SAM: `make deploy`, and `make deploy ENV=prod` for an environment of samconfig.toml.
# Needs `sluice` and `sam` (pip install aws-sam-cli).
ENV ?= default
# The name that samconfig.toml gives the stack. SAM reads it there.
STACK := $(shell sed -n '/^\[$(ENV)\.global\./,/^\[/s/^ *stack_name *= *"\([^"]*\)".*/\1/p' samconfig.toml 2>/dev/null)
STACK := $(or $(STACK),sluice$(if $(filter-out default,$(ENV)),-$(ENV)))
LAMBDA_PYTHON ?= 3.13
LAMBDA_ARCHITECTURE ?= arm64
SPARK_ARCHITECTURE ?= both
TEMPLATE ?= template.yaml
SLUICE_COMMAND ?= sluice
SAM ?= sam
export SAM_CLI_TELEMETRY := 0
# boto3, and so SAM, reads the one and not the other.
ifneq ($(AWS_REGION),)
export AWS_DEFAULT_REGION := $(AWS_REGION)
endif

.PHONY: build package deploy on-aws with-sam checked upload delete

build: with-sam  ## build the functions for Lambda
	$(SLUICE_COMMAND) package --functions .aws-sam/functions.zip --python $(LAMBDA_PYTHON)
	$(SAM) build --template $(TEMPLATE) --config-env $(ENV) --parameter-overrides Runtime=python$(LAMBDA_PYTHON) Architecture=$(LAMBDA_ARCHITECTURE)

package:  ## build the Spark artifacts for both architectures
	$(SLUICE_COMMAND) package

# The release is uploaded first, and one `sam deploy` changes functions and release together. Only the first time there is
# no bucket yet: then a deployment without a release makes it, and until the second one admit starts no run.
# PARAMETERS="MaximumCpu='32 vCPU'" sets more, over those of samconfig.toml. What is quoted within them, SAM reads itself.
# CloudFormation can't change a started application: lanes are paused while that is needed.
SLUICE = $(SLUICE_COMMAND) --stack $(STACK)
RELEASE = .aws-sam/release
# SAM asks where samconfig.toml says so (confirm_changeset), but not without a terminal, as the steps of `sluice`: it would
# end with an error while lanes are paused. A first deployment has the yes to its first step.
CONFIRM := $(shell test -t 0 || echo --no-confirm-changeset)
FIRST = .aws-sam/first
UPLOAD = $(SLUICE) package --arch $(SPARK_ARCHITECTURE) --upload --release-file $(RELEASE)
GIVEN = $(SLUICE) package --template $(TEMPLATE) --parameters "$(ENV) Runtime=python$(LAMBDA_PYTHON) Architecture=$(LAMBDA_ARCHITECTURE) $(PARAMETERS)"
deploy: on-aws with-sam checked upload build  ## upload the Spark artifacts under their content hash, and sam deploy with that release
	$(SLUICE) standstill begin --yes --before-deploy $(TEMPLATE) --environment $(ENV) --parameter-overrides "$$($(GIVEN))"
	test -s $(RELEASE) || { $(SAM) deploy --config-env $(ENV) $(CONFIRM) --parameter-overrides "$$($(GIVEN))" && $(UPLOAD) && touch $(FIRST); }
	$(SAM) deploy --config-env $(ENV) $(CONFIRM) $$(test ! -e $(FIRST) || echo --no-confirm-changeset) --parameter-overrides "$$($(GIVEN) --parameters Release=$$(cat $(RELEASE)))"
	$(SLUICE) standstill end

with-sam:
	@command -v $(firstword $(SAM)) >/dev/null || { \
		echo "error: there is no $(firstword $(SAM)), the tool of AWS that builds and deploys the stack" >&2; \
		echo "next step: pip install aws-sam-cli (or pipx, or uv tool), or name yours: SAM=/path/to/sam" >&2; \
		exit 1; }

# An environment, a parameter or a stack's name that doesn't exist ends here: within the steps below, its error would not.
checked:
	@$(GIVEN) >/dev/null

# The first of the steps that reach AWS: without a Region or credentials a deployment ends here.
upload:
	@rm -f $(RELEASE) $(FIRST)
	$(UPLOAD) --if-deployed

on-aws:
	@if [ -n "$$AWS_ENDPOINT_URL" ] && grep -q AWS::EMRServerless::Application $(TEMPLATE); then \
		echo "An emulator has no EMR Serverless, which $(TEMPLATE) needs (AWS_ENDPOINT_URL is $$AWS_ENDPOINT_URL)." >&2; \
		echo "'sluice local up' deploys the same template with a stand-in." >&2; \
		exit 2; \
	fi

delete: with-sam checked  ## stop Spark and delete the stack, without a question; buckets, ledger and key stay
	$(SLUICE) standstill begin --yes
	$(SAM) delete --config-env $(ENV) --stack-name $(STACK) --no-prompts
