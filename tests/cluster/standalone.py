"""The cluster of the tests is that of the benchmarks."""

from penstock.bench.standalone import SETTINGS as SETTINGS
from penstock.bench.standalone import Cluster as Cluster
from penstock.bench.standalone import Driver as Driver
from penstock.bench.standalone import Process as Process
from penstock.bench.standalone import running as running
from penstock.bench.standalone import until as until
