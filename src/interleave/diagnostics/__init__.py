"""List of backends, contract checks for them, and checks of the installation."""
