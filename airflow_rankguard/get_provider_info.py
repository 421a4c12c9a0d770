"""What Airflow's providers manager is told."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Describe the provider."""
    return {
        "package-name": "airflow-provider-rankguard",
        "name": "Rank Guard",
        "description": "At most one active run per key, however it was started.",
        "hooks": [
            {
                "integration-name": "Rank Guard",
                "python-modules": ["airflow_rankguard.hooks.rankguard", "airflow_rankguard.hooks.dataforseo"],
            }
        ],
        "operators": [
            {
                "integration-name": "Rank Guard",
                "python-modules": ["airflow_rankguard.operators.rankguard", "airflow_rankguard.operators.rank_check"],
            }
        ],
        "sensors": [{"integration-name": "Rank Guard", "python-modules": ["airflow_rankguard.sensors.rankguard"]}],
        "extra-links": ["airflow_rankguard.links.BlockingRunLink", "airflow_rankguard.links.HoldingRunLink"],
        "cli": ["airflow_rankguard.cli.definition.get_rankguard_cli_commands"],
        "config": {
            "rankguard": {
                "description": "Settings of the rank guard.",
                "options": {
                    "listener": {
                        "description": "Let a DagRun's end free its keys at once; without it the next start does."
                        " Goes by the connection rankguard_default. Any listener makes Airflow refuse DAGs that use"
                        " end_from_trigger.",
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": None,
                        "default": "False",
                    },
                    "recordings": {
                        "description": "A folder of recorded search results that rank checks read instead of asking"
                        " a provider.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "recordings",
                        "default": None,
                    },
                    "unusually_long": {
                        "description": "After how many seconds the page calls it unusual that a run holds its key.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": None,
                        "default": "86400",
                    },
                    "queue_looks": {
                        "description": "When to look for the pages of searches in a provider's queue: minutes after"
                        " they were posted, the last one being the last look.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": None,
                        "default": "4, 6, 8, 10, 12, 15",
                    },
                },
            },
        },
    }
