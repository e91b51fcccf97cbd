"""Trains a model with tony-ts every day, and prints its metrics. Copy this file into Airflow's DAG folder."""

from airflow.sdk import DAG, task

from tony.airflow import TonyOperator


@task
def show(result):
    print(f"{result['id']} has trained {result['step']} steps: {result['metrics']}")


with DAG("train", schedule="@daily", catchup=False):
    train = TonyOperator(
        task_id="train",
        conf="/opt/jobs/mnist/job.yaml",
        set={"env.DAY": "{{ ds }}"},
        hadoop_conf_dir="/etc/hadoop/conf",
        retries=1,
    )
    show(train.output)
