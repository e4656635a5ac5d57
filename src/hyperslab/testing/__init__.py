"""Tests that are shipped: what every store and every format promises, to be run against one of your own."""
