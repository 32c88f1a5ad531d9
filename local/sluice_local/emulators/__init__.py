"""The emulators of AWS: MiniStack and LocalStack."""
