"""The driver: plans a job, hands its stages to Spark, and puts together what comes back."""
