"""The job's role, and the user of each of its actions."""

from emulation.iam_enforcement import ACCOUNT, Role

# (Sid, action) -> who asks, out of reach of the driver's Python. Each is tried by `make test-job-permissions`.
BY_THE_JVM = {
    ("WriteSilver", "s3:GetObject"): "Hudi reads its timeline, its properties and its files",
    ("WriteSilver", "s3:PutObject"): "Hudi writes them",
    ("WriteSilver", "s3:DeleteObject"): "Hudi removes what a rollback, a cleaning or a finished write leaves",
    ("ListSilverAndArtifacts", "s3:ListBucket"): "Hudi lists its timeline, S3A looks for folders",
}
# What no local run asks for: a driver commits without all three. They stay, since EMR's own build of the S3 client
# isn't the one that was tried.
UNSEEN = {
    ("WriteSilver", "s3:AbortMultipartUpload"): "S3A gives up a large file that can't be finished",
    ("WriteSilver", "s3:ListMultipartUploadParts"): "a client that goes on with an upload looks at its parts",
    ("ListSilverAndArtifacts", "s3:GetBucketLocation"): "a client looks for a bucket's region",
}
BY_OTHERS = {
    (
        "TellGoneFromForbidden",
        "s3:ListBucket",
    ): "S3's choice between 404 and 403: tests/unit/docs/test_template_permissions.py",
    ("TellGoneFromForbidden", "s3:ListBucketVersions"): "the same where a version is named",
    ("FindWhatIsSetAside", "dynamodb:Query"): "full dumps of a generation: test_driver_permissions.py",
    ("ReadHashKeys", "secretsmanager:GetSecretValue"): "tables with hashed columns: tests/unit/aws/test_hash_keys.py",
    ("WriteJobLogs", "s3:PutObject"): "EMR Serverless, as the job",
}


def job_names(
    application: str, *, region: str, account: str = ACCOUNT, ledger: str, bronze: str, silver: str, artifacts: str
) -> dict[str, str]:
    """What the template's references stand for in a deployment."""
    return {
        "AWS::Partition": "aws",
        "AWS::Region": region,
        "AWS::AccountId": account,
        "AWS::StackName": "s",
        "BronzeBucketName": bronze,
        "SilverBucketName": silver,
        "ArtifactBucketName": artifacts,
        "ApplicationId": application,
        "Ledger.Arn": f"arn:aws:dynamodb:{region}:{account}:table/{ledger}",
    }


def job_grants() -> list[tuple[str, str]]:
    """Sid and action of everything that the job's role allows."""
    return Role("JobRole", job_names("a", region="r", ledger="l", bronze="b", silver="s", artifacts="a")).grants
