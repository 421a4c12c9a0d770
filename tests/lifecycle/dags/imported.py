"""A DAG that says which package the dag processor imports, by its words, and which a task, by its result."""

from airflow.sdk import DAG, task

import airflow_rankguard


@task
def imported() -> str:
    """Where this process has the package from."""
    return airflow_rankguard.__file__


with DAG("imported", schedule=None, doc_md=airflow_rankguard.__file__):
    imported()
