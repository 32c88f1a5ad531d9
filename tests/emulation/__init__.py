"""AWS as tests emulate it: services, a deployment on them, and what roles allow."""
